#include "core/aberth.h"

#include <cmath>
#include <complex>
#include <limits>
#include <numbers>

namespace rtf {
namespace {

using Narrow = std::complex<double>;

template <class T>
struct Accuracy;
template <>
struct Accuracy<DoubleDouble> {
  static constexpr double value = 0x1p-100, root = 0x1p-102;  // of P beside its terms; of a step beside its root
  static constexpr int sweeps = 400;                          // clusters close in by a constant factor at first
  static constexpr bool has_to_settle = false;                // what is found is refined and judged by others
};
template <>
struct Accuracy<double> {
  static constexpr double value = 0x1p-48, root = 0x1p-51;
  static constexpr int sweeps = 100;
  static constexpr bool has_to_settle = true;
};

// Starting points on circles whose radii are the slopes of the upper hull of (k, log |c_k|), as many on each as the
// hull's edge is long (Bini): roots of very different sizes all have a start of their own size.
template <class T>
std::vector<Complex<T>> starting_points(std::span<const T> c) {
  const std::size_t n = c.size();
  const auto height = [&](std::size_t k) { return k == 0 ? 0.0 : std::log(std::abs(static_cast<double>(c[k - 1]))); };
  std::vector<std::size_t> hull;
  for (std::size_t k = 0; k <= n; ++k) {
    if (!std::isfinite(height(k))) continue;  // a coefficient 0
    const auto slope = [&](std::size_t from, std::size_t to) {
      return (height(to) - height(from)) / static_cast<double>(to - from);
    };
    while (hull.size() > 1 && slope(hull[hull.size() - 2], hull.back()) <= slope(hull.back(), k)) hull.pop_back();
    hull.push_back(k);
  }
  std::vector<Complex<T>> points;
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
template <class T>
Slope slope_at(std::span<const T> c, const Complex<T>& x) {
  const std::size_t n = c.size();
  const bool outside = std::abs(rounded(x)) > 1;
  const T scale = outside ? reciprocal(norm(x)) : T(1.0);
  const Complex<T> y = outside ? Complex<T>(x.re * scale, -x.im * scale) : x;
  const auto coefficient = [&](std::size_t k) {  // of y^{n-k}
    const std::size_t index = outside ? n - k : k;
    return index == 0 ? T(1.0) : c[index - 1];
  };
  const double size = std::abs(rounded(y));
  Complex<T> value, slope;
  double bound = 0;
  for (std::size_t k = 0; k <= n; ++k) {
    const T next = coefficient(k);
    slope = slope * y + value;
    value = value * y + Complex<T>(next);
    bound = bound * size + std::abs(static_cast<double>(next));
  }
  const Narrow p = rounded(value);
  if (std::abs(p) <= Accuracy<T>::value * bound) return {{}, true};
  const Narrow ratio = rounded(slope) * inverse(p);
  return {outside ? rounded(y) * (static_cast<double>(n) - rounded(y) * ratio) : ratio, false};
}

}  // namespace

template <class T>
std::vector<Complex<T>> aberth_roots(std::span<const T> c) {
  std::vector<Complex<T>> x = starting_points(c);
  std::vector<bool> done(x.size(), false);
  bool moved = true;
  for (int sweep = 0; moved && sweep < Accuracy<T>::sweeps; ++sweep) {
    moved = false;
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
      x[i] = x[i] - Complex<T>(step.real(), step.imag());
      done[i] = std::abs(step) <= Accuracy<T>::root * std::abs(rounded(x[i]));
      moved = true;
    }
  }
  if (moved && Accuracy<T>::has_to_settle) return {};
  return x;
}

template std::vector<Complex<double>> aberth_roots(std::span<const double> c);
template std::vector<Complex<DoubleDouble>> aberth_roots(std::span<const DoubleDouble> c);

}  // namespace rtf
