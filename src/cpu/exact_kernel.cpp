// The exact impulse response of a plain numerator, and its gradient.
#include <algorithm>
#include <vector>

#include "core/arguments.h"
#include "core/conditioning.h"
#include "core/carver.h"
#include "core/file_errors.h"
#include "core/polynomial.h"
#include "cpu/recurrence.h"
#include "rtf/correction.h"
#include "rtf/kernel.h"

namespace rtf {
namespace {

// Above this order the transforms of Newton's division beat the recurrence, even one channel a lane.
constexpr std::size_t recurrence_order = 256;

std::span<const double> denominator(const Coefficients& c, std::size_t group) {
  return std::span(c.a).subspan(group * c.order, c.order);
}
std::span<const double> numerator(const Coefficients& c, std::size_t channel) {
  return std::span(c.b).subspan(channel * c.order, c.order);
}

// b_1 w + ... + b_n w^n with its zero constant term.
std::vector<double> with_leading_zero(std::span<const double> b) {
  std::vector<double> polynomial{0.0};
  polynomial.insert(polynomial.end(), b.begin(), b.end());
  return polynomial;
}

// An impulse fed to the recurrence of every channel.
std::vector<double> by_recurrence(const TransferFunction& tf, std::size_t length) {
  Executor& executor = default_executor();
  const cpu::Recurrence recurrence(tf, instruction_set(), length, tolerance<double>);
  AlignedVector<double> space(executor.workers() * recurrence.worker_space());
  std::vector<double> kernel(tf.channels * length, 0.0);
  const Signal<double> signal = length_last(kernel.data(), 1, tf.channels, length);
  for (std::size_t channel = 0; channel < tf.channels; ++channel) *signal.at(0, 0, channel) = 1.0;
  recurrence.run<double>(signal, signal, nullptr, nullptr, {}, space.data(), executor);
  return kernel;
}

// B / A by long division, or B times 1/A by Newton, automatically only where that holds.
std::vector<double> by_division(const TransferFunction& tf, std::size_t length, KernelMethod method) {
  std::vector<double> kernel(tf.channels * length);
  const std::size_t each = tf.channels / tf.groups;
  parallel_for(default_executor(), tf.groups, [&](std::size_t group, std::size_t) {
    const auto a = denominator(tf, group);
    std::vector<double> g;
    if (method == KernelMethod::newton) g = inverse_series(a, length);
    if (method == KernelMethod::automatic) g = inverse_series_automatic(a, length);
    for (std::size_t channel = group * each; channel < (group + 1) * each; ++channel) {
      const auto b = numerator(tf, channel);
      std::vector<double> h =
          method == KernelMethod::division ? divide_series(b, a, length) : multiply(with_leading_zero(b), g, length);
      h[0] = tf.h0[channel];
      std::copy(h.begin(), h.end(), kernel.begin() + static_cast<std::ptrdiff_t>(channel * length));
    }
  });
  return kernel;
}

}  // namespace

std::vector<double> exact_kernel(const TransferFunction& tf, std::size_t length, KernelMethod method) {
  validate(tf, "exact_kernel");
  if (length == 0) fail(ErrorCode::argument, "exact_kernel", "length is 0; it must be at least 1");
  require_kernel_memory("exact_kernel", tf.channels, length);
  if (method == KernelMethod::automatic && tf.order <= recurrence_order) method = KernelMethod::recurrence;
  std::vector<double> kernel =
      method == KernelMethod::recurrence ? by_recurrence(tf, length) : by_division(tf, length, method);
  if (!all_finite<double>(kernel))
    fail(ErrorCode::unstable, "exact_kernel", "the response overflows within {} samples: a pole lies outside the unit circle",
         length);
  return kernel;
}

CoefficientsGradient exact_kernel_vjp(const TransferFunction& tf, std::size_t length,
                                      std::span<const double> kernel_gradient) {
  validate(tf, "exact_kernel_vjp");
  check_count("exact_kernel_vjp", "kernel_gradient", kernel_gradient.size(), tf.channels * length);
  CoefficientsGradient gradient{std::vector<double>(tf.a.size(), 0.0), std::vector<double>(tf.b.size(), 0.0),
                                std::vector<double>(tf.channels, 0.0)};
  if (length == 0) return gradient;
  const std::vector<double> kernel = exact_kernel(tf, length);
  const std::size_t each = tf.channels / tf.groups, n = tf.order;
  parallel_for(default_executor(), tf.groups, [&](std::size_t group, std::size_t) {
    const std::vector<double> g = inverse_series_automatic(denominator(tf, group), length);
    for (std::size_t channel = group * each; channel < (group + 1) * each; ++channel) {
      const auto dk = kernel_gradient.subspan(channel * length, length);
      gradient.h0[channel] = dk[0];
      std::vector<double> h(kernel.begin() + static_cast<std::ptrdiff_t>(channel * length),
                            kernel.begin() + static_cast<std::ptrdiff_t>((channel + 1) * length));
      h[0] = 0;
      // Correlations are products in reversed time: p_j = sum_t dk_t g_{t-j}, then sum_t p_t h_{t-j}.
      const std::vector<double> p = multiply(std::vector<double>(dk.rbegin(), dk.rend()), g, length);
      const std::vector<double> q = multiply(p, h, length);
      for (std::size_t j = 1; j <= std::min(n, length - 1); ++j) {
        gradient.b[channel * n + j - 1] = p[length - 1 - j];
        gradient.a[group * n + j - 1] -= q[length - 1 - j];
      }
    }
  });
  return gradient;
}

std::vector<double> kernel(const TrainedTransferFunction& trained, std::size_t length) {
  const std::vector<double> wrapped = wrapped_kernel(trained);
  std::vector<double> result;
  if (length > trained.length) {
    check_condition("kernel", trained, length);
    result = exact_kernel(correct(trained), length);
  } else {
    result.resize(trained.channels * length);
  }
  for (std::size_t channel = 0; channel < trained.channels; ++channel)
    std::copy_n(wrapped.begin() + static_cast<std::ptrdiff_t>(channel * trained.length),
                std::min(length, trained.length), result.begin() + static_cast<std::ptrdiff_t>(channel * length));
  return result;
}

}  // namespace rtf
