#include "rtf/wav.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <system_error>
#include <utility>

#include "core/arguments.h"
#include "core/array_bytes.h"
#include "core/atomic_file.h"
#include "core/wav_header.h"

namespace rtf {
namespace {

// Full scale of PCM: 2^(bits - 1).
double full_scale(SampleFormat format) { return std::ldexp(1.0, 8 * static_cast<int>(bytes_of(format)) - 1); }

std::int32_t load_pcm(const char* bytes, std::size_t width) {
  // Into the upper bytes of a word, so that the sign comes along.
  std::int32_t value = 0;
  std::memcpy(reinterpret_cast<char*>(&value) + (4 - width), bytes, width);
  return value >> (8 * (4 - width));
}

template <class T>
double load_float(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

void decode(const std::string& bytes, SampleFormat format, std::span<double> samples) {
  const std::size_t width = bytes_of(format);
  const double scale = 1 / full_scale(format);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const char* at = bytes.data() + i * width;
    samples[i] = format == SampleFormat::f32   ? load_float<float>(at)
                 : format == SampleFormat::f64 ? load_float<double>(at)
                                               : load_pcm(at, width) * scale;
  }
}

}  // namespace

const char* name(SampleFormat format) {
  constexpr const char* names[] = {"pcm16", "pcm24", "pcm32", "f32", "f64"};
  return names[static_cast<int>(format)];
}

struct WavReader::Impl {
  Impl(const std::string& path, bool streams, int descriptor)
      : path_(path), streams_(streams), descriptor_(descriptor) {}
  ~Impl() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

  [[noreturn]] void fail(const std::string& why) const {
    throw Error(ErrorCode::io, "read_wav", fmt::format("cannot read {}: {}", path_, why));
  }
  [[noreturn]] void fail_with(int error) const { fail(std::generic_category().message(error)); }

  void open() {
    if (descriptor_ < 0) fail_with(errno);
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0) fail_with(errno);
    if (S_ISDIR(status.st_mode)) fail("it is a folder");
    const bool file = S_ISREG(status.st_mode);
    if (!file && !streams_) fail("it is not a regular file; save the sound to one first");
    streams_ = !file;
    data_ = find_wav_data(
        [this](std::uint64_t offset, char* buffer, std::size_t count) {
          return streams_ ? read_head(offset, buffer, count) : read_at(offset, buffer, count);
        },
        streams_ ? endless : static_cast<std::uint64_t>(status.st_size), path_);
    if (streams_) held_.erase(0, static_cast<std::size_t>(data_.offset));
  }

  // More bytes of a pipe, those that have come; false at its end.
  bool hold_more() {
    const std::size_t used = held_.size();
    held_.resize(used + (std::size_t{1} << 16));
    ssize_t got;
    do got = ::read(descriptor_, held_.data() + used, held_.size() - used);
    while (got < 0 && errno == EINTR);
    const int error = errno;
    held_.resize(used + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0) fail_with(error);
    return got > 0;
  }

  // What comes before the samples is kept: chunks stand in any order.
  std::size_t read_head(std::uint64_t offset, char* buffer, std::size_t count) {
    constexpr std::uint64_t longest_head = std::uint64_t{1} << 26;
    if (offset > longest_head) fail("its samples begin after more than 64 MB; save the sound to a file first");
    while (held_.size() < offset + count && hold_more()) continue;
    const std::size_t begin = std::min(static_cast<std::size_t>(offset), held_.size());
    const std::size_t got = std::min(count, held_.size() - begin);
    std::memcpy(buffer, held_.data() + begin, got);
    return got;
  }

  // The next frames of a pipe, at most `most`, into bytes_.
  std::size_t take_frames(std::size_t most) {
    const std::size_t frame = frame_bytes();
    if (!data_.open) most = static_cast<std::size_t>(std::min<std::uint64_t>(most, data_.bytes / frame - position_));
    if (most == 0) return 0;
    while (held_.size() < frame)
      if (!hold_more()) {
        if (held_.empty() && data_.open) return 0;
        throw Error(
            ErrorCode::format, "read_wav",
            fmt::format("{}: truncated: it ends {} frame {}", path_, held_.empty() ? "before" : "inside", position_));
      }
    const std::size_t frames = std::min(most, held_.size() / frame);
    bytes_.assign(held_, 0, frames * frame);
    held_.erase(0, frames * frame);
    return frames;
  }

  // Less than `count` only at the end of the file.
  std::size_t read_at(std::uint64_t offset, char* buffer, std::size_t count) const {
    std::size_t used = 0;
    while (used < count) {
      const auto got = ::pread(descriptor_, buffer + used, count - used, static_cast<off_t>(offset + used));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail_with(errno);
      if (got == 0) break;
      used += static_cast<std::size_t>(got);
    }
    return used;
  }

  std::uint64_t frame_bytes() const { return data_.format.channels * bytes_of(data_.format.samples); }

