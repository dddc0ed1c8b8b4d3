// Lists of real numbers and conjugate pairs, in any order and with rounding in them.
#pragma once

#include <complex>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "core/complex_number.h"

namespace rtf {

// The values of a list, each pair once: its member above the axis, averaged with the conjugate of the other.
struct PairedValue {
  std::complex<double> value;
  std::size_t index, partner;  // in the list; the same for a real value
  bool real() const { return index == partner; }
};

// Throws "[rtf::<operation>] <name>[3] is 0.5+0.2i; ..." for a value without a partner.
std::vector<PairedValue> conjugate_pairs(const char* operation, const char* name,
                                         std::span<const std::complex<double>> values);

std::string complex_text(std::complex<double> value);

// 1 + first w + second w^2 = (1 - x w)(1 - x~ w), or 1 - x w with second = 0.
template <class T>
struct Factor {
  T first{}, second{};
};
template <class T>
Factor<T> real_factor(const T& x) {
  return {-x, T(0.0)};
}
template <class T>
Factor<T> pair_factor(const Complex<T>& x) {
  return {-(x.re + x.re), norm(x)};
}

}  // namespace rtf
