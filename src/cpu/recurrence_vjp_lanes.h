// The loops of the recurrence's gradient, in double, one channel a lane. Rows are `lanes` values; a and b hold rows
// 1..order as in recurrence_lanes.h.
#pragma once

#include <cstddef>

#include "rtf/instruction_set.h"

namespace rtf::cpu {

struct RecurrenceVjpLanes {
  std::size_t lanes;

  // v_t <- v_t - a . (v_{t-1}, ...) for `count` rows; `order` rows before them hold the past.
  void (*solve)(const double* a, std::size_t order, std::size_t count, double* v);

  // v_t <- v_t + b . (x_{t-1}, ...) - a . (v_{t-1}, ...); both have a past.
  void (*solve_driven)(const double* a, const double* b, std::size_t order, std::size_t count, const double* x,
                       double* v);

  // a_sums_k -= sum_t g_t v_{t-k} and b_sums_k += sum_t x_t v_{t-k} for k = 1..order. Rows of x and g lie in reversed
  // time: the first belongs to the last of v, which has a past.
  void (*correlate)(std::size_t order, std::size_t count, const double* v, const double* x, const double* g,
                    double* a_sums, double* b_sums);

  // u_t <- h0 x_t + g_t and h0_sum += sum_t x_t u_t, with u as it came.
  void (*input_gradient)(const double* h0, std::size_t count, const double* x, const double* g, double* u,
                         double* h0_sum);

  // state_j += sum_{k >= j} b_k x_{k-j} - a_k g_{k-j} for j = 1..order: what the state owes to the samples after it,
  // which lie before x and g, the first sample last.
  void (*state_gradient)(const double* a, const double* b, std::size_t order, const double* x, const double* g,
                         double* state);

  // correlate() of one channel, a sample a lane, all in order of time. In the `lanes` values past the last x and g
  // are zero, and v is finite.
  void (*correlate_in_time)(std::size_t order, std::size_t count, const double* v, const double* x, const double* g,
                            double* a_sums, double* b_sums);
};

const RecurrenceVjpLanes& recurrence_vjp_lanes(InstructionSet set);

}  // namespace rtf::cpu
