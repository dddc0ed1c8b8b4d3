#include "rtf/lfilter.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <type_traits>
#include <vector>

#include "core/arguments.h"
#include "core/conditioning.h"
#include "core/double_double.h"
#include "core/file_errors.h"
#include "rtf/executor.h"
#include "rtf/filter.h"
#include "rtf/stability.h"

namespace rtf {
namespace {

constexpr const char* operation = "lfilter";

std::size_t taps(const char* name, std::span<const double> values, std::size_t rows) {
  if (rows == 0 || values.empty() || values.size() % rows != 0)
    fail(ErrorCode::argument, operation, "{} has {} numbers in {} rows; each row needs at least one", name,
         values.size(), rows);
  return values.size() / rows;
}

template <class T>
void filter_from_rest(const TransferFunction& tf, Signal<const T> u, Signal<T> y) {
  if (u.length > 0) part_of(operation, [&] { filter<T>(tf, u, y); });
}

double dot(const double* x, const double* y, std::size_t n) {
  double sums[4] = {};
  std::size_t i = 0;
  for (; i + 4 <= n; i += 4)
    for (std::size_t lane = 0; lane < 4; ++lane) sums[lane] += x[i + lane] * y[i + lane];
  for (; i < n; ++i) sums[0] += x[i] * y[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// Adds e = Z / A to y, sample by sample, and to zf, unless that is empty, what Z - A E has left from sample `length`
// on. e dies out long before most signals end: what `order` samples below this share of the largest may grow to again
// is beyond rounding for every filter that is not refused.
void add_decay(const TransferFunction& tf, std::span<const double> zi, Signal<double> y, std::span<double> zf) {
  constexpr double negligible = 1e-30;
  const std::size_t n = tf.order, length = y.length;
  parallel_for(default_executor(), y.batch * y.channels, [&](std::size_t row, std::size_t) {
    const std::size_t s = row / y.channels, c = row % y.channels;
    const double *a = tf.a.data() + tf.group_of(c) * n, *from = zi.data() + row * n;
    const std::vector<double> reversed(std::make_reverse_iterator(a + n), std::make_reverse_iterator(a));
    std::vector<double> e(n + length);  // zeros before its first sample
    double largest = 0;
    std::size_t silent = 0;
    for (std::size_t t = 0; t < length && silent < n; ++t) {
      const double value = (t < n ? from[t] : 0.0) - dot(reversed.data(), e.data() + t, n);
      e[n + t] = value;
      *y.at(s, t, c) += value;
      largest = std::max(largest, std::abs(value));
      silent = t >= n && std::abs(value) <= negligible * largest ? silent + 1 : 0;
    }
    for (std::size_t k = 0; k < n && !zf.empty(); ++k)
      zf[row * n + k] += (length + k < n ? from[length + k] : 0.0) - dot(reversed.data(), e.data() + length + k, n - k);
  });
}

// What N U + Z - A Y has left from sample `length` on.
void write_final_state(const TransferFunction& tf, std::span<const double> zi, Signal<const double> u,
                       Signal<const double> y, std::span<double> zf) {
  const std::size_t n = tf.order, length = u.length;
  parallel_for(default_executor(), u.batch * u.channels, [&](std::size_t row, std::size_t) {
    const std::size_t s = row / u.channels, c = row % u.channels;
    const double *a = tf.a.data() + tf.group_of(c) * n, *b = tf.b.data() + c * n;
    for (std::size_t k = 0; k < n; ++k) {
      double sum = !zi.empty() && length + k < n ? zi[row * n + length + k] : 0.0;
      for (std::size_t i = k + 1; i <= n && i <= length + k; ++i) {
        const double from = *u.at(s, length + k - i, c), to = *y.at(s, length + k - i, c);
        sum += (tf.h0[c] * a[i - 1] + b[i - 1]) * from - a[i - 1] * to;
      }
      zf[row * n + k] = sum;
    }
  });
}

// SciPy's state where the companion state is x, in place. With p = b . x and q = a . x over what is ahead,
// p_t = sum_m b_{t+m} x_m: z_k = sum_i a_i p_{k-i} - b_i q_{k-i}, a_0 = 1. In 106 bits: where 1/A is large x is, and z
// is what is left of terms as large.
void transpose_states(const TransferFunction& tf, std::span<double> states) {
  const CoefficientsView view(tf);
  const std::size_t n = tf.order;
  parallel_for(default_executor(), states.size() / n, [&](std::size_t row, std::size_t) {
    const double *a = view.denominator(row % tf.channels), *b = view.numerator(row % tf.channels);
    const auto x = states.subspan(row * n, n);
    std::vector<DoubleDouble> p(n), q(n);
    for (std::size_t t = 0; t < n; ++t)
      for (std::size_t m = 1; m + t <= n; ++m) {
        p[t] = p[t] + exact_product(b[t + m - 1], x[m - 1]);
        q[t] = q[t] + exact_product(a[t + m - 1], x[m - 1]);
      }
    for (std::size_t k = 0; k < n; ++k) {
      DoubleDouble z = p[k];
      for (std::size_t i = 1; i <= k; ++i)
        z = z + DoubleDouble(a[i - 1]) * p[k - i] - DoubleDouble(b[i - 1]) * q[k - i];
      x[k] = static_cast<double>(z);
    }
  });
}

// In N U + Z - A Y every error of y is one of the state, which then goes through 1/A: what follows is off by kappa
// times the rounding bound.
bool state_needs_recurrence(const TransferFunction& tf, std::size_t length) {
  const double kappa = condition(tf, length);
  return !(recurrence_bound(kappa * kappa) <= tolerance<double>);
}

void filter_with_states(const TransferFunction& tf, Signal<const double> u, Signal<double> y,
                        std::span<const double> zi, std::span<double> zf) {
  if (zf.empty() || !state_needs_recurrence(tf, u.length)) {
    filter_from_rest<double>(tf, u, y);
    if (!zi.empty()) add_decay(tf, zi, y, {});
    if (!zf.empty()) write_final_state(tf, zi, u, y, zf);
    return;
  }
  part_of(operation, [&] { filter<double>(tf, u, y, {}, zf, FilterMethod::recurrence); });
  transpose_states(tf, zf);
  if (!zi.empty()) add_decay(tf, zi, y, zf);
}

template <class From, class To>
void copy(Signal<From> from, Signal<To> to) {
  for (std::size_t s = 0; s < from.batch; ++s)
    for (std::size_t c = 0; c < from.channels; ++c)
      for (std::size_t t = 0; t < from.length; ++t) *to.at(s, t, c) = static_cast<To>(*from.at(s, t, c));
}

}  // namespace

TransferFunction from_ratios(std::span<const double> b, std::span<const double> a, std::size_t channels,
                             std::size_t groups) {
  const std::size_t b_taps = taps("b", b, channels), a_taps = taps("a", a, groups);
  if (channels % groups != 0)
    fail(ErrorCode::argument, operation, "a has {} rows, which do not divide the {} channels", groups, channels);
  TransferFunction tf = make_coefficients(channels, groups, std::max(a_taps, b_taps) - 1);
  for (std::size_t g = 0; g < groups; ++g) {
    const double* row = a.data() + g * a_taps;
    if (row[0] == 0 || !std::isfinite(row[0]))
      fail(ErrorCode::argument, operation, "a_0 of denominator {} is {}; it must be finite and not 0", g, row[0]);
    for (std::size_t i = 1; i < a_taps; ++i) tf.a[g * tf.order + i - 1] = row[i] / row[0];
  }
  for (std::size_t c = 0; c < channels; ++c) {
    const double *row = b.data() + c * b_taps, *below = a.data() + tf.group_of(c) * a_taps;
    tf.h0[c] = row[0] / below[0];
    for (std::size_t i = 1; i <= tf.order; ++i) {
      const double numerator = i < b_taps ? row[i] : 0.0, denominator = i < a_taps ? below[i] : 0.0;
      tf.b[c * tf.order + i - 1] = std::fma(-tf.h0[c], denominator, numerator) / below[0];
    }
  }
  validate(tf, operation);
  return tf;
}

template <class T>
void lfilter(const TransferFunction& tf, Signal<const T> u, Signal<std::type_identity_t<T>> y,
             std::span<const double> zi, std::span<double> zf) {
  validate(tf, operation);
  check_signal(operation, "y", y, u.batch, u.length, tf.channels);
  check_signal(operation, "u", u, u.batch, u.length, tf.channels);
  const std::size_t states = u.batch * u.channels * tf.order;
  if (!zi.empty()) check_count(operation, "zi", zi.size(), states);
  if (!zf.empty()) check_count(operation, "zf", zf.size(), states);
  if (zi.empty() && zf.empty()) return filter_from_rest<T>(tf, u, y);
  if constexpr (std::is_same_v<T, double>) {
    filter_with_states(tf, u, y, zi, zf);
  } else {
    std::vector<double> wide(2 * u.batch * u.channels * u.length);
    const auto from = length_last(wide.data(), u.batch, u.channels, u.length);
    const auto to = length_last(wide.data() + wide.size() / 2, u.batch, u.channels, u.length);
    copy(u, from);
    filter_with_states(tf, from, to, zi, zf);
    copy(Signal<const double>(to), y);
  }
}

template void lfilter(const TransferFunction&, Signal<const float>, Signal<float>, std::span<const double>,
                      std::span<double>);
template void lfilter(const TransferFunction&, Signal<const double>, Signal<double>, std::span<const double>,
                      std::span<double>);

}  // namespace rtf
