#include "rtf/recurrence.h"

#include <algorithm>
#include <vector>

#include "core/arguments.h"
#include "rtf/filter.h"

namespace rtf {

template <class T>
void step(const TransferFunction& tf, std::span<const T> u, std::span<double> state, std::span<T> y) {
  const std::size_t n = tf.order, channels = tf.channels;
  if (channels == 0 || tf.groups == 0 || channels % tf.groups != 0 || tf.a.size() != tf.groups * n ||
      tf.b.size() != channels * n || tf.h0.size() != channels)
    validate(tf, "step");  // names what is wrong; that the values are finite is not asked at every sample
  if (u.size() % channels != 0)
    fail(ErrorCode::argument, "step", "u has {} values, which is no multiple of {} channels", u.size(), channels);
  check_count("step", "y", y.size(), u.size());
  check_count("step", "the state", state.size(), u.size() * n);
  for (std::size_t i = 0; i < u.size(); ++i) {
    const std::size_t channel = i % channels;
    const double* a = tf.a.data() + tf.group_of(channel) * n;
    const double* b = tf.b.data() + channel * n;
    double* x = state.data() + i * n;
    double v = u[i], out = tf.h0[channel] * v;
    for (std::size_t k = 0; k < n; ++k) {
      v -= a[k] * x[k];
      out += b[k] * x[k];
    }
    for (std::size_t k = n; k > 1; --k) x[k - 1] = x[k - 2];
    if (n > 0) x[0] = v;
    y[i] = static_cast<T>(out);
  }
}

template <class T>
void prefill(const TransferFunction& tf, Signal<const T> u, std::span<double> state,
             Signal<std::type_identity_t<T>> y) {
  check_count("prefill", "the state", state.size(), u.batch * tf.channels * tf.order);
  filter<T>(tf, u, y, state, state);
}

template void step(const TransferFunction&, std::span<const float>, std::span<double>, std::span<float>);
template void step(const TransferFunction&, std::span<const double>, std::span<double>, std::span<double>);
template void prefill(const TransferFunction&, Signal<const float>, std::span<double>, Signal<float>);
template void prefill(const TransferFunction&, Signal<const double>, std::span<double>, Signal<double>);

namespace {

// Silence is fed in chunks of this many samples, so that its memory does not grow with the length.
constexpr std::size_t silent_chunk = 4096;

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
  const TransferFunction free = without_output(tf);
  std::vector<double> silence(batch * std::min(length, silent_chunk) * tf.channels, 0.0);
  for (std::size_t first = 0; first < length; first += silent_chunk) {
    const auto signal = channels_last(silence.data(), batch, std::min(silent_chunk, length - first), tf.channels);
    filter<double>(free, signal, signal, result, result);
  }
  return result;
}

AdvanceStateGradient advance_state_vjp(const TransferFunction& tf, std::span<const double> state, std::size_t length,
                                       std::span<const double> gradient) {
  const std::size_t batch = check_states("advance_state_vjp", tf, state.size());
  check_count("advance_state_vjp", "the gradient", gradient.size(), state.size());
  AdvanceStateGradient result{std::vector<double>(gradient.begin(), gradient.end()),
                              std::vector<double>(tf.a.size(), 0.0)};
  if (batch == 0 || length == 0) return result;
  const TransferFunction free = without_output(tf);
  // The state at the start of every chunk, then the chunks from the last to the first.
  std::vector<std::vector<double>> starts{std::vector<double>(state.begin(), state.end())};
  for (std::size_t first = silent_chunk; first < length; first += silent_chunk)
    starts.push_back(advance_state(tf, starts.back(), silent_chunk));
  const std::vector<double> silence(batch * std::min(length, silent_chunk) * tf.channels, 0.0);
  for (std::size_t chunk = starts.size(); chunk-- > 0;) {
    const std::size_t count = std::min(silent_chunk, length - chunk * silent_chunk);
    const auto signal = channels_last(silence.data(), batch, count, tf.channels);
    const auto through = filter_vjp<double>(free, signal, starts[chunk], signal, result.state);
    result.state = through.initial_state;
    for (std::size_t i = 0; i < result.a.size(); ++i) result.a[i] += through.coefficients.a[i];
  }
  return result;
}

}  // namespace rtf
