// Where `rtf stream` takes its samples from: files and standard input, in four formats, a piece at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "rtf/wav.h"

namespace rtf::cli {

// The name that stands for standard input and standard output.
inline constexpr const char* standard_stream = "-";

// What people call a path.
std::string shown(const std::string& path);

enum class SampleForm { text, raw, npy, wav };
const char* name(SampleForm form);

// `given` by its name, or when that is empty by the suffix of `path`; standard input is text unless said. Errors tell
// of `option`, which gives it.
SampleForm sample_form(const std::string& path, const std::string& given, const char* option);

class SampleSource {
 public:
  virtual ~SampleSource() = default;
  // The next samples, (count, inputs): as many as have come and fit. Waits for one; 0 at the end.
  virtual std::size_t read(std::span<double> samples) = 0;
  // Of all samples, where it is known beforehand.
  virtual std::optional<std::uint64_t> length() const { return {}; }
  // Of a wav file.
  virtual const WavFormat* sound() const { return nullptr; }
};

// Samples of `inputs` numbers each. Throws where the head of a file already shows another number.
std::unique_ptr<SampleSource> open_source(const std::string& path, SampleForm form, std::size_t inputs);

}  // namespace rtf::cli
