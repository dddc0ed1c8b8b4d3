// Several inputs and outputs over one denominator: H(z) = h0 + (b1 w + ... + bn w^n) / A(w), b_k and h0 matrices.
// y_i = sum_j H_ij u_j: signals go in as (batch, length, inputs) and come out as (batch, length, outputs).
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

#include "rtf/filter.h"
#include "rtf/kernel.h"
#include "rtf/signal.h"
#include "rtf/state_space.h"

namespace rtf {

struct MimoCoefficients {
  std::size_t inputs = 0, outputs = 0, order = 0;
  std::vector<double> a;   // (order)
  std::vector<double> b;   // (outputs, inputs, order)
  std::vector<double> h0;  // (outputs, inputs)
};

// b is the numerator of the recurrence.
struct MimoTransferFunction : MimoCoefficients {};

// b is the numerator that Algorithm 1 trains at truncation length `length`.
struct TrainedMimoTransferFunction : MimoCoefficients {
  std::size_t length = 0;
};

// Throws unless there are inputs and outputs, the shapes agree and every coefficient is finite.
void validate(const MimoCoefficients& coefficients, const char* operation);

// --- Kernels, shape (outputs, inputs, length) ---------------------------------------------------------------------
// What the functions of these names in kernel.h and correction.h are for one channel, with the denominator's transform
// made once. Gradients have the shapes of the coefficients.

std::vector<double> wrapped_kernel(const TrainedMimoTransferFunction& trained);
CoefficientsGradient wrapped_kernel_vjp(const TrainedMimoTransferFunction& trained,
                                        std::span<const double> kernel_gradient);

std::vector<double> exact_kernel(const MimoTransferFunction& tf, std::size_t length,
                                 KernelMethod method = KernelMethod::automatic);
CoefficientsGradient exact_kernel_vjp(const MimoTransferFunction& tf, std::size_t length,
                                      std::span<const double> kernel_gradient);

MimoTransferFunction correct(const TrainedMimoTransferFunction& trained);
TrainedMimoTransferFunction wrap(const MimoTransferFunction& tf, std::size_t length);
CoefficientsGradient correct_vjp(const TrainedMimoTransferFunction& trained, const CoefficientsGradient& gradient);
CoefficientsGradient wrap_vjp(const MimoTransferFunction& tf, std::size_t length, const CoefficientsGradient& gradient);

// --- Convolution: the parallel form -------------------------------------------------------------------------------

// y_i = sum_j k_ij * u_j, causal; the kernel may be shorter or longer than the signal. y must not overlap u.
template <class T>
void mimo_convolve(Signal<const T> u, std::span<const std::type_identity_t<T>> kernel,
                   Signal<std::type_identity_t<T>> y);

// Gradients to u and to the kernel, overwritten.
template <class T>
void mimo_convolve_vjp(Signal<const T> u, std::span<const std::type_identity_t<T>> kernel,
                       Signal<const std::type_identity_t<T>> y_gradient, Signal<std::type_identity_t<T>> u_gradient,
                       std::span<std::type_identity_t<T>> kernel_gradient);

// --- Block companion recurrence: the streaming form ---------------------------------------------------------------
// The state belongs to the inputs, v_j = u_j / A, whatever the number of outputs: shape (batch, inputs, order), each
// row (v_{t-1}, ..., v_{t-n}) as in filter.h. The arithmetic is double.

// One sample of every sequence: u (batch, inputs), y (batch, outputs); the state is updated in place.
// Allocates nothing. y must not overlap u.
template <class T>
void step(const MimoTransferFunction& tf, std::span<const T> u, std::span<double> state, std::span<T> y);

// y, x_final = f(u, x0). Empty states mean zero, or not wanted; the two may be one array. y must not overlap u.
template <class T>
void filter(const MimoTransferFunction& tf, Signal<const T> u, Signal<std::type_identity_t<T>> y,
            std::span<const double> initial_state = {}, std::span<double> final_state = {},
            FilterMethod method = FilterMethod::automatic);

// The state after feeding u from `state`, written back into it, and y: what step() would give.
template <class T>
void prefill(const MimoTransferFunction& tf, Signal<const T> u, std::span<double> state,
             Signal<std::type_identity_t<T>> y);

// Gradients through filter(): u is (batch, length, inputs), the state (batch, inputs, order).
template <class T>
FilterGradient<T> filter_vjp(const MimoTransferFunction& tf, Signal<const T> u, std::span<const double> initial_state,
                             Signal<const std::type_identity_t<T>> y_gradient,
                             std::span<const double> final_state_gradient);

// --- Block companion state space ----------------------------------------------------------------------------------

// order * inputs states: -a_k I in the first block row of A, identities below the diagonal, B = (I, 0, ..., 0), C the
// numerators, D = h0. State k * inputs + j of the matrices is entry (j, k) of the recurrence's state.
StateSpace to_block_companion(const MimoTransferFunction& tf);

// The way back; throws, naming the entry, unless A and B are exactly of that form.
MimoTransferFunction from_block_companion(const StateSpace& system);
bool is_block_companion(const StateSpace& system);

}  // namespace rtf
