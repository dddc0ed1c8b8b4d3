// Roots of real polynomials to more than double precision.
#pragma once

#include <cmath>
#include <complex>
#include <functional>
#include <span>
#include <vector>

#include "core/complex_number.h"
#include "core/double_double.h"

namespace rtf {

using WideComplex = Complex<DoubleDouble>;

inline WideComplex widened(const std::complex<double>& x) { return {x.real(), x.imag()}; }
template <class T>
std::complex<double> rounded(const Complex<T>& x) {
  return {static_cast<double>(x.re), static_cast<double>(x.im)};
}
std::vector<double> rounded(std::span<const DoubleDouble> row);

// value 2^exponent: a product of many factors may be beyond the doubles.
struct ScaledProduct {
  WideComplex value = WideComplex(1.0);
  int exponent = 0;

  // Afterwards value is of moderate size, whatever the exponent.
  void multiply(const WideComplex& factor) {
    value = value * factor;
    const double size = std::abs(value.re.high) + std::abs(value.im.high);
    if ((size > 0x1p-300 && size < 0x1p300) || size == 0 || !std::isfinite(size)) return;
    const int excess = std::ilogb(size);
    value = {scale_by_power_of_two(value.re, -excess), scale_by_power_of_two(value.im, -excess)};
    exponent += excess;
  }
};

// The roots of z^n + c_1 z^{n-1} + ... + c_n with their pairs told apart from real ones.
struct Roots {
  std::vector<DoubleDouble> real;
  std::vector<WideComplex> upper;  // of each conjugate pair the member above the axis

  std::size_t size() const { return real.size() + 2 * upper.size(); }
};

// The same in double, as eigenvalues() lists them: eigenvalues of the companion matrix; beyond order 128, where those
// take O(n^3), Aberth's iteration. Errors begin with `operation`.
std::vector<std::complex<double>> double_roots(std::span<const double> c, const char* operation);

// Those in double, or what Aberth's iteration finds where they are too far off, then Newton's method for all roots
// together: what is left is a polynomial whose coefficients differ from the given ones by far less than an ulp, also
// when roots lie close or are repeated. Errors begin with `operation`.
Roots find_roots(std::span<const DoubleDouble> c, const char* operation);

// Newton's method alone, from roots near those of a monic polynomial that nothing but the values of is known. They are
// returned as they are when a number overflows. `step` is the last one, the largest beside its root.
struct RefinedRoots {
  Roots roots;
  double step;
};
RefinedRoots refined_roots(const Roots& start, const std::function<ScaledProduct(const WideComplex&)>& polynomial);

// Values among which are the conjugates of all, exactly.
Roots paired_roots(std::span<const std::complex<double>> values);

// Largest modulus first, pairs side by side, rounded.
std::vector<std::complex<double>> listed(const Roots& roots);

// c_1..c_n of the polynomial with these roots.
std::vector<DoubleDouble> expand(const Roots& roots);

}  // namespace rtf
