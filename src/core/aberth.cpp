#include "core/aberth.h"

#include <cmath>
#include <complex>
#include <limits>
#include <numbers>

namespace rtf {
namespace {

using Wide = DoubleDouble;
using Narrow = std::complex<double>;

// Starting points on circles whose radii are the slopes of the upper hull of (k, log |c_k|), as many on each as the
// hull's edge is long (Bini): roots of very different sizes all have a start of their own size.
std::vector<WideComplex> starting_points(std::span<const Wide> c) {
  const std::size_t n = c.size();
  const auto height = [&](std::size_t k) { return k == 0 ? 0.0 : std::log(std::abs(c[k - 1].high)); };
  std::vector<std::size_t> hull;
  for (std::size_t k = 0; k <= n; ++k) {
    if (!std::isfinite(height(k))) continue;  // a coefficient 0
    const auto slope = [&](std::size_t from, std::size_t to) {
      return (height(to) - height(from)) / static_cast<double>(to - from);
    };
    while (hull.size() > 1 && slope(hull[hull.size() - 2], hull.back()) <= slope(hull.back(), k)) hull.pop_back();
    hull.push_back(k);
  }
  std::vector<WideComplex> points;
  for (std::size_t edge = 1; edge < hull.size(); ++edge) {
    const std::size_t count = hull[edge] - hull[edge - 1];
    const double radius = std::exp((height(hull[edge]) - height(hull[edge - 1])) / static_cast<double>(count));
    for (std::size_t i = 0; i < count; ++i) {
      // The offset keeps the points from being conjugates of each other: two of those never part on the axis.
      const double angle = 2 * std::numbers::pi *
                               (static_cast<double>(i) / static_cast<double>(count) +
                                static_cast<double>(edge) / static_cast<double>(n)) +
                           0.7;
      points.emplace_back(radius * std::cos(angle), radius * std::sin(angle));
    }
  }
  return points;
}

Narrow inverse(const Narrow& x) {
  const double size = std::abs(x);  // std::complex's own division squares it
  return std::conj(x) / size / size;
}

// P'/P at x, and whether P there is nothing but rounding.
struct Slope {
  Narrow logarithmic;
  bool rounding = false;
};

// Outside the circle from the reversed polynomial at 1/x, where powers do not overflow.
Slope slope_at(std::span<const Wide> c, const WideComplex& x) {
  const std::size_t n = c.size();
  const bool outside = std::abs(rounded(x)) > 1;
  const WideComplex y = outside ? reciprocal(x) : x;
  const auto coefficient = [&](std::size_t k) {  // of y^{n-k}
    const std::size_t index = outside ? n - k : k;
    return index == 0 ? Wide(1.0) : c[index - 1];
  };
  const double size = std::abs(rounded(y));
  WideComplex value, slope;
  double bound = 0;
  for (std::size_t k = 0; k <= n; ++k) {
    const Wide next = coefficient(k);
    slope = slope * y + value;
    value = value * y + WideComplex(next);
    bound = bound * size + std::abs(next.high);
  }
  const Narrow p = rounded(value);
  if (std::abs(p) <= 0x1p-100 * bound) return {{}, true};
  const Narrow ratio = rounded(slope) * inverse(p);
  return {outside ? rounded(y) * (static_cast<double>(n) - rounded(y) * ratio) : ratio, false};
}

}  // namespace

std::vector<WideComplex> aberth_roots(std::span<const Wide> c) {
  constexpr int sweeps = 400;  // clusters close in by a constant factor at first
  std::vector<WideComplex> x = starting_points(c);
  std::vector<bool> done(x.size(), false);
  for (int sweep = 0; sweep < sweeps; ++sweep) {
    bool moved = false;
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (done[i]) continue;
      const Slope slope = slope_at(c, x[i]);
      if (slope.rounding) {
        done[i] = true;
        continue;
      }
      Narrow repulsion = 0;
      for (std::size_t j = 0; j < x.size(); ++j) {
        if (j == i) continue;
        const Narrow distance = rounded(x[i] - x[j]);
        if (distance != 0.0) repulsion += inverse(distance);
      }
      const Narrow step = inverse(slope.logarithmic - repulsion);
      if (!std::isfinite(step.real()) || !std::isfinite(step.imag())) return {};
      x[i] = x[i] - WideComplex(step.real(), step.imag());
      done[i] = std::abs(step) <= 0x1p-102 * std::abs(rounded(x[i]));
      moved = true;
    }
    if (!moved) break;
  }
  return x;
}

}  // namespace rtf
