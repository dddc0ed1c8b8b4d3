#include "data/characters.h"

#include <algorithm>
#include <cstdint>

namespace rtf::data {
namespace {

constexpr char32_t replacement = 0xFFFD;

// The character at the beginning of `text`, and how many bytes it takes.
struct Decoded {
  char32_t character;
  std::size_t bytes;
};

Decoded decode(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t first = byte(0);
  if (first < 0x80) return {first, 1};
  const std::size_t size = first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
  if (size == 0) return {replacement, 1};
  // The second byte alone tells forms that are too long, surrogates, and numbers beyond the last character.
  const std::uint8_t low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const std::uint8_t high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  char32_t character = first & (0xFF >> (size + 1));
  for (std::size_t i = 1; i < size; ++i) {
    if (i >= text.size()) return {replacement, i};
    if (byte(i) < (i == 1 ? low : 0x80) || byte(i) > (i == 1 ? high : 0xBF)) return {replacement, i};
    character = character << 6 | (byte(i) & 0x3F);
  }
  return {character, size};
}

}  // namespace

std::u32string characters(std::string_view utf8, std::size_t most) {
  std::u32string result;
  result.reserve(std::min(most, utf8.size()));
  while (!utf8.empty() && result.size() < most) {
    const auto [character, bytes] = decode(utf8);
    result.push_back(character);
    utf8.remove_prefix(bytes);
  }
  return result;
}

std::string utf8(char32_t character) {
  const auto c = static_cast<std::uint32_t>(character);
  const auto tail = [&](int shift) { return static_cast<char>(0x80 | ((c >> shift) & 0x3F)); };
  if (c < 0x80) return {static_cast<char>(c)};
  if (c < 0x800) return {static_cast<char>(0xC0 | c >> 6), tail(0)};
  if (c < 0x10000) return {static_cast<char>(0xE0 | c >> 12), tail(6), tail(0)};
  return {static_cast<char>(0xF0 | c >> 18), tail(12), tail(6), tail(0)};
}

}  // namespace rtf::data
