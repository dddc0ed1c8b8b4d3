#include "core/root_pairs.h"

#include <algorithm>
#include <cmath>

#include "core/leja_order.h"

namespace rtf {
namespace {

using Wide = DoubleDouble;

Wide square_root(Wide x) {
  if (!(x.high > 0)) return 0.0;
  const double root = std::sqrt(x.high);
  return Wide(root) + (x - exact_product(root, root)) * Wide(0.5 / root);
}

}  // namespace

DoubleDouble RootPair::discriminant() const {
  const Wide half = sum * Wide(0.5);
  return half * half - product;
}

std::pair<WideComplex, WideComplex> RootPair::roots() const {
  const Wide half = sum * Wide(0.5), d = discriminant();
  if (d < Wide(0.0)) {
    const Wide im = square_root(-d);
    return {{half, im}, {half, -im}};
  }
  const Wide root = square_root(d), large = half.high < 0 ? half - root : half + root;
  return {large, large.high == 0 ? Wide(0.0) : product * reciprocal(large)};
}

std::vector<WideComplex> RootPairs::roots() const {
  std::vector<WideComplex> all;
  for (const RootPair& pair : pairs) {
    const auto [first, second] = pair.roots();
    all.push_back(first);
    all.push_back(second);
  }
  for (const Wide& x : single) all.push_back(x);
  return all;
}

RootPairs paired(std::vector<Wide> real, const std::vector<WideComplex>& upper) {
  RootPairs result;
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
  for (const RootPair& pair : result.pairs)
    places.push_back({rounded(pair.roots().first), rounded(pair.roots().second)});
  std::vector<RootPair> ordered;
  for (const std::size_t i : leja_order(places)) ordered.push_back(result.pairs[i]);
  result.pairs = std::move(ordered);
  return result;
}

RootPairs paired(const std::vector<WideComplex>& values) {
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

Roots as_roots(const RootPairs& pairs) {
  Roots roots;
  for (const RootPair& pair : pairs.pairs) append_quadratic(pair.sum, pair.product, roots);
  roots.real.insert(roots.real.end(), pairs.single.begin(), pairs.single.end());
  return roots;
}

void append_quadratic(const DoubleDouble& sum, const DoubleDouble& product, Roots& roots) {
  RootPair pair{sum, product};
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

}  // namespace rtf
