// Signals through a MIMO system, one output after the other: output i is the sum over the inputs of a system with a
// channel an input, whose states are the same for every i.
#include <algorithm>
#include <vector>

#include "core/arguments.h"
#include "rtf/convolution.h"
#include "rtf/filter.h"
#include "rtf/mimo.h"
#include "rtf/recurrence.h"
#include "rtf/workspace.h"

namespace rtf {
namespace {

// The channels of output i: a channel an input, one denominator.
TransferFunction output_row(const MimoTransferFunction& tf, std::size_t i) {
  const std::size_t m = tf.inputs, n = tf.order;
  TransferFunction row = make_coefficients(m, 1, n);
  row.a = tf.a;
  std::copy_n(tf.b.begin() + static_cast<std::ptrdiff_t>(i * m * n), m * n, row.b.begin());
  std::copy_n(tf.h0.begin() + static_cast<std::ptrdiff_t>(i * m), m, row.h0.begin());
  return row;
}

// Channel i of a signal as if it were `channels` equal ones.
template <class T>
Signal<const T> repeated(const Signal<const T>& signal, std::size_t i, std::size_t channels) {
  Signal<const T> one = signal;
  one.data = signal.at(0, 0, i);
  one.channels = channels;
  one.channel_stride = 0;
  return one;
}

// y_i = the sum of the channels of `terms`.
template <class T>
void sum_channels(const Signal<const T>& terms, const Signal<T>& y, std::size_t i) {
  for (std::size_t s = 0; s < y.batch; ++s)
    for (std::size_t t = 0; t < y.length; ++t) {
      double sum = 0;
      for (std::size_t j = 0; j < terms.channels; ++j) sum += *terms.at(s, t, j);
      *y.at(s, t, i) = static_cast<T>(sum);
    }
}

// Adds the contiguous (batch, length, channels) values of `from`.
template <class T>
void add(std::span<const T> from, std::span<double> to) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i];
}

template <class T>
void copy_to(std::span<const double> from, const Signal<T>& to) {
  for (std::size_t s = 0, index = 0; s < to.batch; ++s)
    for (std::size_t t = 0; t < to.length; ++t)
      for (std::size_t c = 0; c < to.channels; ++c) *to.at(s, t, c) = static_cast<T>(from[index++]);
}

// The number of samples of a kernel of shape (outputs, inputs, length).
std::size_t kernel_length(const char* operation, std::size_t size, std::size_t outputs, std::size_t inputs) {
  const std::size_t entries = outputs * inputs;
  if (entries == 0)
    fail(ErrorCode::argument, operation, "{} inputs and {} outputs; at least one of each is needed", inputs, outputs);
  if (size == 0 || size % entries != 0)
    fail(ErrorCode::argument, operation, "the kernel has {} values, which is no multiple of {} outputs x {} inputs",
         size, outputs, inputs);
  return size / entries;
}

}  // namespace

template <class T>
void mimo_convolve(Signal<const T> u, std::span<const std::type_identity_t<T>> kernel,
                   Signal<std::type_identity_t<T>> y) {
  check_signal("mimo_convolve", "y", y, u.batch, u.length, y.channels);
  const std::size_t m = u.channels, row = m * kernel_length("mimo_convolve", kernel.size(), y.channels, m);
  std::vector<T> values(u.batch * u.length * m);
  const auto terms = channels_last(values.data(), u.batch, u.length, m);
  for (std::size_t i = 0; i < y.channels; ++i) {
    convolve<T>(u, kernel.subspan(i * row, row), terms);
    sum_channels<T>(terms, y, i);
  }
}

template <class T>
void mimo_convolve_vjp(Signal<const T> u, std::span<const std::type_identity_t<T>> kernel,
                       Signal<const std::type_identity_t<T>> y_gradient, Signal<std::type_identity_t<T>> u_gradient,
                       std::span<std::type_identity_t<T>> kernel_gradient) {
  constexpr const char* operation = "mimo_convolve_vjp";
  const std::size_t m = u.channels, outputs = y_gradient.channels;
  const std::size_t length = kernel_length(operation, kernel.size(), outputs, m), row = m * length;
  check_signal(operation, "y_gradient", y_gradient, u.batch, u.length, outputs);
  check_signal(operation, "u_gradient", u_gradient, u.batch, u.length, m);
  check_count(operation, "kernel_gradient", kernel_gradient.size(), kernel.size());
  const ConvolutionPlan<T> plan(u.batch, u.length, m, length);
  Executor& executor = default_executor();
  const Workspace workspace(plan.vjp_workspace_bytes(executor));
  std::vector<T> one(u.batch * u.length * m);
  std::vector<double> sum(one.size(), 0.0);
  for (std::size_t i = 0; i < outputs; ++i) {
    convolve_vjp<T>(plan, u, kernel.subspan(i * row, row), repeated<T>(y_gradient, i, m),
                    channels_last(one.data(), u.batch, u.length, m), kernel_gradient.subspan(i * row, row), {},
                    workspace, executor);
    add<T>(one, sum);
  }
  copy_to(sum, u_gradient);
}

