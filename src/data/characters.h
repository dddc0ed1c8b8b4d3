// Text as a list of Unicode characters.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rtf::data {

// The first `most` code points of UTF-8 text. Bytes that are no UTF-8 become U+FFFD, one for each longest beginning of
// a character, which is what Python's decode(errors="replace") gives.
std::u32string characters(std::string_view utf8, std::size_t most = static_cast<std::size_t>(-1));

std::string utf8(char32_t character);

}  // namespace rtf::data
