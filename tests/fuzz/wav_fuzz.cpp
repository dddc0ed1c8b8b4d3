#include <sys/mman.h>
#include <unistd.h>

#include <memory>

#include "core/wav_header.h"
#include "fuzz.h"
#include "rtf/wav.h"

using namespace rtf;

namespace {

// A file in memory: the reader takes nothing but paths, and seeks.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : descriptor_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    if (descriptor_ < 0 || ::write(descriptor_, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
      fuzz::finding("no memory file");
  }
  ~MemoryFile() { ::close(descriptor_); }
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

// What the writer puts before samples of this format is read back as it was.
void expect_header_round_trip(const WavFormat& format, std::uint64_t length) {
  const std::string header = wav_header(format, length);
  const std::uint64_t bytes = length * format.channels * bytes_of(format.samples);
  const auto read = [&](std::uint64_t offset, char* buffer, std::size_t count) {
    const std::string_view rest = std::string_view(header).substr(std::min<std::uint64_t>(offset, header.size()));
    return rest.copy(buffer, count);
  };
  const WavData data = find_wav_data(read, header.size() + bytes + bytes % 2, "header");
  fuzz::expect(data.format.channels == format.channels && data.format.rate == format.rate &&
                   data.format.samples == format.samples && data.format.speakers == format.speakers &&
                   data.offset == header.size() && data.bytes == bytes,
               "a format that was read changes when it is written and read again");
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const MemoryFile file({reinterpret_cast<const char*>(data), size});
  std::unique_ptr<WavReader> reader;
  if (!fuzz::accepted([&] { reader = std::make_unique<WavReader>(file.path()); })) return 0;
  const WavFormat format = reader->format();
  expect_header_round_trip(format, reader->length());

  const bool pcm = format.samples != SampleFormat::f32 && format.samples != SampleFormat::f64;
  std::vector<double> samples(3 * format.channels);
  std::uint64_t frames = 0;
  while (const std::size_t got = reader->read(samples)) {
    frames += got;
    for (std::size_t i = 0; pcm && i < got * format.channels; ++i)
      fuzz::expect(samples[i] >= -1 && samples[i] < 1, "a PCM sample beyond full scale");
  }
  fuzz::expect(frames == reader->length(), "fewer or more frames than the length");
  return 0;
}
