// Text from a file, fit to stand in a message on a terminal.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace rtf {

// How many bytes the character at the beginning of `text` has; 0 for a control character, of lines or of direction, and
// for what is not UTF-8.
inline std::size_t printable_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return first >= 0x20 && first != 0x7f;
  const std::size_t size = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  if (size == 0 || text.size() < size) return 0;
  for (std::size_t i = 1; i < size; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  // Controls of the second page, numbers that have a shorter form or that no character has, ends of lines.
  const unsigned second = byte(1);
  if ((first == 0xc2 && second < 0xa0) || (first == 0xe0 && second < 0xa0) || (first == 0xed && second >= 0xa0))
    return 0;
  if (first == 0xef && second == 0xbf && byte(2) >= 0xbe) return 0;
  if ((first == 0xf0 && second < 0x90) || (first == 0xf4 && second >= 0x90)) return 0;
  // What turns the direction of the text that follows, so that a line does not say what it seems to.
  if (first == 0xd8 && second == 0x9c) return 0;
  if (first == 0xe2 && second == 0x80 && (byte(2) == 0x8e || byte(2) == 0x8f || (byte(2) >= 0xa8 && byte(2) <= 0xae)))
    return 0;
  if (first == 0xe2 && second == 0x81 && byte(2) >= 0xa6 && byte(2) <= 0xa9) return 0;
  return size;
}

// One line of at most `most` characters; what a terminal would not print, or would obey, is a '?'.
inline std::string printable(std::string_view text, std::size_t most = 40) {
  std::string line;
  for (std::size_t count = 0; !text.empty() && count < most; ++count) {
    const std::size_t bytes = printable_bytes(text);
    line += bytes > 0 ? text.substr(0, bytes) : "?";
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
  return text.empty() ? line : line + "...";
}

}  // namespace rtf
