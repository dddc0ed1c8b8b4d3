// The gradient of the recurrence by the recurrence itself: v forwards once more, then its adjoint backwards in time,
// and the gradients of the coefficients as correlations of the two.
#pragma once

#include <cstddef>

#include "cpu/recurrence.h"
#include "cpu/recurrence_vjp_lanes.h"
#include "rtf/filter.h"

namespace rtf::cpu {

class RecurrenceVjp {
 public:
  // `length` is that of the longest sequence.
  RecurrenceVjp(const TransferFunction& tf, InstructionSet set, std::size_t length, double tolerance);

  // As filter_vjp(): empty spans are zero. All of `result` but u is made here.
  template <class T>
  void run(Signal<const T> u, std::span<const double> initial_state, Signal<const T> y_gradient,
           std::span<const double> final_state_gradient, Signal<T> u_gradient, Offsets offsets,
           FilterGradient<T>& result, Executor& executor) const;

 private:
  // One sequence and tile. Null states are zero; sums are the tile's own: a and b (order, lanes), h0 (lanes).
  template <class T>
  void run_tile(Signal<const T> u, const double* initial_state, Signal<const T> y_gradient,
                const double* final_state_gradient, Signal<T> u_gradient, double* initial_state_gradient,
                std::size_t tile, double* sums, double* space) const;
  // One sequence and channel, time across the lanes; its sums are a lane of its tile's.
  template <class T>
  void run_channel(Signal<const T> u, const double* initial_state, Signal<const T> y_gradient,
                   const double* final_state_gradient, Signal<T> u_gradient, double* initial_state_gradient,
                   std::size_t channel, double* sums, double* space) const;

  std::size_t sum_count() const { return (2 * lanes_.order + 1) * simd_.lanes; }
  std::size_t worker_space() const;
  const RecurrenceLanes& rows_;
  const RecurrenceVjpLanes& simd_;
  const TransferFunction& tf_;
  LaneCoefficients lanes_;
  LoneChannels alone_;
  std::size_t length_;
  // Of run_channel(): values of the past before a chunk, and its samples, as many as the order at least.
  std::size_t past_, chunk_;
};

}  // namespace rtf::cpu
