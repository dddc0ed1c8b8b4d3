// What the tests share: random filters and sizes, references in long double, bounds and the gradient checker.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <vector>

#include "rtf/random.h"
#include "rtf/transfer_function.h"

namespace rtf::testing {

// The denominator whose lattice has these reflection coefficients: stable exactly when all are inside (-1, 1).
inline std::vector<double> step_up(std::span<const double> reflection) {
  std::vector<double> a, previous;
  for (double k : reflection) {
    previous = a;
    for (std::size_t i = 0; i < a.size(); ++i) a[i] += k * previous[a.size() - 1 - i];
    a.push_back(k);
  }
  return a;
}

// Filters of three families: reflection coefficients, Montel scaling, and 1 - r w^n with r up to 1.
// Seven in eight are drawn so that condition() <= 1e2 up to length 5,000; stability_test holds the shares per order.
class RandomFilters {
 public:
  explicit RandomFilters(std::uint64_t seed) : random_(seed) {}

  double uniform() { return random_.uniform(next_++); }
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  double normal() { return random_.normal(next_++); }
  bool chance(double probability) { return uniform() < probability; }

  // Both ends included.
  std::size_t integer(std::size_t low, std::size_t high) {
    const double span = static_cast<double>(high - low + 1);
    return low + std::min(static_cast<std::size_t>(span * uniform()), high - low);
  }

  std::vector<double> normals(std::size_t count) {
    std::vector<double> values(count);
    for (double& value : values) value = normal();
    return values;
  }

  // 1, small, power of two, its neighbours, prime, odd or any, up to `longest`.
  std::size_t length(std::size_t longest) {
    std::size_t power = 1;
    while (2 * power <= longest && chance(0.9)) power *= 2;
    switch (integer(0, 7)) {
      case 0:
        return chance(0.3) ? 1 : integer(1, std::min<std::size_t>(longest, 8));
      case 1:
        return power;
      case 2:
        return std::clamp<std::size_t>(chance(0.5) ? power + 1 : power - 1, 1, longest);
      case 3:
        return prime(integer(1, longest));
      case 4:
        return (integer(1, longest) - 1) / 2 * 2 + 1;
      default:
        return integer(1, longest);
    }
  }

  // Channels in 1..most and a number of groups that divides them.
  std::array<std::size_t, 2> channels_and_groups(std::size_t most) {
    const std::size_t channels = integer(1, most);
    std::vector<std::size_t> divisors;
    for (std::size_t g = 1; g <= channels; ++g)
      if (channels % g == 0) divisors.push_back(g);
    return {channels, divisors[integer(0, divisors.size() - 1)]};
  }

  TransferFunction draw(std::size_t channels, std::size_t groups, std::size_t order) {
    auto tf = make_coefficients(channels, groups, order);
    // One family and one hardness for all groups, so that the share of hard filters does not grow with their number.
    const std::size_t family = integer(0, 2);
    const bool hard = chance(0.125);
    for (std::size_t g = 0; g < groups; ++g) {
      const std::vector<double> a = family == 0   ? by_reflection(order, hard)
                                    : family == 1 ? by_montel(order, hard)
                                                  : comb(order, hard);
      std::copy(a.begin(), a.end(), tf.a.begin() + static_cast<std::ptrdiff_t>(g * order));
    }
    const double scale = 1 / std::sqrt(static_cast<double>(order) + 1);
    for (double& value : tf.b) value = scale * normal();
    for (double& value : tf.h0) value = normal();
    return tf;
  }

  // A few large reflection coefficients among many small ones: slow poles at every order without a large kappa.
  std::vector<double> by_reflection(std::size_t order, bool hard) {
    const double n = static_cast<double>(order);
    const double small = uniform(0, hard ? hard_spread : spread) / n;
    std::vector<double> reflection(order);
    for (double& k : reflection) k = std::tanh(small * normal());
    for (std::size_t i = 0, large = std::min<std::size_t>(order, hard ? 6 : 2); i < large; ++i)
      reflection[integer(0, order - 1)] = uniform(-1, 1) * (hard ? 0.98 : 0.65);
    return step_up(reflection);
  }

  // sum |a| = s, spread over all coefficients or over a few.
  std::vector<double> by_montel(std::size_t order, bool hard) {
    std::vector<double> a(order);
    const bool sparse = chance(0.3);
    for (double& value : a) value = sparse && !chance(4.0 / static_cast<double>(order)) ? 0.0 : normal();
    double norm = 0;
    for (double value : a) norm += std::abs(value);
    const double s = uniform(0.3, hard ? 0.999 : 0.95);
    for (double& value : a) value = norm > 0 ? value * s / norm : 0.0;
    return a;
  }

  // 1 - r w^n; when hard, r = 1 half the time: poles on the circle itself.
  std::vector<double> comb(std::size_t order, bool hard) {
    std::vector<double> a(order, 0.0);
    const double r = !hard ? uniform(0, 0.97) : chance(0.5) ? 1.0 : uniform(0.9, 1);
    if (order > 0) a.back() = chance(0.5) ? -r : r;
    return a;
  }

