// The direct-form recurrence v_t = u_t - a . (v_{t-1}, ...), y_t = h0 u_t + b . (v_{t-1}, ...) in double.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "cpu/lane_rows.h"
#include "rtf/instruction_set.h"

namespace rtf::cpu {

struct RecurrenceLanes {
  std::size_t lanes;

  // One channel a lane. a and b hold rows 1..order of `lanes` values, order = padded_order(n), zeros past n; h0 one
  // row. v points at the first new sample; the `order` rows before it hold the past. u holds `count` rows and becomes
  // y.
  void (*across_channels)(const double* a, const double* b, const double* h0, std::size_t order, std::size_t count,
                          double* v, double* u);

  // One channel, a block of `lanes` samples at a time. a and b hold `order` values, tables what block_tables() gives.
  // v points at the first new sample; max(order, lanes) values before it hold the past, and `lanes` values of room
  // follow the last. u holds `count` values and becomes y.
  void (*across_time)(const double* a, const double* b, double h0, const double* tables, std::size_t order,
                      std::size_t count, double* v, double* u);

  // Samples in and out of the rows of across_channels; lanes past the last channel are zero.
  void (*load_float)(LaneRows<const float> from, std::size_t count, double* rows);
  void (*load_double)(LaneRows<const double> from, std::size_t count, double* rows);
  void (*store_float)(const double* rows, std::size_t count, LaneRows<float> to);
  void (*store_double)(const double* rows, std::size_t count, LaneRows<double> to);
};

const RecurrenceLanes& recurrence_lanes(InstructionSet set);

inline void load(const RecurrenceLanes& simd, LaneRows<const float> from, std::size_t count, double* rows) {
  simd.load_float(from, count, rows);
}
inline void load(const RecurrenceLanes& simd, LaneRows<const double> from, std::size_t count, double* rows) {
  simd.load_double(from, count, rows);
}
inline void store(const RecurrenceLanes& simd, const double* rows, std::size_t count, LaneRows<float> to) {
  simd.store_float(rows, count, to);
}
inline void store(const RecurrenceLanes& simd, const double* rows, std::size_t count, LaneRows<double> to) {
  simd.store_double(rows, count, to);
}

// What a block of `lanes` samples owes to the block before it and to its own forced response, that is, to the input
// less what older samples feed back. Four matrices, column by column: the forced response and the last block to v, then
// to y.
std::vector<double> block_tables(std::span<const double> a, std::span<const double> b, std::size_t lanes);

// across_channels always takes the three newest taps.
constexpr std::size_t padded_order(std::size_t order) { return order < 3 ? 3 : order; }

}  // namespace rtf::cpu
