// Gradients through filter(): for small orders by the recurrence, else the convolution with the state's prefix in front
// (state_convolution.h), read backwards.
#include <algorithm>
#include <vector>

#include "core/arguments.h"
#include "core/carver.h"
#include "core/conditioning.h"
#include "core/polynomial.h"
#include "cpu/recurrence_vjp.h"
#include "rtf/convolution.h"
#include "rtf/filter.h"
#include "rtf/stability.h"
#include "rtf/workspace.h"

namespace rtf {
namespace {

using Values = std::vector<double>;

// Past this order transforms, whose cost does not grow with it, are faster: from 1200 to 2500 on for many channels,
// from 700 on for one (AMD EPYC of the Zen 4 generation, AVX-512).
constexpr std::size_t recurrence_order = 1024;

// One convolution_vjp with kernels (channels, length), accumulated into the gradient of the signal; returns the
// kernels'.
Values convolve_back(const Values& signal, const Values& kernel, const Values& gradient, std::size_t batch,
                     std::size_t length, std::size_t channels, Values& signal_gradient) {
  const ConvolutionPlan<double> plan(batch, length, channels, length);
  Executor& executor = default_executor();
  const Workspace workspace(plan.vjp_workspace_bytes(executor));
  Values du(signal.size()), dk(kernel.size());
  convolve_vjp(plan, channels_last(signal.data(), batch, length, channels), kernel,
               channels_last(gradient.data(), batch, length, channels),
               channels_last(du.data(), batch, length, channels), dk, {}, workspace, executor);
  for (std::size_t i = 0; i < du.size(); ++i) signal_gradient[i] += du[i];
  return dk;
}

// g = 1/A mod w^length: from dg to da, added.
void inverse_series_vjp(std::span<const double> g, std::span<const double> gradient, std::span<double> a_gradient) {
  const std::size_t length = g.size();
  const Values p = multiply(Values(gradient.rbegin(), gradient.rend()), g, length);
  const Values q = multiply(p, g, length);
  for (std::size_t j = 1; j <= std::min(a_gradient.size(), length - 1); ++j) a_gradient[j - 1] -= q[length - 1 - j];
}

template <class T>
FilterGradient<T> by_convolution(const TransferFunction& tf, Signal<const T> u, std::span<const double> initial_state,
                                 Signal<const T> y_gradient, std::span<const double> final_state_gradient,
                                 Signal<T> u_gradient, Offsets offsets) {
  const std::size_t batch = sequence_count(u.batch, offsets), length = longest_sequence(u.length, offsets);
  const std::size_t channels = tf.channels, n = tf.order;
  // The signal with the prefix p A in front, p = (v_{-n}, ..., v_{-1}), and the gradients of what comes out of it.
  const std::size_t total = n + length, row = total * channels;
  Values extended(batch * row, 0.0), dy(batch * row, 0.0), dv(batch * row, 0.0), past(batch * n * channels, 0.0);
  Values denominator(channels * n, 0.0), inverse(channels * total);
  for (std::size_t s = 0; s < batch; ++s) {
    const auto in = sequence(u, offsets, s), gradient = sequence(y_gradient, offsets, s);
    for (std::size_t c = 0; c < channels; ++c) {
      const std::size_t state = (s * channels + c) * n;
      for (std::size_t t = 0; t < in.length; ++t) {
        extended[s * row + (n + t) * channels + c] = *in.at(0, t, c);
        dy[s * row + (n + t) * channels + c] = *gradient.at(0, t, c);
      }
      for (std::size_t k = 1; k <= n; ++k) {
        if (!initial_state.empty()) past[(s * n + n - k) * channels + c] = initial_state[state + k - 1];
        if (!final_state_gradient.empty())
          dv[s * row + (n + in.length - k) * channels + c] = final_state_gradient[state + k - 1];
      }
    }
  }
  for (std::size_t c = 0; c < channels; ++c) {
    const auto a = std::span(tf.a).subspan(tf.group_of(c) * n, n);
    const Values g = inverse_series_automatic(a, total);
    std::copy(g.begin(), g.end(), inverse.begin() + static_cast<std::ptrdiff_t>(c * total));
    if (n == 0) continue;
    denominator[c * n] = 1.0;
    std::copy_n(a.begin(), n - 1, denominator.begin() + static_cast<std::ptrdiff_t>(c * n + 1));
  }
  if (n > 0 && !initial_state.empty()) {
    Values prefix(past.size());
    convolve<double>(channels_last<const double>(past.data(), batch, n, channels), denominator,
                     channels_last(prefix.data(), batch, n, channels));
    for (std::size_t s = 0; s < batch; ++s)
      std::copy_n(prefix.begin() + static_cast<std::ptrdiff_t>(s * n * channels), n * channels,
                  extended.begin() + static_cast<std::ptrdiff_t>(s * row));
  }

  Values d_extended(extended.size(), 0.0);
  const Values kernel = exact_kernel(tf, std::max<std::size_t>(total, 1));
  const Values dk =
      total == 0 ? Values(channels, 0.0) : convolve_back(extended, kernel, dy, batch, total, channels, d_extended);
  FilterGradient<T> result;
  result.coefficients = exact_kernel_vjp(tf, std::max<std::size_t>(total, 1), dk);
  const auto a_gradient = [&](std::size_t channel) {
    return std::span(result.coefficients.a).subspan(tf.group_of(channel) * n, n);
  };
  if (n > 0 && !final_state_gradient.empty()) {
    const Values dg = convolve_back(extended, inverse, dv, batch, total, channels, d_extended);
    for (std::size_t c = 0; c < channels; ++c)
      inverse_series_vjp(std::span(inverse).subspan(c * total, total), std::span(dg).subspan(c * total, total),
                         a_gradient(c));
  }
  result.initial_state.assign(batch * channels * n, 0.0);
  if (n > 0) {
    Values d_prefix(past.size()), d_past(past.size(), 0.0);
    for (std::size_t s = 0; s < batch; ++s)
      std::copy_n(d_extended.begin() + static_cast<std::ptrdiff_t>(s * row), n * channels,
                  d_prefix.begin() + static_cast<std::ptrdiff_t>(s * n * channels));
    const Values dd = convolve_back(past, denominator, d_prefix, batch, n, channels, d_past);
    for (std::size_t c = 0; c < channels; ++c)
      for (std::size_t k = 1; k < n; ++k) a_gradient(c)[k - 1] += dd[c * n + k];
    for (std::size_t s = 0; s < batch; ++s)
      for (std::size_t c = 0; c < channels; ++c)
        for (std::size_t k = 1; k <= n; ++k)
          result.initial_state[(s * channels + c) * n + k - 1] = d_past[(s * n + n - k) * channels + c];
  }
  for (std::size_t s = 0; s < batch; ++s) {
    const auto to = sequence(u_gradient, offsets, s);
    for (std::size_t t = 0; t < to.length; ++t)
      for (std::size_t c = 0; c < channels; ++c)
        *to.at(0, t, c) = static_cast<T>(d_extended[s * row + (n + t) * channels + c]);
  }
  return result;
}

}  // namespace

template <class T>
FilterGradient<T> filter_vjp(const TransferFunction& tf, Signal<const T> u, std::span<const double> initial_state,
                             Signal<const std::type_identity_t<T>> y_gradient,
                             std::span<const double> final_state_gradient, Signal<std::type_identity_t<T>> u_gradient,
                             Offsets offsets, FilterMethod method) {
  validate(tf, "filter_vjp");
  const std::size_t batch = sequence_count(u.batch, offsets), length = longest_sequence(u.length, offsets);
  const std::size_t state_size = batch * tf.channels * tf.order;
  check_sequences("filter_vjp", u, offsets, batch, length, tf.channels);
  check_signal("filter_vjp", "y_gradient", y_gradient, u.batch, u.length, u.channels);
  check_signal("filter_vjp", "u_gradient", u_gradient, u.batch, u.length, u.channels);
  if (!initial_state.empty()) check_count("filter_vjp", "the initial state", initial_state.size(), state_size);
  if (!final_state_gradient.empty())
    check_count("filter_vjp", "the gradient of the final state", final_state_gradient.size(), state_size);

  if (method == FilterMethod::automatic) {
    // As in filter(), nothing else is as good for states.
    const bool states = !initial_state.empty() || !final_state_gradient.empty();
    const bool holds = states || recurrence_bound(condition(tf, length)) <= tolerance<T>;
    method = holds && tf.order <= recurrence_order ? FilterMethod::recurrence : FilterMethod::fft;
  }
  if (method == FilterMethod::fft)
    return by_convolution<T>(tf, u, initial_state, y_gradient, final_state_gradient, u_gradient, offsets);
  if (method != FilterMethod::recurrence)
    fail(ErrorCode::argument, "filter_vjp", "method {} has no gradient of its own; recurrence and fft have",
         name(method));
  FilterGradient<T> result;
  const cpu::RecurrenceVjp recurrence(tf, instruction_set(), length, tolerance<T>);
  recurrence.run<T>(u, initial_state, y_gradient, final_state_gradient, u_gradient, offsets, result,
                    default_executor());
  return result;
}

template <class T>
FilterGradient<T> filter_vjp(const TransferFunction& tf, Signal<const T> u, std::span<const double> initial_state,
                             Signal<const std::type_identity_t<T>> y_gradient,
                             std::span<const double> final_state_gradient, Offsets offsets, FilterMethod method) {
  std::vector<T> du(u.batch * u.length * u.channels);
  auto result = filter_vjp<T>(tf, u, initial_state, y_gradient, final_state_gradient,
                              channels_last(du.data(), u.batch, u.length, u.channels), offsets, method);
  result.u = std::move(du);
  return result;
}

#define RTF_INSTANTIATE(T)                                                                                           \
  template FilterGradient<T> filter_vjp(const TransferFunction&, Signal<const T>, std::span<const double>,           \
                                        Signal<const T>, std::span<const double>, Signal<T>, Offsets, FilterMethod); \
  template FilterGradient<T> filter_vjp(const TransferFunction&, Signal<const T>, std::span<const double>,           \
                                        Signal<const T>, std::span<const double>, Offsets, FilterMethod);
RTF_INSTANTIATE(float)
RTF_INSTANTIATE(double)
#undef RTF_INSTANTIATE

}  // namespace rtf
