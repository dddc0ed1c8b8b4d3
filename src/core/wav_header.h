// What stands before the samples of a wav file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "rtf/wav.h"

namespace rtf {

std::size_t bytes_of(SampleFormat format);

struct WavData {
  WavFormat format;
  std::uint64_t offset = 0, bytes = 0;  // of the samples in the file
  bool open = false;                    // of a pipe: samples come until it ends
};

// The size of a pipe, which nobody knows.
inline constexpr std::uint64_t endless = std::uint64_t{1} << 62;

// `read(offset, buffer, count)` returns how many bytes it could read. Errors name `path` and begin with read_wav.
using ReadAt = std::function<std::size_t(std::uint64_t offset, char* buffer, std::size_t count)>;
WavData find_wav_data(const ReadAt& read, std::uint64_t file_bytes, const std::string& path);

// All bytes before the samples. The samples are followed by a zero byte when their number of bytes is odd.
std::string wav_header(const WavFormat& format, std::uint64_t length);

}  // namespace rtf
