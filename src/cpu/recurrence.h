// The direct-form recurrence over whole signals: prepared coefficients and the loop over sequences, channels and
// chunks.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/carver.h"
#include "cpu/recurrence_lanes.h"
#include "rtf/executor.h"
#include "rtf/signal.h"
#include "rtf/transfer_function.h"

namespace rtf::cpu {

class Recurrence {
 public:
  Recurrence(const TransferFunction& tf, InstructionSet set, std::size_t length, double tolerance);

  // Doubles of scratch that each worker needs.
  std::size_t worker_space() const;

  // States are (sequences, channels, order); null means zero, or not wanted.
  template <class T>
  void run(Signal<const T> u, Signal<T> y, const double* initial_state, double* final_state, Offsets offsets, double* space,
           Executor& executor) const;

 private:
  template <class T>
  void run_tile(Signal<const T> u, Signal<T> y, const double* initial_state, double* final_state, std::size_t tile,
                double* space) const;
  template <class T>
  void run_channel(Signal<const T> u, Signal<T> y, const double* initial_state, double* final_state, std::size_t channel,
                   double* space) const;

  const RecurrenceLanes& simd_;
  TransferFunction tf_;
  std::size_t tiles_, padded_;
  // Coefficients one channel a lane: (tiles, padded, lanes) and (tiles, lanes).
  AlignedVector<double> a_, b_, h0_;
  // block_tables() of the channels that run one by one.
  std::size_t first_alone_;
  AlignedVector<double> tables_;
};

}  // namespace rtf::cpu
