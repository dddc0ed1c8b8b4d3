// Argument checks shared by the public entries; the messages name the operation and the bad value.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <utility>

#include "rtf/error.h"
#include "rtf/signal.h"

namespace rtf {

template <class... Args>
[[noreturn]] void fail(ErrorCode code, const char* operation, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, operation, fmt::format(format, std::forward<Args>(args)...));
}

inline void check_count(const char* operation, const char* what, std::size_t got, std::size_t wanted) {
  if (got != wanted) fail(ErrorCode::argument, operation, "{} has {} values; {} are needed", what, got, wanted);
}

template <class T>
bool all_finite(std::span<const T> values) {
  return std::all_of(values.begin(), values.end(), [](T value) { return std::isfinite(value); });
}

template <class T>
void check_signal(const char* operation, const char* what, const Signal<T>& signal, std::size_t batch,
                  std::size_t length, std::size_t channels) {
  if (signal.batch != batch || signal.length != length || signal.channels != channels)
    fail(ErrorCode::argument, operation, "{} has shape ({}, {}, {}); ({}, {}, {}) is needed", what, signal.batch,
         signal.length, signal.channels, batch, length, channels);
}

// The shape a plan's signal must have: `batch` sequences of at most `length` samples, or a packed one.
template <class T>
void check_sequences(const char* operation, const Signal<T>& u, Offsets offsets, std::size_t batch, std::size_t length,
                     std::size_t channels) {
  if (offsets.empty()) {
    if (u.batch != batch || u.length > length || u.channels != channels)
      fail(ErrorCode::argument, operation, "u has shape ({}, {}, {}); the plan is for ({}, {}, {})", u.batch, u.length,
           u.channels, batch, length, channels);
    return;
  }
  if (u.batch != 1 || u.channels != channels)
    fail(ErrorCode::argument, operation, "packed u has shape ({}, {}, {}); batch 1 and {} channels are needed", u.batch,
         u.length, u.channels, channels);
  if (offsets.size() != batch + 1)
    fail(ErrorCode::argument, operation, "{} offsets; a plan for {} sequences needs {}", offsets.size(), batch,
         batch + 1);
  if (offsets.front() != 0 || offsets.back() != u.length)
    fail(ErrorCode::argument, operation, "offsets run from {} to {}; they must run from 0 to the length {}",
         offsets.front(), offsets.back(), u.length);
  for (std::size_t s = 0; s < batch; ++s)
    if (offsets[s + 1] < offsets[s] || offsets[s + 1] - offsets[s] > length)
      fail(ErrorCode::argument, operation, "sequence {} runs from {} to {}; the plan holds 0 to {} samples", s,
           offsets[s], offsets[s + 1], length);
}

// The longest sequence of a signal; offsets that run backwards count as empty here and are refused by check_sequences.
inline std::size_t longest_sequence(std::size_t length, Offsets offsets) {
  if (offsets.empty()) return length;
  std::size_t longest = 0;
  for (std::size_t s = 0; s + 1 < offsets.size(); ++s)
    if (offsets[s + 1] > offsets[s] && offsets[s + 1] - offsets[s] > longest) longest = offsets[s + 1] - offsets[s];
  return longest;
}

// Where sequence s of a signal begins, and how long it is.
template <class T>
Signal<T> sequence(const Signal<T>& signal, Offsets offsets, std::size_t s) {
  Signal<T> one = signal;
  one.batch = 1;
  if (offsets.empty()) {
    one.data = signal.at(s, 0, 0);
  } else {
    one.data = signal.at(0, offsets[s], 0);
    one.length = offsets[s + 1] - offsets[s];
  }
  return one;
}

}  // namespace rtf