template <class T>
void step(const MimoTransferFunction& tf, std::span<const T> u, std::span<double> state, std::span<T> y) {
  const std::size_t m = tf.inputs, n = tf.order;
  if (m == 0 || tf.outputs == 0 || tf.a.size() != n || tf.b.size() != tf.outputs * m * n ||
      tf.h0.size() != tf.outputs * m)
    validate(tf, "step");  // names what is wrong; that the values are finite is not asked at every sample
  if (u.size() % m != 0)
    fail(ErrorCode::argument, "step", "u has {} values, which is no multiple of {} inputs", u.size(), m);
  const std::size_t batch = u.size() / m;
  check_count("step", "y", y.size(), batch * tf.outputs);
  check_count("step", "the state", state.size(), batch * m * n);
  for (std::size_t s = 0; s < batch; ++s) {
    const T* in = u.data() + s * m;
    double* x = state.data() + s * m * n;
    for (std::size_t i = 0; i < tf.outputs; ++i) {
      const double *b = tf.b.data() + i * m * n, *h0 = tf.h0.data() + i * m;
      double out = 0;
      for (std::size_t j = 0; j < m; ++j) out += h0[j] * in[j];
      for (std::size_t k = 0; k < m * n; ++k) out += b[k] * x[k];
      y[s * tf.outputs + i] = static_cast<T>(out);
    }
    for (std::size_t j = 0; j < m && n > 0; ++j) {
      double *past = x + j * n, v = in[j];
      for (std::size_t k = 0; k < n; ++k) v -= tf.a[k] * past[k];
      std::copy_backward(past, past + n - 1, past + n);
      past[0] = v;
    }
  }
}

template <class T>
void filter(const MimoTransferFunction& tf, Signal<const T> u, Signal<std::type_identity_t<T>> y,
            std::span<const double> initial_state, std::span<double> final_state, FilterMethod method) {
  validate(tf, "filter");
  check_signal("filter", "u", u, u.batch, u.length, tf.inputs);
  check_signal("filter", "y", y, u.batch, u.length, tf.outputs);
  const std::size_t state_size = u.batch * tf.inputs * tf.order;
  if (!initial_state.empty()) check_count("filter", "the initial state", initial_state.size(), state_size);
  if (!final_state.empty()) check_count("filter", "the final state", final_state.size(), state_size);
  std::vector<T> values(u.batch * u.length * tf.inputs);
  const auto terms = channels_last(values.data(), u.batch, u.length, tf.inputs);
  for (std::size_t i = 0; i < tf.outputs; ++i) {
    // Every output passes through the same states; the last one writes them, because the two arrays may be one.
    const bool last = i + 1 == tf.outputs;
    filter<T>(output_row(tf, i), u, terms, initial_state, last ? final_state : std::span<double>(), method);
    sum_channels<T>(terms, y, i);
  }
}

template <class T>
void prefill(const MimoTransferFunction& tf, Signal<const T> u, std::span<double> state,
             Signal<std::type_identity_t<T>> y) {
  check_count("prefill", "the state", state.size(), u.batch * tf.inputs * tf.order);
  filter<T>(tf, u, y, state, state);
}

template <class T>
FilterGradient<T> filter_vjp(const MimoTransferFunction& tf, Signal<const T> u, std::span<const double> initial_state,
                             Signal<const std::type_identity_t<T>> y_gradient,
                             std::span<const double> final_state_gradient) {
  constexpr const char* operation = "filter_vjp";
  validate(tf, operation);
  const std::size_t m = tf.inputs, n = tf.order;
  check_signal(operation, "u", u, u.batch, u.length, m);
  check_signal(operation, "y_gradient", y_gradient, u.batch, u.length, tf.outputs);
  if (!initial_state.empty()) check_count(operation, "the initial state", initial_state.size(), u.batch * m * n);
  if (!final_state_gradient.empty())
    check_count(operation, "the gradient of the final state", final_state_gradient.size(), u.batch * m * n);
  std::vector<double> du(u.batch * u.length * m, 0.0);
  FilterGradient<T> result;
  result.initial_state.assign(u.batch * m * n, 0.0);
  result.coefficients.a.assign(n, 0.0);
  for (std::size_t i = 0; i < tf.outputs; ++i) {
    // The final state is one for all outputs, so its gradient goes back once.
    const auto row = filter_vjp<T>(output_row(tf, i), u, initial_state, repeated<T>(y_gradient, i, m),
                                   i == 0 ? final_state_gradient : std::span<const double>());
    add<T>(row.u, du);
    add<double>(row.initial_state, result.initial_state);
    add<double>(row.coefficients.a, result.coefficients.a);
    auto& [a, b, h0] = result.coefficients;
    b.insert(b.end(), row.coefficients.b.begin(), row.coefficients.b.end());
    h0.insert(h0.end(), row.coefficients.h0.begin(), row.coefficients.h0.end());
  }
  result.u.assign(du.begin(), du.end());
  return result;
}

#define RTF_INSTANTIATE(T)                                                                                        \
  template void mimo_convolve(Signal<const T>, std::span<const T>, Signal<T>);                                    \
  template void mimo_convolve_vjp(Signal<const T>, std::span<const T>, Signal<const T>, Signal<T>, std::span<T>); \
  template void step(const MimoTransferFunction&, std::span<const T>, std::span<double>, std::span<T>);           \
  template void filter(const MimoTransferFunction&, Signal<const T>, Signal<T>, std::span<const double>,          \
                       std::span<double>, FilterMethod);                                                          \
  template void prefill(const MimoTransferFunction&, Signal<const T>, std::span<double>, Signal<T>);              \
  template FilterGradient<T> filter_vjp(const MimoTransferFunction&, Signal<const T>, std::span<const double>,    \
                                        Signal<const T>, std::span<const double>);
RTF_INSTANTIATE(float)
RTF_INSTANTIATE(double)
#undef RTF_INSTANTIATE

}  // namespace rtf
