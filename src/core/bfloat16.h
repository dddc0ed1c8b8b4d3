// bfloat16: the upper half of a float32, eight digits of precision in its range.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace rtf {

// To nearest, ties to even, in one rounding; infinite beyond the range.
inline double rounded_to_bfloat16(double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  constexpr int smallest_exponent = -126, digits = 7;
  const double unit = std::ldexp(1.0, std::max(std::ilogb(value), smallest_exponent) - digits);
  return static_cast<float>(std::nearbyint(value / unit) * unit);
}

inline std::uint16_t bfloat16_bits(double value) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(rounded_to_bfloat16(value))) >> 16);
}

inline double from_bfloat16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

}  // namespace rtf
