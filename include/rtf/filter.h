// Filtering with a transfer function: y, x_final = f(u, x0). The stateful operator behind prefill, streaming and `rtf
// filter`.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "rtf/executor.h"
#include "rtf/kernel.h"
#include "rtf/signal.h"
#include "rtf/transfer_function.h"

namespace rtf {

enum class FilterMethod {
  automatic,   // the cheapest of those below whose rounding bound holds; else fft, or recurrence for a final state
  recurrence,  // direct form in double, one channel a lane: O(order) a sample
  fft,         // one right-angle convolution with the exact kernel: O(log length) a sample, whatever the order
  block,       // fft over chunks of fixed size, the state carried between them: bounded memory
};

const char* name(FilterMethod method);

struct FilterOptions {
  FilterMethod method = FilterMethod::automatic;
  bool initial_state = false, final_state = false;  // whether filter() will be given them
  std::size_t block_length = 0;                     // samples of a chunk of `block`; 0 chooses for the cache
};

// Chooses the method from sizes, a cost table and the rounding bound, and prepares what depends on the coefficients
// alone. T is the type of the samples; coefficients, states and all arithmetic that touches a state are double, so that a
// stream may be cut anywhere.
template <class T>
class FilterPlan {
 public:
  // `batch` counts sequences, `length` is the longest of them.
  FilterPlan(const TransferFunction& tf, std::size_t batch, std::size_t length, FilterOptions options = {});

  FilterMethod method() const;
  double rounding_bound() const;       // kappa times the unit round-off: what rounding may do to v, of its largest value
  const std::string& warning() const;  // not empty when that of the method is past the tolerance of T
  std::size_t workspace_bytes(const Executor& executor) const;

  std::size_t batch, length, channels, order;
  FilterOptions options;

  struct Impl;
  std::shared_ptr<const Impl> impl;
};

// States have shape (sequences, channels, order), x = (v_{t-1}, ..., v_{t-n}); empty spans mean zero, or not wanted.
// y may be u, and the two states may be one array.
template <class T>
void filter(const FilterPlan<T>& plan, Signal<const std::type_identity_t<T>> u, Signal<std::type_identity_t<T>> y,
            std::span<const double> initial_state, std::span<double> final_state, Offsets offsets,
            std::span<std::byte> workspace, Executor& executor);

// The same with a plan and a workspace of its own on the default executor.
template <class T>
void filter(const TransferFunction& tf, Signal<const T> u, Signal<std::type_identity_t<T>> y,
            std::span<const double> initial_state = {}, std::span<double> final_state = {}, FilterMethod method = FilterMethod::automatic,
            Offsets offsets = {});

// Gradients of a loss through filter(): to the input, the initial state and the coefficients. By recurrence, or by fft
// for high orders and, without states, where the rounding bound of the recurrence does not hold.
template <class T>
struct FilterGradient {
  std::vector<T> u;                   // (batch, length, channels)
  std::vector<double> initial_state;  // (sequences, channels, order)
  CoefficientsGradient coefficients;
};

template <class T>
FilterGradient<T> filter_vjp(const TransferFunction& tf, Signal<const T> u, std::span<const double> initial_state,
                             Signal<const std::type_identity_t<T>> y_gradient,
                             std::span<const double> final_state_gradient, Offsets offsets = {},
                             FilterMethod method = FilterMethod::automatic);

// The same with the gradient of u written where the caller says; `u` of the result is empty.
template <class T>
FilterGradient<T> filter_vjp(const TransferFunction& tf, Signal<const T> u, std::span<const double> initial_state,
                             Signal<const std::type_identity_t<T>> y_gradient,
                             std::span<const double> final_state_gradient, Signal<std::type_identity_t<T>> u_gradient,
                             Offsets offsets, FilterMethod method = FilterMethod::automatic);

}  // namespace rtf
