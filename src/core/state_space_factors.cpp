// Poles and zeros of a dense state space in 106 bits, without the coefficients of a polynomial.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "core/eigenvalues.h"
#include "core/from_rational.h"
#include "core/hessenberg.h"
#include "core/rational.h"

namespace rtf {
namespace {

using Wide = DoubleDouble;
using Row = std::vector<Wide>;

// The matrices in coordinates that make determinants cheap.
struct Realisation {
  Row A, B, C;

  // det(zI - A) (d + C (zI - A)^-1 B)
  ScaledProduct numerator(const Wide& d, const WideComplex& z) const {
    auto [product, response] = determinants(A, B, C, d, z);
    product.multiply(response);
    return product;
  }
};

Wide sum_of(const Roots& roots) {
  Wide sum = 0.0;
  for (const Wide& x : roots.real) sum = sum + x;
  for (const WideComplex& x : roots.upper) sum = sum + x.re + x.re;
  return sum;
}

// As many zeros as `known` has and with the sum of those: the smallest z for which (A - zI, B; C, d) is singular, in
// double; the others are infinite but for rounding. None where they cannot be told.
Roots pencil_zeros(const StateSpace& system, double d, const Roots& known) {
  const auto scale_of = [](const std::vector<double>& row) {
    double largest = 0;
    for (const double x : row) largest = std::max(largest, std::abs(x));
    return std::ldexp(1.0, largest > 0 ? -std::ilogb(largest) : 0);  // rows and columns of one size
  };
  const std::size_t n = system.order, size = n + 1;
  const double of_input = scale_of(system.B), of_output = scale_of(system.C);
  std::vector<double> left(size * size), right(size * size);
  for (std::size_t i = 0; i < n; ++i) {
    std::copy_n(system.A.data() + i * n, n, left.data() + i * size);
    left[i * size + n] = system.B[i] * of_input;
    left[n * size + i] = system.C[i] * of_output;
    right[i * size + i] = 1;
  }
  left[n * size + n] = d * of_input * of_output;
  if (!std::isfinite(left.back())) return {};
  const std::size_t count = known.size();
  auto found = pencil_eigenvalues(left, right, size);
  if (count == 0 || found.size() < count) return {};
  found.erase(found.begin(), found.end() - static_cast<std::ptrdiff_t>(count));
  if (!std::all_of(found.begin(), found.end(), [](const auto& x) { return std::isfinite(std::abs(x)); })) return {};
  Roots roots = paired_roots(found);
  if (roots.size() != count) return {};
  // A feed-through next to nothing sends one zero far out, where the pencil does not tell it from infinity.
  if (found.front().imag() == 0) roots.real.front() = roots.real.front() + (sum_of(known) - sum_of(roots));
  return roots;
}

// The zeros of this numerator in 106 bits, from the best start there is: those of the matrices in double, some that lie
// near, or those that its coefficients have. Its first coefficient stays what it is.
Numerator refined(Numerator numerator, const Roots& near, const StateSpace& system, const Realisation& realisation,
                  const Wide& d) {
  constexpr double settled = 0x1p-80;
  if (numerator.gain.high == 0) return numerator;
  const WideComplex inverse(reciprocal(numerator.gain));
  const auto polynomial = [&](const WideComplex& z) {
    ScaledProduct monic = realisation.numerator(d, z);
    monic.multiply(inverse);
    return monic;
  };
  RefinedRoots best{numerator.zeros, std::numeric_limits<double>::infinity()};
  const auto start_from = [&](const Roots& start) {
    if (start.size() != numerator.zeros.size() || best.step <= settled) return;
    if (RefinedRoots other = refined_roots(start, polynomial); other.step < best.step) best = std::move(other);
  };
  start_from(pencil_zeros(system, d.high, numerator.zeros));
  start_from(near);
  start_from(numerator.zeros);
  numerator.zeros = std::move(best.roots);
  return numerator;
}

}  // namespace

Rational factors_of(const StateSpace& system, const MimoRational& coefficients) {
  Realisation realisation{
      {system.A.begin(), system.A.end()}, {system.B.begin(), system.B.end()}, {system.C.begin(), system.C.end()}};
  reduce_to_hessenberg(realisation.A, realisation.B, realisation.C);
  const Wide D = system.D[0];
  const Roots poles =
      refined_roots(paired_roots(eigenvalues(system.A, system.order, MatrixShape::dense, "convert")),
                    [&](const WideComplex& z) {
                      return determinants(realisation.A, realisation.B, realisation.C, D, z).denominator;
                    })
          .roots;
  const Rational start{coefficients.a, coefficients.b, D, ""};
  Numerator separate = separate_factors(start, "convert");
  if (separate.gain.high != 0) ++separate.delay;  // B begins with w
  separate = refined(std::move(separate), {}, system, realisation, 0.0);
  Numerator whole = separate;
  if (D.high != 0) {
    whole = whole_factors(start, "convert");
    // Where the feed-through is next to nothing: the zeros without it, and one far out.
    Roots near = separate.zeros;
    near.real.push_back(sum_of(whole.zeros) - sum_of(near));
    whole = refined(std::move(whole), near, system, realisation, D);
  }

  Row numerator(whole.delay, Wide(0.0));
  numerator.push_back(whole.gain);
  for (const Wide& x : expand(whole.zeros)) numerator.push_back(whole.gain * x);
  Rational result = with_numerator(expand(poles), std::move(numerator), "eigenvalues");
  result.poles = poles;
  result.numerator = separate;
  result.beside = D;
  result.whole = whole;
  const auto known = std::make_shared<const std::vector<Uncertain>>(uncertain_eigenvalues(system.A, system.order));
  result.uncertainty = [known](std::complex<double> pole) {
    const auto distance = [&](const Uncertain& x) { return std::abs(x.value - pole); };
    return std::min_element(known->begin(), known->end(),
                            [&](const Uncertain& x, const Uncertain& y) { return distance(x) < distance(y); })
        ->radius;
  };
  return result;
}

}  // namespace rtf
