// Numbers with their derivatives in a few directions: one pass through a formula tells how it answers to changes.
#pragma once

#include <array>
#include <cstddef>

namespace rtf {

struct Dual {
  static constexpr std::size_t directions = 4;

  double value = 0;
  std::array<double, directions> slope{};

  Dual() = default;
  Dual(double v) : value(v) {}
};

inline Dual operator-(Dual x) {
  x.value = -x.value;
  for (double& s : x.slope) s = -s;
  return x;
}
inline Dual operator+(Dual x, const Dual& y) {
  x.value += y.value;
  for (std::size_t i = 0; i < Dual::directions; ++i) x.slope[i] += y.slope[i];
  return x;
}
inline Dual operator-(Dual x, const Dual& y) {
  x.value -= y.value;
  for (std::size_t i = 0; i < Dual::directions; ++i) x.slope[i] -= y.slope[i];
  return x;
}
inline Dual operator*(const Dual& x, const Dual& y) {
  Dual z(x.value * y.value);
  for (std::size_t i = 0; i < Dual::directions; ++i) z.slope[i] = x.slope[i] * y.value + x.value * y.slope[i];
  return z;
}
inline Dual reciprocal(const Dual& x) {
  Dual z(1 / x.value);
  for (std::size_t i = 0; i < Dual::directions; ++i) z.slope[i] = -x.slope[i] * z.value * z.value;
  return z;
}

}  // namespace rtf
