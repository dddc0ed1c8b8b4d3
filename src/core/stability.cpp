#include "rtf/stability.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "core/check_finite.h"
#include "core/double_double.h"
#include "core/polynomial.h"
#include "rtf/executor.h"

namespace rtf {
namespace {

constexpr double epsilon = std::numeric_limits<double>::epsilon();
constexpr double infinity = std::numeric_limits<double>::infinity();

enum class Verdict { inside, outside, unsure };

// Zero trailing coefficients are poles at zero.
std::span<const double> without_trailing_zeros(std::span<const double> a) {
  while (!a.empty() && a.back() == 0) a = a.first(a.size() - 1);
  return a;
}

// Schur-Cohn step-down: all poles are inside the circle exactly when every reflection coefficient is inside (-1, 1).
// The coefficients at a stage carry a relative error of about eps / gain, gain = prod (1 - k^2) so far, which is the
// inverse power of 1/A. With a margin > 0 the test is unsure once margin / gain shows in a coefficient's distance from
// the border or is no longer small; with margin 0 it always decides.
template <class T>
Verdict schur_cohn(std::vector<T>& a, double margin) {
  double gain = 1;
  for (std::size_t order = a.size(); order > 0; --order) {
    const T k = a[order - 1];
    const double distance = std::abs(std::abs(static_cast<double>(k)) - 1);
    if (margin > 0 && !(margin < gain * std::min(distance, 1e-5))) return Verdict::unsure;
    using std::abs;
    if (!(abs(k) < T(1))) return Verdict::outside;  // infinite and nan as well
    const T complement = (T(1) - k) * (T(1) + k), inverse = reciprocal(complement);
    gain *= static_cast<double>(complement);
    const std::size_t next = order - 1;
    for (std::size_t i = 0; i < next / 2; ++i) {
      const T x = a[i], y = a[next - 1 - i];
      a[i] = (x - k * y) * inverse;
      a[next - 1 - i] = (y - k * x) * inverse;
    }
    if (next % 2 == 1) a[next / 2] = a[next / 2] * reciprocal(T(1) + k);
  }
  return Verdict::inside;
}

// The coefficients of A(s w), whose poles are those of A times s. Powers are kept apart from their exponent, so that
// only the result can overflow, and then a pole is outside.
template <class T>
void scale_poles(std::span<const double> a, double s, std::vector<T>& scaled) {
  int exponent_step;
  const double mantissa = 2 * std::frexp(s, &exponent_step);  // in [1, 2)
  --exponent_step;
  T power = 1.0;
  int exponent = 0;
  scaled.resize(a.size());
  for (std::size_t k = 0; k < a.size(); ++k) {
    power = power * T(mantissa);
    exponent += exponent_step;
    if (static_cast<double>(power) >= 2) {
      power = power * T(0.5);
      ++exponent;
    }
    scaled[k] = scale_by_power_of_two(power * T(a[k]), exponent);
  }
}

// Between `stable`, where A(s w) has all poles inside, and `unstable`: the neighbouring doubles where that changes.
template <class T>
void bisect(std::span<const double> a, double& stable, double& unstable) {
  std::vector<T> scaled;
  for (;;) {
    // Far apart, halve the logarithm.
    const double middle =
        unstable / stable > 2 ? std::sqrt(stable) * std::sqrt(unstable) : stable + (unstable - stable) / 2;
    if (!(middle > stable && middle < unstable)) return;
    scale_poles(a, middle, scaled);
    (schur_cohn(scaled, 0) == Verdict::inside ? stable : unstable) = middle;
  }
}

}  // namespace

bool is_stable(std::span<const double> a) {
  check_finite("is_stable", "a", a);
  a = without_trailing_zeros(a);
  if (a.empty()) return true;
  if (std::abs(a.back()) >= 1) return false;  // the product of the poles
  const double norm = l1_norm(a), rounding = epsilon * static_cast<double>(a.size() + 1);
  if (norm < 1 - rounding) return true;  // Montel

  std::vector<double> work(a.begin(), a.end());
  const Verdict verdict = schur_cohn(work, 1e3 * rounding * (1 + norm));
  if (verdict != Verdict::unsure) return verdict == Verdict::inside;
  std::vector<DoubleDouble> precise(a.begin(), a.end());
  return schur_cohn(precise, 0) == Verdict::inside;
}

double pole_radius(std::span<const double> a) {
  check_finite("pole_radius", "a", a);
  a = without_trailing_zeros(a);
  if (a.empty()) return 0;
  const std::size_t n = a.size();
  // The radius lies between |a_n|^(1/n), the geometric mean of the moduli, and Fujiwara's bound; s is its inverse.
  double largest = 0;
  for (std::size_t k = 1; k <= n; ++k)
    largest = std::max(largest, 2 * std::pow(std::abs(a[k - 1]), 1.0 / static_cast<double>(k)));
  const double smallest = std::pow(std::abs(a[n - 1]), 1.0 / static_cast<double>(n));
  const double lowest = std::max(0.99 / largest, std::numeric_limits<double>::min());
  const double highest = std::min(1.01 / smallest, std::numeric_limits<double>::max());
  double stable = lowest, unstable = highest;
  bisect<double>(a, stable, unstable);

  // Eigenvalues would lose half the digits and more where poles lie close, and take O(order^3). Exactly equal poles
  // cost digits here too: a double pole is right to 1e-11, a triple one to 1e-7.
  // Double finds the place fast, but where poles cluster it is off by up to 1e-2 of it: widen the bracket until
  // double-double agrees with both ends, then let it decide. One or two widenings are the rule.
  std::vector<DoubleDouble> scaled;
  const auto inside = [&](double s) {
    scale_poles(a, s, scaled);
    return schur_cohn(scaled, 0) == Verdict::inside;
  };
  const double place = stable;
  for (double step = 4 * epsilon; stable > lowest && !inside(stable); step *= 32) {
    unstable = stable;
    stable = std::max(lowest, place * (1 - step));
  }
  for (double step = 4 * epsilon; unstable < highest && inside(unstable); step *= 32) {
    stable = unstable;
    unstable = std::min(highest, place * (1 + step));
  }
  bisect<DoubleDouble>(a, stable, unstable);
  // A pole on the circle is not inside, so `unstable` is the inverse radius itself where that is a double.
  return 1 / unstable;
}

double min_abs_denominator(std::span<const double> a, std::size_t length) {
  check_finite("min_abs_denominator", "a", a);
  if (length < 1) fail(ErrorCode::argument, "min_abs_denominator", "length is 0; at least 1 is needed");
  // At the roots of unity w^length = 1, so coefficients `length` apart add up.
  std::vector<double> folded(std::min(a.size() + 1, length), 0.0);
  folded[0] = 1;
  for (std::size_t k = 0; k < a.size(); ++k) folded[(k + 1) % length] += a[k];

  // Horner for a block of points at a time; the lower half of the circle mirrors the upper.
  constexpr std::size_t block = 64;
  double smallest = infinity;
  for (std::size_t first = 0; first <= length / 2; first += block) {
    double cosine[block], sine[block], real[block] = {}, imaginary[block] = {};
    for (std::size_t i = 0; i < block; ++i) {
      const double angle =
          -2 * std::numbers::pi * static_cast<double>(std::min(first + i, length / 2)) / static_cast<double>(length);
      cosine[i] = std::cos(angle);
      sine[i] = std::sin(angle);
    }
    for (std::size_t k = folded.size(); k-- > 0;)
      for (std::size_t i = 0; i < block; ++i) {
        const double re = real[i] * cosine[i] - imaginary[i] * sine[i] + folded[k];
        imaginary[i] = real[i] * sine[i] + imaginary[i] * cosine[i];
        real[i] = re;
      }
    for (std::size_t i = 0; i < block; ++i) smallest = std::min(smallest, std::hypot(real[i], imaginary[i]));
  }
  return smallest;
}

double condition(std::span<const double> a, std::size_t length) {
  check_finite("condition", "a", a);
  a = without_trailing_zeros(a);
  const std::size_t n = a.size();
  const double norm = 1 + l1_norm(a);
  // window[i] collects g_{start + i}: each g_t, once known, is spread over the n that follow it.
  const std::size_t span = std::max<std::size_t>(n, 256);
  std::vector<double> window(span + n, 0.0);
  window[0] = 1;
  double sum = 0;
  for (std::size_t start = 0; start < length; start += span) {
    const std::size_t count = std::min(span, length - start);
    for (std::size_t i = 0; i < count; ++i) {
      const double g = window[i];
      sum += std::abs(g);
      double* next = window.data() + i + 1;
      for (std::size_t k = 0; k < n; ++k) next[k] -= a[k] * g;
    }
    if (!std::isfinite(norm * sum)) return infinity;
    // What is left in the window is all that the past still says: the rest of g is its response through 1/A, so the
    // rest of the sum is at most |left|_1 times the whole sum. Below rounding it cannot matter.
    double left = 0;
    for (std::size_t k = 0; k < n; ++k) left += std::abs(window[span + k]);
    if (left < epsilon / 4) break;
    std::copy(window.begin() + static_cast<std::ptrdiff_t>(span), window.end(), window.begin());
    std::fill(window.begin() + static_cast<std::ptrdiff_t>(n), window.end(), 0.0);
  }
  return norm * sum;
}

double condition(const TransferFunction& tf, std::size_t length) {
  validate(tf, "condition");
  std::vector<double> each(tf.groups);
  parallel_for(default_executor(), tf.groups, [&](std::size_t g, std::size_t) {
    each[g] = condition({tf.a.data() + g * tf.order, tf.order}, length);
  });
  return *std::max_element(each.begin(), each.end());
}

}  // namespace rtf
