#include "sample_sink.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <system_error>

#include "core/atomic_file.h"
#include "core/npy_bytes.h"
#include "rtf/error.h"

namespace rtf::cli {
namespace {

constexpr const char* operation = "stream";

[[noreturn]] void fail(ErrorCode code, const std::string& message) { throw Error(code, operation, message); }

void write_standard_output(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto put = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno == EPIPE) fail(ErrorCode::io, "cannot write to standard output: its reader has closed it");
    if (put <= 0)
      fail(ErrorCode::io, fmt::format("cannot write to standard output: {}",
                                      std::generic_category().message(put < 0 ? errno : ENOSPC)));
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
}

// Text, raw numbers, npy.
class BytesSink : public SampleSink {
 public:
  explicit BytesSink(const SinkOptions& options) : options_(options) {
    if (options.path != standard_stream) file_.emplace(options.path, operation);
    if (options.form != SampleForm::npy) return;
    if (!file_ && !options.length)
      fail(ErrorCode::argument,
           "an npy file says at its head how long it is, which is not known yet: write it to a file with -o, or use "
           "--to text or raw");
    put(head(options.length.value_or(0)));
  }

  void write(std::span<const double> answers) override {
    bytes_.clear();
    for (std::size_t i = 0; i < answers.size(); ++i) {
      if (options_.form == SampleForm::text) {
        append_text(answers[i], (i + 1) % options_.outputs == 0 ? '\n' : ' ');
      } else if (options_.form == SampleForm::npy && options_.precision == DataType::f64) {
        append(answers[i]);
      } else {
        append(static_cast<float>(answers[i]));
      }
    }
    put(bytes_);
    written_ += answers.size() / options_.outputs;
  }

  void flush() override {
    if (!file_) return;
    if (options_.form == SampleForm::npy) file_->overwrite(0, head(written_));
    file_->flush();
  }
  void commit() override {
    if (file_) file_->commit();
  }

 private:
  // The same number of bytes whatever the length.
  std::string head(std::uint64_t length) const {
    constexpr std::size_t room = 128;
    return npy_header(options_.precision == DataType::f32 ? "<f4" : "<f8",
                      {static_cast<std::size_t>(length), options_.outputs}, options_.path, room);
  }

  // Digits that read back to the same bits.
  void append_text(double value, char after) {
    char text[64];
    const auto end = options_.precision == DataType::f32
                         ? std::to_chars(text, text + sizeof text, static_cast<float>(value)).ptr
                         : std::to_chars(text, text + sizeof text, value).ptr;
    bytes_.append(text, end).push_back(after);
  }
  template <class T>
  void append(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }

  void put(std::string_view bytes) { file_ ? file_->append(bytes) : write_standard_output(bytes); }

  SinkOptions options_;
  std::optional<StagedFile> file_;
  std::string bytes_;
  std::uint64_t written_ = 0;
};

class WavSink : public SampleSink {
 public:
  explicit WavSink(const SinkOptions& options) : writer_(options.path, format(options), *options.length) {}
  void write(std::span<const double> answers) override { writer_.write(answers); }
  void flush() override { writer_.flush(); }
  void commit() override { writer_.commit(); }
  std::uint64_t clipped() const override { return writer_.clipped(); }

 private:
  static WavFormat format(const SinkOptions& options) {
    WavFormat format = *options.sound;
    if (format.channels != options.outputs) format.speakers = 0;
    format.channels = options.outputs;
    return format;
  }

  WavWriter writer_;
};

}  // namespace

std::unique_ptr<SampleSink> open_sink(const SinkOptions& options) {
  if (options.form != SampleForm::wav) return std::make_unique<BytesSink>(options);
  if (options.path == standard_stream)
    fail(ErrorCode::argument, "a wav file is written with -o alone: use --to raw on standard output");
  if (!options.sound || !options.length)
    fail(ErrorCode::argument, fmt::format("{}: wav comes from wav files of one rate, whose length is known; choose "
                                          "another format for the answers",
                                          options.path));
  return std::make_unique<WavSink>(options);
}

}  // namespace rtf::cli
