// Pictures: PNG files of 8 bits a number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rtf::data {

struct Picture {
  std::size_t rows = 0, columns = 0, channels = 1;  // 1 grey, 3 red, green and blue
  std::vector<std::uint8_t> pixels;                 // row by row, the channels of a pixel side by side
};

// The bytes of a PNG file.
std::string encode_png(const Picture& picture);
void write_png(const std::string& path, const Picture& picture);

// Grey pictures of at most 8 bits; any other PNG, and what is none, is refused. `path` is for messages.
Picture decode_png(std::string_view bytes, const std::string& path);
Picture read_png(const std::string& path);

}  // namespace rtf::data