 private:
  static constexpr double spread = 2.5, hard_spread = 8;

  static std::size_t prime(std::size_t below) {
    for (std::size_t candidate = below; candidate > 2; --candidate) {
      bool found = true;
      for (std::size_t d = 2; found && d * d <= candidate; ++d) found = candidate % d != 0;
      if (found) return candidate;
    }
    return std::min<std::size_t>(below, 2);
  }

  Random random_;
  std::uint64_t next_ = 0;
};

// h_0..h_{length-1} of one channel by long division.
inline std::vector<long double> reference_kernel(const TransferFunction& tf, std::size_t channel, std::size_t length) {
  const CoefficientsView view(tf);
  const double *a = view.denominator(channel), *b = view.numerator(channel);
  std::vector<long double> h(length, 0.0L);
  for (std::size_t t = 1; t < length; ++t) {
    long double value = t <= tf.order ? b[t - 1] : 0.0;
    for (std::size_t k = 1; k <= std::min(tf.order, t - 1); ++k) value -= static_cast<long double>(a[k - 1]) * h[t - k];
    h[t] = value;
  }
  if (length > 0) h[0] = tf.h0[channel];
  return h;
}

struct ReferenceOutput {
  std::vector<long double> y;
  std::vector<long double> state;  // (v_{L-1}, ..., v_{L-n})
};

// One channel of one sequence by the companion recurrence; an empty x0 is the zero state.
template <class T>
ReferenceOutput reference_filter(const TransferFunction& tf, std::size_t channel, std::span<const T> u,
                                 std::span<const double> x0 = {}) {
  const CoefficientsView view(tf);
  const double *a = view.denominator(channel), *b = view.numerator(channel);
  const std::size_t n = tf.order, length = u.size();
  std::vector<long double> v(n + length, 0.0L);  // v[n + t] is v_t
  for (std::size_t k = 0; k < x0.size(); ++k) v[n - 1 - k] = x0[k];
  ReferenceOutput out;
  out.y.resize(length);
  for (std::size_t t = 0; t < length; ++t) {
    long double y = static_cast<long double>(tf.h0[channel]) * u[t], next = u[t];
    for (std::size_t k = 1; k <= n; ++k) {
      y += static_cast<long double>(b[k - 1]) * v[n + t - k];
      next -= static_cast<long double>(a[k - 1]) * v[n + t - k];
    }
    out.y[t] = y;
    v[n + t] = next;
  }
  out.state.assign(v.rbegin(), v.rbegin() + static_cast<std::ptrdiff_t>(n));
  return out;
}

// The error that targets allow, relative to the largest value: as it stands for well-conditioned filters, scaled past
// it.
inline double accuracy_bound(double kappa, bool f32) {
  return f32 ? 1e-5 * std::max(1.0, kappa / 1e2) : 1e-10 * std::max(1.0, kappa / 1e6);
}

// max |value - reference| / max |reference|; infinite when a value is not finite.
template <class Values, class Reference>
double relative_error(const Values& values, const Reference& reference) {
  long double error = 0, largest = 0;
  for (std::size_t i = 0; i < std::size(reference); ++i) {
    const long double difference = std::abs(static_cast<long double>(values[i]) - reference[i]);
    if (!std::isfinite(difference)) return HUGE_VAL;
    error = std::max(error, difference);
    largest = std::max(largest, std::abs(static_cast<long double>(reference[i])));
  }
  return static_cast<double>(largest > 0 ? error / largest : error);
}

// d loss / d value by the five-point central formula; `value` is put back.
template <class Loss>
double central_difference(const Loss& loss, double& value, double step = 1e-4) {
  const double kept = value, h = step * std::max(1.0, std::abs(value));
  const auto at = [&](double x) {
    value = x;
    return static_cast<double>(loss());
  };
  const double inner = at(kept + h) - at(kept - h), outer = at(kept + 2 * h) - at(kept - 2 * h);
  value = kept;
  return (8 * inner - outer) / (12 * h);
}

// The largest difference between `gradient` and central differences of loss() over `values`, relative to the largest
// of either, or to `scale`: a gradient that is zero but for rounding is judged beside the others of its loss.
// Checks at most `most` values, spread evenly.
template <class Loss>
double gradient_error(const Loss& loss, std::span<double> values, std::span<const double> gradient, double scale = 0,
                      std::size_t most = 64, double step = 1e-4) {
  double error = 0, largest = scale;
  for (double value : gradient) largest = std::max(largest, std::abs(value));
  const std::size_t stride = std::max<std::size_t>(1, (values.size() + most - 1) / most);
  for (std::size_t i = 0; i < values.size(); i += stride) {
    const double expected = central_difference(loss, values[i], step);
    if (!std::isfinite(gradient[i])) return HUGE_VAL;
    error = std::max(error, std::abs(expected - gradient[i]));
    largest = std::max(largest, std::abs(expected));
  }
  return largest > 0 ? error / largest : error;
}

// What gradient_error() may be.
inline constexpr double gradient_tolerance = 1e-6;

}  // namespace rtf::testing
