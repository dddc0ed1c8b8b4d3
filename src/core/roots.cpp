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

namespace rtf {
namespace {

using Wide = DoubleDouble;

Wide square_root(Wide x) {
  if (!(x.high > 0)) return 0.0;
  const double root = std::sqrt(x.high);
  return Wide(root) + (x - exact_product(root, root)) * Wide(0.5 / root);
}

// Two roots that share a real quadratic z^2 - sum z + product; real or complex, whichever it says.
struct Pair {
  Wide sum, product;

  Wide discriminant() const {
    const Wide half = sum * Wide(0.5);
    return half * half - product;
  }
  bool complex() const { return discriminant() < Wide(0.0); }
  std::pair<WideComplex, WideComplex> roots() const {
    const Wide half = sum * Wide(0.5), d = discriminant();
    if (d < Wide(0.0)) {
      const Wide im = square_root(-d);
      return {{half, im}, {half, -im}};
    }
    const Wide root = square_root(d), large = half.high < 0 ? half - root : half + root;
    return {large, large.high == 0 ? Wide(0.0) : product * reciprocal(large)};
  }
};

// All roots as pairs, and one left over when their number is odd.
struct Pairs {
  std::vector<Pair> pairs;
  std::vector<Wide> single;  // none or one

  std::vector<WideComplex> roots() const {
    std::vector<WideComplex> all;
    for (const Pair& pair : pairs) {
      const auto [first, second] = pair.roots();
      all.push_back(first);
      all.push_back(second);
    }
    for (const Wide& x : single) all.push_back(x);
    return all;
  }
};

// Neighbours on the axis become pairs, the closest first: two that are nearly equal may turn out to be complex. Pairs
// are in the order in which they are multiplied.
Pairs paired(std::vector<Wide> real, const std::vector<WideComplex>& upper) {
  Pairs result;
  for (const WideComplex& x : upper) result.pairs.push_back({x.re + x.re, norm(x)});
  std::sort(real.begin(), real.end());
  while (real.size() > 1) {
    std::size_t closest = 0;
    for (std::size_t i = 1; i + 1 < real.size(); ++i)
      if (real[i + 1] - real[i] < real[closest + 1] - real[closest]) closest = i;
    const Wide x = real[closest], y = real[closest + 1];
    result.pairs.push_back({x + y, x * y});
    real.erase(real.begin() + static_cast<std::ptrdiff_t>(closest),
               real.begin() + static_cast<std::ptrdiff_t>(closest) + 2);
  }
  for (const Wide& x : real) result.single.push_back(x);
  std::vector<std::vector<std::complex<double>>> places;
  for (const Pair& pair : result.pairs) places.push_back({rounded(pair.roots().first), rounded(pair.roots().second)});
  std::vector<Pair> ordered;
  for (const std::size_t i : leja_order(places)) ordered.push_back(result.pairs[i]);
  result.pairs = std::move(ordered);
  return result;
}

// Values whose conjugates are among them but for rounding. One that is nearer to its own conjugate than to any other's
// is real.
Pairs paired(const std::vector<WideComplex>& values) {
  std::vector<Wide> real;
  std::vector<WideComplex> upper, lower;
  for (const WideComplex& x : values) (x.im < Wide(0.0) ? lower : upper).push_back(x);
  std::sort(upper.begin(), upper.end(), [](const WideComplex& x, const WideComplex& y) { return y.im < x.im; });
  std::vector<WideComplex> kept;
  for (const WideComplex& x : upper) {
    const auto nearest = std::min_element(lower.begin(), lower.end(), [&](const WideComplex& y, const WideComplex& z) {
      return norm(x - conj(y)) < norm(x - conj(z));
    });
    if (nearest == lower.end() || norm(x - conj(x)) < norm(x - conj(*nearest))) {
      real.push_back(x.re);
      continue;
    }
    kept.emplace_back((x.re + nearest->re) * Wide(0.5), (x.im - nearest->im) * Wide(0.5));
    lower.erase(nearest);
  }
  for (const WideComplex& x : lower) real.push_back(x.re);
  return paired(std::move(real), kept);
}

template <class T>
void append_factor(const Factor<T>& factor, std::size_t degree, std::vector<T>& polynomial) {
  polynomial.resize(polynomial.size() + degree, T(0.0));
  for (std::size_t k = polynomial.size(); k-- > 1;) {
    polynomial[k] = polynomial[k] + factor.first * polynomial[k - 1];
    if (degree == 2 && k > 1) polynomial[k] = polynomial[k] + factor.second * polynomial[k - 2];
  }
}

std::vector<Wide> expand(const Pairs& pairs) {
  std::vector<Wide> polynomial{1.0};
  for (const Wide& x : pairs.single) append_factor(real_factor(x), 1, polynomial);
  for (const Pair& pair : pairs.pairs) append_factor<Wide>({-pair.sum, pair.product}, 2, polynomial);
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
void separate(std::vector<Pair>& pairs) {
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
Pairs improved(Pairs old, const Polynomial& polynomial, double& moved) {
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
  Pairs result;
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
  Pairs roots;
  double error;
};

// Simple roots need two steps or three. Of a repeated root the error halves and the residual shrinks by about e.
Refined refined(const Pairs& start, std::span<const Wide> c) {
  const std::vector<double> scale = scales(start.roots());
  Refined best{start, residual(expand(start), c, scale)};
  Pairs current = start;
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

Roots as_roots(const Pairs& pairs) {
  Roots roots;
  for (const Pair& pair : pairs.pairs) append_quadratic(pair.sum, pair.product, roots);
  roots.real.insert(roots.real.end(), pairs.single.begin(), pairs.single.end());
  return roots;
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
  Pairs current = paired(start.real, start.upper), best = current;
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
           "the coefficients of a polynomial overflow: its leading one is too small");
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

void append_quadratic(const DoubleDouble& sum, const DoubleDouble& product, Roots& roots) {
  Pair pair{sum, product};
  // A double root leaves the axis by what the coefficients were off by, far less than an ulp of them: it is put back.
  if (const Wide half = sum * Wide(0.5), middle = half * half;
      pair.complex() && abs(pair.discriminant()) < middle * Wide(0x1p-90))
    pair.product = middle;
  const auto [first, second] = pair.roots();
  if (pair.complex()) {
    roots.upper.push_back(first);
  } else {
    roots.real.push_back(first.re);
    roots.real.push_back(second.re);
  }
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
