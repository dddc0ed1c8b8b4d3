// Checks of MIMO coefficients, and their block companion form.
#include "rtf/mimo.h"

#include <cmath>

#include "core/arguments.h"
#include "core/check_finite.h"

namespace rtf {

void validate(const MimoCoefficients& coefficients, const char* operation) {
  const auto& [inputs, outputs, order, a, b, h0] = coefficients;
  if (inputs == 0 || outputs == 0)
    fail(ErrorCode::argument, operation, "{} inputs and {} outputs; at least one of each is needed", inputs, outputs);
  if (a.size() != order) fail(ErrorCode::argument, operation, "a has {} values, expected ({})", a.size(), order);
  // Divided rather than multiplied: the product of a forged file's sizes could wrap around.
  if (h0.size() % outputs != 0 || h0.size() / outputs != inputs)
    fail(ErrorCode::argument, operation, "h0 has {} values, expected ({}, {})", h0.size(), outputs, inputs);
  if (b.size() % h0.size() != 0 || b.size() / h0.size() != order)
    fail(ErrorCode::argument, operation, "b has {} values, expected ({}, {}, {})", b.size(), outputs, inputs, order);
  check_finite(operation, "a", a);
  for (std::size_t i = 0; i < b.size(); ++i)
    if (!std::isfinite(b[i]))
      fail(ErrorCode::argument, operation, "b[{}][{}][{}] is {}; coefficients must be finite", i / order / inputs,
           i / order % inputs, i % order, b[i]);
  for (std::size_t i = 0; i < h0.size(); ++i)
    if (!std::isfinite(h0[i]))
      fail(ErrorCode::argument, operation, "h0[{}][{}] is {}; coefficients must be finite", i / inputs, i % inputs,
           h0[i]);
}

StateSpace to_block_companion(const MimoTransferFunction& tf) {
  validate(tf, "to_block_companion");
  const std::size_t m = tf.inputs, n = tf.order, states = n * m;
  StateSpace system;
  system.order = states;
  system.inputs = m;
  system.outputs = tf.outputs;
  system.A.assign(states * states, 0.0);
  system.B.assign(states * m, 0.0);
  system.C.assign(tf.outputs * states, 0.0);
  system.D = tf.h0;
  for (std::size_t j = 0; j < m; ++j)
    for (std::size_t k = 0; k < n; ++k) system.A[j * states + k * m + j] = -tf.a[k];
  for (std::size_t i = m; i < states; ++i) system.A[i * states + i - m] = 1.0;
  for (std::size_t j = 0; j < m && n > 0; ++j) system.B[j * m + j] = 1.0;
  for (std::size_t i = 0; i < tf.outputs; ++i)
    for (std::size_t j = 0; j < m; ++j)
      for (std::size_t k = 0; k < n; ++k) system.C[i * states + k * m + j] = tf.b[(i * m + j) * n + k];
  return system;
}

namespace {

// The coefficients that stand in C, D and the first block row of A; the rest of A and B is not looked at.
MimoTransferFunction block_companion_coefficients(const StateSpace& system) {
  const std::size_t m = system.inputs, states = system.order;
  MimoTransferFunction tf;
  tf.inputs = m;
  tf.outputs = system.outputs;
  tf.order = states / m;
  tf.h0 = system.D;
  for (std::size_t k = 0; k < tf.order; ++k) tf.a.push_back(0.0 - system.A[k * m]);
  tf.b.resize(tf.outputs * m * tf.order);
  for (std::size_t i = 0; i < tf.outputs; ++i)
    for (std::size_t j = 0; j < m; ++j)
      for (std::size_t k = 0; k < tf.order; ++k) tf.b[(i * m + j) * tf.order + k] = system.C[i * states + k * m + j];
  return tf;
}

}  // namespace

bool is_block_companion(const StateSpace& system) {
  validate(system, "is_block_companion");
  if (system.order % system.inputs != 0) return false;
  const StateSpace wanted = to_block_companion(block_companion_coefficients(system));
  return system.A == wanted.A && system.B == wanted.B;
}

MimoTransferFunction from_block_companion(const StateSpace& system) {
  constexpr const char* operation = "from_block_companion";
  validate(system, operation);
  const std::size_t m = system.inputs, states = system.order;
  if (states % m != 0)
    fail(ErrorCode::argument, operation, "{} states are no multiple of {} inputs, as block companion form has them",
         states, m);
  MimoTransferFunction tf = block_companion_coefficients(system);
  const StateSpace wanted = to_block_companion(tf);
  const auto check = [&](const char* name, const std::vector<double>& got, const std::vector<double>& needed,
                         std::size_t columns) {
    for (std::size_t i = 0; i < got.size(); ++i)
      if (got[i] != needed[i])
        fail(ErrorCode::argument, operation,
             "{}[{}][{}] is {} where block companion form has {}; convert the state space instead", name, i / columns,
             i % columns, got[i], needed[i]);
  };
  check("A", system.A, wanted.A, states);
  check("B", system.B, wanted.B, m);
  return tf;
}

}  // namespace rtf
