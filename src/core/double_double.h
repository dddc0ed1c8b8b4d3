// Numbers of 106 bits as the sum of two doubles (Dekker, Knuth): enough for a decision that double cannot make.
// Compile without contraction to fma (-ffp-contract=off); the error terms rely on each operation rounding alone.
#pragma once

#include <cmath>

namespace rtf {

struct DoubleDouble {
  double high = 0, low = 0;

  DoubleDouble() = default;
  DoubleDouble(double value) : high(value) {}
  DoubleDouble(double h, double l) : high(h), low(l) {}

  explicit operator double() const { return high; }
};

// h + l with |h| >= |l|.
inline DoubleDouble normalize(double h, double l) {
  const double sum = h + l;
  return {sum, l - (sum - h)};
}

// x y - product to the last bit, of doubles or of whatever computes as they do.
template <class T>
T product_error(const T& x, const T& y, const T& product) {
  constexpr double splitter = 0x1p27 + 1;  // cuts 53 bits into 26 + 26, whose products are exact
  const T tx = splitter * x, ty = splitter * y;
  const T xh = tx - (tx - x), xl = x - xh, yh = ty - (ty - y), yl = y - yh;
  return ((xh * yh - product) + xh * yl + xl * yh) + xl * yl;
}

inline DoubleDouble exact_product(double x, double y) {
  const double product = x * y;
  return {product, product_error(x, y, product)};
}

inline DoubleDouble operator-(DoubleDouble x) { return {-x.high, -x.low}; }

inline DoubleDouble operator+(DoubleDouble x, DoubleDouble y) {
  const double sum = x.high + y.high, part = sum - x.high;
  const double error = (x.high - (sum - part)) + (y.high - part);
  return normalize(sum, error + (x.low + y.low));
}

inline DoubleDouble operator-(DoubleDouble x, DoubleDouble y) { return x + -y; }

inline DoubleDouble operator*(DoubleDouble x, DoubleDouble y) {
  const DoubleDouble product = exact_product(x.high, y.high);
  return normalize(product.high, product.low + (x.high * y.low + x.low * y.high));
}

// Two Newton steps from the double quotient.
inline DoubleDouble reciprocal(DoubleDouble x) {
  DoubleDouble y = 1 / x.high;
  y = y + y * (1.0 - x * y);
  return y + y * (1.0 - x * y);
}
inline double reciprocal(double x) { return 1 / x; }

inline bool operator<(DoubleDouble x, DoubleDouble y) { return x.high < y.high || (x.high == y.high && x.low < y.low); }

inline DoubleDouble abs(DoubleDouble x) { return x.high < 0 ? -x : x; }

inline DoubleDouble scale_by_power_of_two(DoubleDouble x, int exponent) {
  return {std::ldexp(x.high, exponent), std::ldexp(x.low, exponent)};
}
inline double scale_by_power_of_two(double x, int exponent) { return std::ldexp(x, exponent); }

}  // namespace rtf
