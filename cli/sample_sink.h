// Where `rtf stream` puts its answers: a file, whole or not at all, or standard output as they come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "rtf/npy.h"
#include "sample_source.h"

namespace rtf::cli {

class SampleSink {
 public:
  virtual ~SampleSink() = default;
  // (count, outputs); on standard output the reader of a pipe has them when this returns.
  virtual void write(std::span<const double> answers) = 0;
  // To disk: nothing but the name of the file can fail afterwards.
  virtual void flush() = 0;
  virtual void commit() = 0;
  // Samples so far that PCM could not hold.
  virtual std::uint64_t clipped() const { return 0; }
};

struct SinkOptions {
  std::string path;  // or standard_stream
  SampleForm form = SampleForm::text;
  std::size_t outputs = 1;
  DataType precision = DataType::f32;   // of the answers
  std::optional<std::uint64_t> length;  // of all answers, where it is known
  const WavFormat* sound = nullptr;     // of a wav file that the samples come from: its rate and format
};

std::unique_ptr<SampleSink> open_sink(const SinkOptions& options);

}  // namespace rtf::cli
