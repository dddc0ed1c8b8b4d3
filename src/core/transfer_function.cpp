#include "rtf/transfer_function.h"

#include <cmath>

#include "core/arguments.h"

namespace rtf {
namespace {

void check_rows(const char* operation, const char* name, const std::vector<double>& values, std::size_t rows,
                std::size_t order) {
  // Divided rather than multiplied: rows * order of a forged header could wrap around.
  if (values.size() % rows != 0 || values.size() / rows != order)
    fail(ErrorCode::argument, operation, "{} has {} values, expected ({}, {})", name, values.size(), rows, order);
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values[i]))
      fail(ErrorCode::argument, operation, "{}[{}][{}] is {}; coefficients must be finite", name, i / order, i % order,
           values[i]);
}

}  // namespace

void validate(const Coefficients& coefficients, const char* operation) {
  const auto& [channels, groups, order, a, b, h0] = coefficients;
  if (channels < 1) fail(ErrorCode::argument, operation, "channels is 0; at least 1 is needed");
  if (groups < 1) fail(ErrorCode::argument, operation, "groups is 0; at least 1 is needed");
  if (channels % groups != 0)
    fail(ErrorCode::argument, operation, "{} groups do not divide {} channels", groups, channels);
  check_rows(operation, "a", a, groups, order);
  check_rows(operation, "b", b, channels, order);
  if (h0.size() != channels)
    fail(ErrorCode::argument, operation, "h0 has {} values, expected ({})", h0.size(), channels);
  for (std::size_t c = 0; c < channels; ++c)
    if (!std::isfinite(h0[c]))
      fail(ErrorCode::argument, operation, "h0[{}] is {}; coefficients must be finite", c, h0[c]);
}

StateSpace to_state_space(const TransferFunction& tf, std::size_t channel) {
  validate(tf, "to_state_space");
  if (channel >= tf.channels) fail(ErrorCode::argument, "to_state_space", "channel {} of {}", channel, tf.channels);
  const std::size_t n = tf.order;
  const CoefficientsView view(tf);
  StateSpace system;
  system.order = n;
  system.A.assign(n * n, 0.0);
  for (std::size_t k = 0; k < n; ++k) system.A[k] = -view.denominator(channel)[k];
  for (std::size_t k = 1; k < n; ++k) system.A[k * n + k - 1] = 1.0;
  system.B.assign(n, 0.0);
  if (n > 0) system.B[0] = 1.0;
  system.C.assign(view.numerator(channel), view.numerator(channel) + n);
  system.D = tf.h0[channel];
  return system;
}

}  // namespace rtf
