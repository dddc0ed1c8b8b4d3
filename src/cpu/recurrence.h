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

// Coefficients one channel a lane: a and b (tiles, order, lanes) with zeros past the filter's own order, h0 (tiles,
// lanes).
struct LaneCoefficients {
  LaneCoefficients(const TransferFunction& tf, std::size_t lanes);

  std::size_t order, tiles;
  AlignedVector<double> a, b, h0;
};

// The channels of a last tile that would leave most lanes idle: faster one by one, with time across the lanes, where
// the rounding of that holds the tolerance.
struct LoneChannels {
  LoneChannels(const TransferFunction& tf, std::size_t lanes, std::size_t length, double tolerance);

  const double* tables_of(std::size_t channel) const { return tables.data() + (channel - first) * table_size; }
  // Samples between a load and a store, a multiple of every number of lanes.
  static constexpr std::size_t chunk = 2048;

  std::size_t first, table_size;
  AlignedVector<double> tables;  // block_tables() of each
};

class Recurrence {
 public:
  Recurrence(const TransferFunction& tf, InstructionSet set, std::size_t length, double tolerance);

  // Doubles of scratch that each worker needs.
  std::size_t worker_space() const;

  // States are (sequences, channels, order); null means zero, or not wanted.
  template <class T>
  void run(Signal<const T> u, Signal<T> y, const double* initial_state, double* final_state, Offsets offsets,
           double* space, Executor& executor) const;

 private:
  template <class T>
  void run_tile(Signal<const T> u, Signal<T> y, const double* initial_state, double* final_state, std::size_t tile,
                double* space) const;
  template <class T>
  void run_channel(Signal<const T> u, Signal<T> y, const double* initial_state, double* final_state,
                   std::size_t channel, double* space) const;

  const RecurrenceLanes& simd_;
  TransferFunction tf_;
  LaneCoefficients lanes_;
  LoneChannels alone_;
};

}  // namespace rtf::cpu
