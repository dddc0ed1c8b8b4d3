// What every fuzz target expects of a reader: an answer, or an rtf::Error in one line that a terminal can print.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "core/printable.h"
#include "rtf/error.h"

// The entry of a target: called by libFuzzer, and by run_corpus.cpp where there is none.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace rtf::fuzz {

[[noreturn]] inline void finding(const char* what, const std::string& text = "") {
  std::fprintf(stderr, "finding: %s: %s\n", what, text.c_str());
  std::abort();
}

inline void expect(bool holds, const char* what) {
  if (!holds) finding(what);
}

inline void check_message(const std::string& message) {
  constexpr std::size_t most = 1000;
  if (!message.starts_with("[rtf::")) finding("a message does not begin with the operation", message);
  if (message.size() > most) finding("a message is too long", message);
  for (std::string_view rest = message; !rest.empty();) {
    const std::size_t bytes = printable_bytes(rest);
    if (bytes == 0) finding("a message does not fit a terminal", message);
    rest.remove_prefix(bytes);
  }
}

// Whether `read` accepts its input. Exceptions other than rtf::Error pass through, and end the program.
template <class Read>
bool accepted(const Read& read) {
  try {
    read();
  } catch (const Error& error) {
    check_message(error.what());
    return false;
  }
  return true;
}

// Equal in every bit, NaN and the sign of zero included.
inline bool same_bits(const std::vector<double>& x, const std::vector<double>& y) {
  return x.size() == y.size() && (x.empty() || std::memcmp(x.data(), y.data(), x.size() * sizeof(double)) == 0);
}

}  // namespace rtf::fuzz
