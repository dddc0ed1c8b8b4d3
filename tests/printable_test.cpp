#include "core/printable.h"

#include <gtest/gtest.h>

#include <random>

namespace rtf {
namespace {

// The UTF-8 of a number, by the definition, whether a character has it or not.
std::string encode(unsigned code) {
  const auto tail = [&](int shift) { return static_cast<char>(0x80 | ((code >> shift) & 0x3f)); };
  if (code < 0x80) return {static_cast<char>(code)};
  if (code < 0x800) return {static_cast<char>(0xc0 | (code >> 6)), tail(0)};
  if (code < 0x10000) return {static_cast<char>(0xe0 | (code >> 12)), tail(6), tail(0)};
  return {static_cast<char>(0xf0 | (code >> 18)), tail(12), tail(6), tail(0)};
}

TEST(Printable, KeepsCharactersAndReplacesControls) {
  for (unsigned code = 0; code < 0x110100; ++code) {
    const bool direction = code == 0x61c || code == 0x200e || code == 0x200f || (code >= 0x202a && code <= 0x202e) ||
                           (code >= 0x2066 && code <= 0x2069);
    const bool control = direction || code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x2028 || code == 0x2029;
    const bool none = (code >= 0xd800 && code < 0xe000) || code >= 0x110000 || code == 0xfffe || code == 0xffff;
    const std::string text = encode(code);
    ASSERT_EQ(printable_bytes(text), control || none ? 0 : text.size()) << std::hex << code;
    ASSERT_EQ(printable_bytes(text + "\x80"), printable_bytes(text)) << std::hex << code;
    if (text.size() == 1) continue;
    ASSERT_EQ(printable_bytes(text.substr(0, text.size() - 1)), 0u) << std::hex << code;
  }
}

TEST(Printable, RefusesLongerFormsOfTheSameNumber) {
  for (const char* text :
       {"\xc0\x8a", "\xc1\xbf", "\xe0\x80\x8a", "\xe0\x9f\xbf", "\xf0\x80\x80\x8a", "\xf0\x8f\xbf\xbf"})
    EXPECT_EQ(printable_bytes(text), 0u);
}

TEST(Printable, IsOneShortLineOfWhateverBytes) {
  EXPECT_EQ(printable("a\n\x1b[2J\xffz"), "a??[2J?z");
  EXPECT_EQ(printable(std::string(40, 'k')), std::string(40, 'k'));
  EXPECT_EQ(printable(std::string(41, 'k')), std::string(40, 'k') + "...");
  EXPECT_EQ(printable(""), "");
  std::mt19937 random(1);
  for (int round = 0; round < 10000; ++round) {
    std::string bytes(random() % 60, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    const std::string line = printable(bytes);
    EXPECT_LE(line.size(), 4u * 40 + 3);
    for (std::string_view rest = line; !rest.empty(); rest.remove_prefix(printable_bytes(rest)))
      ASSERT_GT(printable_bytes(rest), 0u) << line;
  }
}

}  // namespace
}  // namespace rtf
