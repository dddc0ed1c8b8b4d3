// Sound files: .wav of PCM with 16, 24 or 32 bits or of floats, read and written a piece at a time in bounded memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace rtf {

enum class SampleFormat { pcm16, pcm24, pcm32, f32, f64 };

const char* name(SampleFormat format);

struct WavFormat {
  std::size_t channels = 1;
  std::uint32_t rate = 48000;  // frames a second
  SampleFormat samples = SampleFormat::pcm16;
  std::uint32_t speakers = 0;  // a bit for each channel's loudspeaker, as WAVE_FORMAT_EXTENSIBLE has it; 0: not said
};

// Samples come as double, PCM divided by full scale so that it fills [-1, 1). RIFF and RF64; chunks of any order, those
// that are not known are passed over; plain and extensible format chunks; a length that a stream left open (2^32 - 1)
// means all that follows.
class WavReader {
 public:
  // A pipe is refused, unless `streams`: its samples are then read as they come.
  explicit WavReader(const std::string& path, bool streams = false);
  // Whatever it is: a file, a pipe, a socket.
  static WavReader standard_input();
  ~WavReader();

  const WavFormat& format() const;
  // In frames; of a pipe whose header leaves it open, open_length.
  std::uint64_t length() const;
  static constexpr std::uint64_t open_length = UINT64_MAX;

  // The next frames, (frames, channels), as many as fit and as there are, of a pipe as have come; returns their number,
  // 0 at the end.
  std::size_t read(std::span<double> samples);

 private:
  struct Impl;
  explicit WavReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Writes beside `path` under a temporary name until commit(); without it nothing stays. PCM is rounded to the nearest
// value, ties to even, and clipped at full scale. RF64 where 2^32 bytes do not suffice.
class WavWriter {
 public:
  WavWriter(const std::string& path, const WavFormat& format, std::uint64_t length);
  ~WavWriter();

  // (frames, channels).
  void write(std::span<const double> samples);
  std::uint64_t clipped() const;  // samples so far that PCM could not hold

  // To disk; throws unless `length` frames were written.
  void flush();
  // Gives the file its name, after a flush() where there was none.
  void commit();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rtf