  std::string path_, bytes_;
  bool streams_;      // a pipe
  std::string held_;  // of a pipe: bytes that have come and are not used
  int descriptor_;
  WavData data_;
  std::uint64_t position_ = 0;  // in frames
};

WavReader::WavReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) { impl_->open(); }
WavReader::WavReader(const std::string& path, bool streams)
    : WavReader(std::make_unique<Impl>(path, streams, ::open(path.c_str(), O_RDONLY | O_CLOEXEC))) {}
WavReader WavReader::standard_input() {
  return WavReader(std::make_unique<Impl>("standard input", true, ::dup(STDIN_FILENO)));
}
WavReader::~WavReader() = default;

const WavFormat& WavReader::format() const { return impl_->data_.format; }
std::uint64_t WavReader::length() const {
  return impl_->data_.open ? open_length : impl_->data_.bytes / impl_->frame_bytes();
}

std::size_t WavReader::read(std::span<double> samples) {
  Impl& self = *impl_;
  const std::size_t channels = format().channels;
  std::size_t frames = samples.size() / channels;
  if (self.streams_) {
    frames = self.take_frames(frames);
  } else {
    frames = static_cast<std::size_t>(std::min<std::uint64_t>(frames, length() - self.position_));
    self.bytes_.resize(frames * self.frame_bytes());
    if (self.read_at(self.data_.offset + self.position_ * self.frame_bytes(), self.bytes_.data(), self.bytes_.size()) !=
        self.bytes_.size())
      self.fail("it became shorter while it was read");
  }
  decode(self.bytes_, format().samples, samples.first(frames * channels));
  self.position_ += frames;
  return frames;
}

struct WavWriter::Impl {
  Impl(const std::string& path, const WavFormat& format, std::uint64_t length)
      : path_(path), format_(format), length_(length), file_(path, "write_wav") {}

  void encode(double sample, char* at) {
    if (format_.samples == SampleFormat::f64) {
      std::memcpy(at, &sample, 8);
    } else if (format_.samples == SampleFormat::f32) {
      const float narrow = static_cast<float>(sample);
      std::memcpy(at, &narrow, 4);
    } else {
      const double scale = full_scale(format_.samples), rounded = std::nearbyint(sample * scale);
      const double held = std::isnan(rounded) ? 0 : std::clamp(rounded, -scale, scale - 1);
      if (held != rounded) ++clipped_;
      const auto value = static_cast<std::int32_t>(held);
      std::memcpy(at, &value, bytes_of(format_.samples));
    }
  }

  std::string path_, bytes_;
  WavFormat format_;
  std::uint64_t length_, written_ = 0, clipped_ = 0;
  StagedFile file_;
  bool flushed_ = false;
};

WavWriter::WavWriter(const std::string& path, const WavFormat& format, std::uint64_t length) {
  constexpr const char* operation = "write_wav";
  const std::size_t frame = format.channels * bytes_of(format.samples);
  if (format.channels == 0 || frame > 0xffff)
    fail(ErrorCode::argument, operation, "{}: {} channels of {}; a frame holds 1 to 65535 bytes", path, format.channels,
         name(format.samples));
  if (length > (std::uint64_t{1} << 62) / frame)
    fail(ErrorCode::argument, operation, "{}: {} frames are more than a file can hold", path, length);
  impl_ = std::make_unique<Impl>(path, format, length);
  impl_->file_.append(wav_header(format, length));
}

WavWriter::~WavWriter() = default;

void WavWriter::write(std::span<const double> samples) {
  Impl& self = *impl_;
  if (samples.size() % self.format_.channels != 0 ||
      samples.size() / self.format_.channels > self.length_ - self.written_)
    fail(ErrorCode::argument, "write_wav", "{}: {} samples after {} of {} frames of {} channels", self.path_,
         samples.size(), self.written_, self.length_, self.format_.channels);
  const std::size_t width = bytes_of(self.format_.samples);
  self.bytes_.resize(samples.size() * width);
  for (std::size_t i = 0; i < samples.size(); ++i) self.encode(samples[i], self.bytes_.data() + i * width);
  self.file_.append(self.bytes_);
  self.written_ += samples.size() / self.format_.channels;
}

std::uint64_t WavWriter::clipped() const { return impl_->clipped_; }

void WavWriter::flush() {
  Impl& self = *impl_;
  if (self.written_ != self.length_)
    fail(ErrorCode::argument, "write_wav", "{}: {} of {} frames were written", self.path_, self.written_, self.length_);
  if (self.length_ * self.format_.channels * bytes_of(self.format_.samples) % 2 != 0)
    self.file_.append(std::string_view("\0", 1));
  self.file_.flush();
  self.flushed_ = true;
}

void WavWriter::commit() {
  if (!impl_->flushed_) flush();
  impl_->file_.commit();
}

}  // namespace rtf
