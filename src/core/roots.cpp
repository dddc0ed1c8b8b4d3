#include "core/roots.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "core/aberth.h"
#include "core/arguments.h"
#include "core/conjugate_pairs.h"
#include "core/eigenvalues.h"
#include "core/leja_order.h"
#include "core/root_pairs.h"

namespace rtf {
namespace {

using Wide = DoubleDouble;

template <class T>
void append_factor(const Factor<T>& factor, std::size_t degree, std::vector<T>& polynomial) {
  polynomial.resize(polynomial.size() + degree, T(0.0));
  for (std::size_t k = polynomial.size(); k-- > 1;) {
    polynomial[k] = polynomial[k] + factor.first * polynomial[k - 1];
    if (degree == 2 && k > 1) polynomial[k] = polynomial[k] + factor.second * polynomial[k - 2];
  }
}

std::vector<Wide> expand(const RootPairs& pairs) {
  std::vector<Wide> polynomial{1.0};
  for (const Wide& x : pairs.single) append_factor(real_factor(x), 1, polynomial);
  for (const RootPair& pair : pairs.pairs) append_factor<Wide>({-pair.sum, pair.product}, 2, polynomial);
  return polynomial;
}

// prod (1 + |x| w): how far relative changes of the roots may move each coefficient.
std::vector<double> scales(const std::vector<WideComplex>& roots) {
  std::vector<double> polynomial{1.0};
  for (const WideComplex& x : roots) append_factor(Factor<double>{std::abs(rounded(x)), 0.0}, 1, polynomial);
  return polynomial;
}

double residual(const std::vector<Wide>& expanded, std::span<const Wide> c, const std::vector<double>& scale) {
  double largest = 0;
  for (std::size_t k = 0; k < c.size(); ++k) {
    const double difference = std::abs((expanded[k + 1] - c[k]).high);
    if (!std::isfinite(difference)) return std::numeric_limits<double>::infinity();
    if (difference > 0) largest = std::max(largest, difference / scale[k + 1]);
  }
  return largest;
}

// Roots that coincide have no Newton step: moves them apart by far less than a double tells.
void separate(std::vector<RootPair>& pairs) {
  for (std::size_t p = 0; p < pairs.size(); ++p) {
    for (std::size_t q = 0; q < p; ++q)
      if ((pairs[p].sum - pairs[q].sum).high == 0 && (pairs[p].product - pairs[q].product).high == 0)
        pairs[p].product = pairs[p].product * Wide(1.0, std::ldexp(static_cast<double>(p), -70));
    if (pairs[p].discriminant().high == 0) pairs[p].product = pairs[p].product * Wide(1.0, -0x1p-70);
  }
}

// Newton's step for the map from the roots to the coefficients (Weierstrass, Durand and Kerner). Near the place where
// two real roots meet and leave the axis it is taken for their sum and product, which are smooth there. `polynomial`
// gives its value at a point; `moved` becomes the largest step beside its root.
template <class Polynomial>
RootPairs improved(RootPairs old, const Polynomial& polynomial, double& moved) {
  separate(old.pairs);
  const std::vector<WideComplex> roots = old.roots();
  moved = 0;
  const auto step = [&](std::size_t i) {
    ScaledProduct product;
    for (std::size_t j = 0; j < roots.size(); ++j)
      if (j != i) product.multiply(roots[i] - roots[j]);
    ScaledProduct quotient = polynomial(roots[i]);
    quotient.multiply(reciprocal(product.value));
    const int exponent = quotient.exponent - product.exponent;
    const WideComplex result(scale_by_power_of_two(quotient.value.re, exponent),
                             scale_by_power_of_two(quotient.value.im, exponent));
    const double share = std::abs(rounded(result)) / std::abs(rounded(roots[i]));
    moved = share > moved || std::isnan(share) ? share : moved;
    return result;
  };
  RootPairs result;
  for (std::size_t p = 0; p < old.pairs.size(); ++p) {
    const WideComplex x = roots[2 * p], y = roots[2 * p + 1], dx = step(2 * p);
    const WideComplex dy = old.pairs[p].complex() ? conj(dx) : step(2 * p + 1);
    Wide product = old.pairs[p].product - (x * dy + y * dx).re;
    // Steps that are short beside the distance of the two leave them what they are, real or complex.
    if (2 * (std::abs(rounded(dx)) + std::abs(rounded(dy))) < std::abs(rounded(x - y)))
      product = product + (dx * dy).re;
    result.pairs.push_back({old.pairs[p].sum - (dx + dy).re, product});
  }
  for (const Wide& x : old.single) result.single.push_back(x - step(roots.size() - 1).re);
  return result;
}

// Where a polynomial and its roots agree as far as 106 bits go, and where they still do as far as doubles tell.
constexpr double exact = 0x1p-94, close = 0x1p-80;

struct Refined {
  RootPairs roots;
  double error;
};

// Simple roots need two steps or three. Of a repeated root the error halves and the residual shrinks by about e.
Refined refined(const RootPairs& start, std::span<const Wide> c) {
  const std::vector<double> scale = scales(start.roots());
  Refined best{start, residual(expand(start), c, scale)};
  RootPairs current = start;
  const auto polynomial = [&](const WideComplex& x) {
    WideComplex value(1.0);
    for (const Wide& coefficient : c) value = value * x + WideComplex(coefficient);
    return ScaledProduct{value};
  };
  double moved = 0;
  for (int sweep = 0, failures = 0; sweep < 100 && failures < 12 && best.error > exact; ++sweep) {
    current = improved(current, polynomial, moved);
    const double now = residual(expand(current), c, scale);
    if (!std::isfinite(now)) break;
    if (now > 0.7 * best.error) ++failures;
    if (now < best.error) best = {current, now};
  }
  return best;
}

// Up to this order eigenvalues take less than a tenth of a second.
constexpr std::size_t matrix_order = 128;

}  // namespace

std::vector<double> rounded(std::span<const DoubleDouble> row) {
  std::vector<double> values;
  for (const Wide& x : row) values.push_back(x.high);
  return values;
}

std::vector<std::complex<double>> double_roots(std::span<const double> c, const char* operation) {
  const std::size_t n = c.size();
  if (n > matrix_order && c.back() != 0) {
    std::vector<WideComplex> found;
    for (const Complex<double>& x : aberth_roots(c)) found.emplace_back(x.re, x.im);
    if (found.size() == n) return listed(as_roots(paired(found)));
  }
  std::vector<double> companion(n * n, 0.0);
  for (std::size_t k = 0; k < n; ++k) companion[k] = -c[k];
  for (std::size_t k = 1; k < n; ++k) companion[k * n + k - 1] = 1.0;
  return eigenvalues(companion, n, MatrixShape::hessenberg, operation);
}

RefinedRoots refined_roots(const Roots& start, const std::function<ScaledProduct(const WideComplex&)>& polynomial) {
  constexpr double least_step = 0x1p-98;
  RootPairs current = paired(start.real, start.upper), best = current;
  double shortest = std::numeric_limits<double>::infinity();
  for (int sweep = 0, failures = 0; sweep < 200 && failures < 60 && shortest > least_step; ++sweep) {
    double moved = 0;
    current = improved(current, polynomial, moved);
    if (!std::isfinite(moved)) break;
    if (moved > 0.7 * shortest) ++failures;
    if (moved < shortest) {
      shortest = moved;
      best = current;
    }
  }
  return {as_roots(best), shortest};
}

Roots paired_roots(std::span<const std::complex<double>> values) {
  Roots roots;
  for (const auto& x : values) {
    if (x.imag() == 0) roots.real.push_back(x.real());
    if (x.imag() > 0) roots.upper.push_back(widened(x));
  }
  return roots;
}

Roots find_roots(std::span<const DoubleDouble> c, const char* operation) {
  std::size_t at_zero = 0;
  for (; !c.empty() && c.back().high == 0; c = c.first(c.size() - 1)) ++at_zero;
  const std::size_t n = c.size();
  std::vector<double> narrow;
  for (const Wide& x : c) {
    if (!std::isfinite(x.high))
      fail(ErrorCode::unsupported, operation,
           "the coefficients of a polynomial overflow: roots too large, or a leading one too small");
    narrow.push_back(x.high);
  }

  const Roots start = paired_roots(double_roots(narrow, operation));
  Refined found = refined(paired(start.real, start.upper), c);
  // Of many roots close together, as narrow filters have them, eigenvalues in doubles are no start: they lie anywhere
  // on a circle around the cluster.
  if (found.error > close) {
    if (const std::vector<WideComplex> other_start = aberth_roots(c); other_start.size() == n) {
      Refined other = refined(paired(other_start), c);
      if (other.error < found.error) found = std::move(other);
    }
  }
  Roots result = as_roots(found.roots);
  result.real.insert(result.real.begin(), at_zero, Wide(0.0));
  return result;
}

std::vector<std::complex<double>> listed(const Roots& roots) {
  std::vector<std::complex<double>> result;
  for (const Wide& x : roots.real) result.push_back(x.high);
  for (const WideComplex& x : roots.upper)
    for (const auto& value : {rounded(x), std::conj(rounded(x))}) result.push_back(value);
  // Conjugates have the same key but for its last part; std::abs of the angle keeps them together.
  const auto key = [](const std::complex<double>& x) {
    return std::tuple(-std::abs(x), std::abs(std::arg(x)), std::signbit(x.imag()));
  };
  std::stable_sort(result.begin(), result.end(), [&](const auto& x, const auto& y) { return key(x) < key(y); });
  return result;
}

std::vector<DoubleDouble> expand(const Roots& roots) {
  std::vector<std::vector<std::complex<double>>> places;
  for (const Wide& x : roots.real) places.push_back({x.high});
  for (const WideComplex& x : roots.upper) places.push_back({rounded(x), std::conj(rounded(x))});
  std::vector<Wide> polynomial{1.0};
  const std::size_t reals = roots.real.size();
  for (const std::size_t i : leja_order(places))
    append_factor(i < reals ? real_factor(roots.real[i]) : pair_factor(roots.upper[i - reals]), places[i].size(),
                  polynomial);
  polynomial.erase(polynomial.begin());
  return polynomial;
}

}  // namespace rtf
