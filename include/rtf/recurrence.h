// The streaming form: one sample at a time, and what moves its state.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "rtf/kernel.h"
#include "rtf/signal.h"
#include "rtf/transfer_function.h"

namespace rtf {

// One sample of every sequence and channel: u, y (batch, channels), state (batch, channels, order), updated in place.
// Allocates nothing; the arithmetic is double. y may be u.
template <class T>
void step(const TransferFunction& tf, std::span<const T> u, std::span<double> state, std::span<T> y);

// The state after feeding u from `state`, written back into it, and y: what step() would give, in O(length log length).
template <class T>
void prefill(const TransferFunction& tf, Signal<const T> u, std::span<double> state,
             Signal<std::type_identity_t<T>> y);

// A^length x for states (batch, channels, order): `length` steps without input.
std::vector<double> advance_state(const TransferFunction& tf, std::span<const double> state, std::size_t length);

struct AdvanceStateGradient {
  std::vector<double> state;  // (batch, channels, order)
  std::vector<double> a;      // (groups, order)
};
AdvanceStateGradient advance_state_vjp(const TransferFunction& tf, std::span<const double> state, std::size_t length,
                                       std::span<const double> gradient);

}  // namespace rtf
