#include "rtf/recurrence.h"

#include <vector>

#include "core/arguments.h"
#include "rtf/filter.h"

namespace rtf {

template <class T>
void step(const TransferFunction& tf, std::span<const T> u, std::span<T> state, std::span<T> y) {
  const std::size_t n = tf.order, channels = tf.channels;
  if (channels == 0 || u.size() % channels != 0)
    fail(ErrorCode::argument, "step", "u has {} values, which is no multiple of {} channels", u.size(), channels);
  check_count("step", "y", y.size(), u.size());
  check_count("step", "the state", state.size(), u.size() * n);
  for (std::size_t i = 0; i < u.size(); ++i) {
    const std::size_t channel = i % channels;
    const double* a = tf.a.data() + tf.group_of(channel) * n;
    const double* b = tf.b.data() + channel * n;
    T* x = state.data() + i * n;
    double v = u[i], out = tf.h0[channel] * v;
    for (std::size_t k = 0; k < n; ++k) {
      v -= a[k] * x[k];
      out += b[k] * x[k];
    }
    for (std::size_t k = n; k > 1; --k) x[k - 1] = x[k - 2];
    if (n > 0) x[0] = static_cast<T>(v);
    y[i] = static_cast<T>(out);
  }
}

template <class T>
void prefill(const TransferFunction& tf, Signal<const T> u, std::span<std::type_identity_t<T>> state,
             Signal<std::type_identity_t<T>> y) {
  check_count("prefill", "the state", state.size(), u.batch * tf.channels * tf.order);
  filter<T>(tf, u, y, state, state);
}

template void step(const TransferFunction&, std::span<const float>, std::span<float>, std::span<float>);
template void step(const TransferFunction&, std::span<const double>, std::span<double>, std::span<double>);
template void prefill(const TransferFunction&, Signal<const float>, std::span<float>, Signal<float>);
template void prefill(const TransferFunction&, Signal<const double>, std::span<double>, Signal<double>);

namespace {

// Free running is filtering silence: only the denominator matters.
TransferFunction without_output(const TransferFunction& tf) {
  TransferFunction free = make_coefficients(tf.channels, tf.groups, tf.order);
  free.a = tf.a;
  free.h0.assign(tf.channels, 0.0);
  return free;
}

std::size_t check_states(const char* operation, const TransferFunction& tf, std::size_t size) {
  const std::size_t one = tf.channels * tf.order;
  if (one == 0) {
    check_count(operation, "the state", size, 0);
    return 0;
  }
  if (size % one != 0)
    fail(ErrorCode::argument, operation, "the state has {} values, which is no multiple of {} channels x order {}",
         size, tf.channels, tf.order);
  return size / one;
}

}  // namespace

std::vector<double> advance_state(const TransferFunction& tf, std::span<const double> state, std::size_t length) {
  const std::size_t batch = check_states("advance_state", tf, state.size());
  std::vector<double> result(state.begin(), state.end());
  if (batch == 0 || length == 0) return result;
  std::vector<double> silence(batch * length * tf.channels, 0.0);
  const auto signal = channels_last(silence.data(), batch, length, tf.channels);
  filter<double>(without_output(tf), signal, signal, state, result);
  return result;
}

AdvanceStateGradient advance_state_vjp(const TransferFunction& tf, std::span<const double> state, std::size_t length,
                                       std::span<const double> gradient) {
  const std::size_t batch = check_states("advance_state_vjp", tf, state.size());
  check_count("advance_state_vjp", "the gradient", gradient.size(), state.size());
  if (batch == 0 || length == 0)
    return {std::vector<double>(gradient.begin(), gradient.end()), std::vector<double>(tf.a.size(), 0.0)};
  const std::vector<double> silence(batch * length * tf.channels, 0.0);
  const auto signal = channels_last(silence.data(), batch, length, tf.channels);
  FilterGradient<double> through = filter_vjp<double>(without_output(tf), signal, state, signal, gradient);
  return {std::move(through.initial_state), std::move(through.coefficients.a)};
}

}  // namespace rtf
