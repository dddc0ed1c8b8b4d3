// Trained numerator <-> plain numerator. Algorithm 1's kernel already is the exact response of the corrected system,
// with lag L folded onto k[0], so the numerator is a short convolution of the response with the denominator.
#include "rtf/correction.h"

#include <algorithm>
#include <vector>

#include "core/arguments.h"
#include "core/conditioning.h"
#include "core/file_errors.h"
#include "core/polynomial.h"
#include "rtf/stability.h"

namespace rtf {
namespace {

using Row = std::vector<double>;

Row row(std::span<const double> values, std::size_t index, std::size_t length) {
  const auto part = values.subspan(index * length, length);
  return {part.begin(), part.end()};
}

Row reversed(Row values) {
  std::reverse(values.begin(), values.end());
  return values;
}

// Response h_1..h_n of the corrected system, h[0] unused. Past L it follows from h_t - h_{t+L} = s_t, s that of b~ / A.
Row extended_response(const TrainedTransferFunction& trained, const Row& a, const Row& k, std::size_t channel) {
  const std::size_t n = trained.order, length = trained.length;
  Row h(n + 1, 0.0);
  std::copy_n(k.begin() + 1, std::min(n, length - 1), h.begin() + 1);
  if (n < length) return h;
  h[length] = k[0] - trained.h0[channel];
  const Row s = divide_series(row(trained.b, channel, n), a, n - length + 1);
  for (std::size_t t = 1; length + t <= n; ++t) h[length + t] = h[t] - s[t];
  return h;
}

}  // namespace

void check_condition(const char* operation, const Coefficients& c, std::size_t length) {
  TransferFunction tf;
  static_cast<Coefficients&>(tf) = c;
  const double bound = recurrence_bound(condition(tf, length));
  if (!(bound <= refused_bound))
    fail(ErrorCode::unstable, operation,
         "over {} samples the recurrence would amplify rounding to {:.1e} (at most {:.0e} is allowed): a pole lies "
         "outside "
         "the unit circle or the denominator is ill-conditioned; stream a refitted or constrained system instead",
         length, bound, refused_bound);
}

TransferFunction correct(const TrainedTransferFunction& trained) {
  const std::vector<double> kernels = part_of("correct", [&] { return wrapped_kernel(trained); });
  check_condition("correct", trained, trained.length);
  TransferFunction tf;
  static_cast<Coefficients&>(tf) = trained;
  const std::size_t n = trained.order;
  parallel_for(default_executor(), trained.channels, [&](std::size_t channel, std::size_t) {
    const Row a = row(trained.a, trained.group_of(channel), n);
    const Row k = row(kernels, channel, trained.length);
    const Row numerator = multiply(with_leading_one(a), extended_response(trained, a, k, channel), n + 1);
    std::copy_n(numerator.begin() + 1, n, tf.b.begin() + static_cast<std::ptrdiff_t>(channel * n));
    tf.h0[channel] = k[0];
  });
  return tf;
}

TrainedTransferFunction wrap(const TransferFunction& tf, std::size_t length) {
  if (length == 0) fail(ErrorCode::argument, "wrap", "length is 0; it must be at least 1");
  const std::size_t n = tf.order, long_length = length + n + 1;
  const std::vector<double> kernels = part_of("wrap", [&] { return exact_kernel(tf, long_length); });
  check_condition("wrap", tf, length);
  TrainedTransferFunction trained;
  static_cast<Coefficients&>(trained) = tf;
  trained.length = length;
  parallel_for(default_executor(), tf.channels, [&](std::size_t channel, std::size_t) {
    const Row a = row(tf.a, tf.group_of(channel), n);
    Row tail(kernels.begin() + static_cast<std::ptrdiff_t>(channel * long_length + length),
             kernels.begin() + static_cast<std::ptrdiff_t>((channel + 1) * long_length));
    trained.h0[channel] -= tail[0];
    tail[0] = 0;
    const Row lost = multiply(with_leading_one(a), tail, n + 1);
    for (std::size_t m = 1; m <= n; ++m) trained.b[channel * n + m - 1] -= lost[m];
  });
  // A pole on a root of unity leaves a numerator that tells nothing of tf: what has no kernel is refused.
  part_of("wrap", [&] { return wrapped_kernel(trained); });
  return trained;
}

// Both maps end in C = (1, a) * h truncated to n terms; its gradients are correlations, products in reversed time.
CoefficientsGradient correct_vjp(const TrainedTransferFunction& trained, const CoefficientsGradient& gradient) {
  const std::size_t n = trained.order, length = trained.length;
  check_count("correct_vjp", "the gradient of b", gradient.b.size(), trained.b.size());
  check_count("correct_vjp", "the gradient of h0", gradient.h0.size(), trained.channels);
  const std::vector<double> kernels = wrapped_kernel(trained);
  std::vector<double> dk(kernels.size(), 0.0);
  CoefficientsGradient direct{Row(trained.a.size(), 0.0), Row(trained.b.size(), 0.0), Row(trained.channels, 0.0)};
  if (!gradient.a.empty()) {  // the denominator passes through unchanged
    check_count("correct_vjp", "the gradient of a", gradient.a.size(), trained.a.size());
    direct.a = gradient.a;
  }
  for (std::size_t channel = 0; channel < trained.channels; ++channel) {
    const std::size_t group = trained.group_of(channel);
    const Row a = row(trained.a, group, n), k = row(kernels, channel, length);
    const Row h = extended_response(trained, a, k, channel);
    Row dc(n + 1, 0.0);
    std::copy_n(gradient.b.begin() + static_cast<std::ptrdiff_t>(channel * n), n, dc.begin() + 1);
    const Row reversed_dc = reversed(dc);
    Row dh = reversed(multiply(reversed_dc, with_leading_one(a), n + 1));
    const Row da = reversed(multiply(reversed_dc, h, n + 1));
    for (std::size_t j = 1; j <= n; ++j) direct.a[group * n + j - 1] += da[j];

    double* out = dk.data() + channel * length;
    out[0] += gradient.h0[channel];
    if (n >= length) {
      Row ds(n - length + 1, 0.0);
      for (std::size_t t = n - length; t >= 1; --t) {
        dh[t] += dh[length + t];
        ds[t] = -dh[length + t];
      }
      out[0] += dh[length];
      direct.h0[channel] -= dh[length];
      TransferFunction series = make_coefficients(1, 1, n);
      series.a = a;
      series.b = row(trained.b, channel, n);
      const CoefficientsGradient from_s = exact_kernel_vjp(series, ds.size(), ds);
      for (std::size_t j = 0; j < n; ++j) {
        direct.a[group * n + j] += from_s.a[j];
        direct.b[channel * n + j] += from_s.b[j];
      }
    }
    for (std::size_t t = 1; t <= std::min(n, length - 1); ++t) out[t] += dh[t];
  }
  const CoefficientsGradient through = wrapped_kernel_vjp(trained, dk);
  for (std::size_t i = 0; i < direct.a.size(); ++i) direct.a[i] += through.a[i];
  for (std::size_t i = 0; i < direct.b.size(); ++i) direct.b[i] += through.b[i];
  for (std::size_t i = 0; i < direct.h0.size(); ++i) direct.h0[i] += through.h0[i];
  return direct;
}

CoefficientsGradient wrap_vjp(const TransferFunction& tf, std::size_t length, const CoefficientsGradient& gradient) {
  if (length == 0) fail(ErrorCode::argument, "wrap_vjp", "length is 0; it must be at least 1");
  const std::size_t n = tf.order, long_length = length + n + 1;
  check_count("wrap_vjp", "the gradient of b", gradient.b.size(), tf.b.size());
  check_count("wrap_vjp", "the gradient of h0", gradient.h0.size(), tf.channels);
  const std::vector<double> kernels = exact_kernel(tf, long_length);
  std::vector<double> dk(kernels.size(), 0.0);
  CoefficientsGradient direct{Row(tf.a.size(), 0.0), gradient.b, gradient.h0};
  if (!gradient.a.empty()) {
    check_count("wrap_vjp", "the gradient of a", gradient.a.size(), tf.a.size());
    direct.a = gradient.a;
  }
  for (std::size_t channel = 0; channel < tf.channels; ++channel) {
    const std::size_t group = tf.group_of(channel);
    Row tail = row(kernels, channel, long_length);
    tail.erase(tail.begin(), tail.begin() + static_cast<std::ptrdiff_t>(length));
    tail[0] = 0;
    Row dc(n + 1, 0.0);
    for (std::size_t m = 1; m <= n; ++m) dc[m] = -gradient.b[channel * n + m - 1];
    const Row reversed_dc = reversed(dc);
    const Row dh = reversed(multiply(reversed_dc, with_leading_one(row(tf.a, group, n)), n + 1));
    const Row da = reversed(multiply(reversed_dc, tail, n + 1));
    for (std::size_t j = 1; j <= n; ++j) direct.a[group * n + j - 1] += da[j];
    double* out = dk.data() + channel * long_length + length;
    out[0] = -gradient.h0[channel];
    for (std::size_t t = 1; t <= n; ++t) out[t] = dh[t];
  }
  const CoefficientsGradient through = exact_kernel_vjp(tf, long_length, dk);
  for (std::size_t i = 0; i < direct.a.size(); ++i) direct.a[i] += through.a[i];
  for (std::size_t i = 0; i < direct.b.size(); ++i) direct.b[i] += through.b[i];
  return direct;
}

}  // namespace rtf
