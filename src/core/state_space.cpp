#include "rtf/state_space.h"

#include "core/arguments.h"
#include "core/check_finite.h"

namespace rtf {

void validate(const StateSpace& system, const char* operation) {
  const auto check = [&](const char* name, const std::vector<double>& values, std::size_t rows, std::size_t columns) {
    if (values.size() != rows * columns)
      fail(ErrorCode::argument, operation, "{} has {} values, expected ({}, {})", name, values.size(), rows, columns);
    check_finite(operation, name, values);
  };
  if (system.inputs == 0 || system.outputs == 0)
    fail(ErrorCode::argument, operation, "{} inputs and {} outputs; at least one of each is needed", system.inputs,
         system.outputs);
  check("A", system.A, system.order, system.order);
  check("B", system.B, system.order, system.inputs);
  check("C", system.C, system.outputs, system.order);
  check("D", system.D, system.outputs, system.inputs);
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
  system.D = {tf.h0[channel]};
  return system;
}

}  // namespace rtf
