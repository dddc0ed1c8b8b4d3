// Filtering with a transfer function of small order, y, x_final = f(u, x0), in chunks: u is read once and y written
// once, all arithmetic is double. What its gradient is made of is computed the same way.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/elements.h"

namespace rtf::cuda {

// What y is, x being (v_{t-1}, ..., v_{t-n}) before sample t:
//   response   h0 u_t + b x;
//   inner      v_t = u_t - a x itself;
//   adjoint    from the gradient of a response in place of u, and from the last sample to the first, the gradient of
//              v_t; it starts from the gradient of the final state, and ends with that of the initial one.
enum class Series { response, inner, adjoint };

struct Filter {
  Series series;
  int64_t sequences, channels, denominators, order;
  int64_t length;  // of a row in memory; every sequence is at most as long
  Type type;
  const void* u;  // neighbouring samples are neighbours in memory
  int64_t u_sequence_stride, u_channel_stride;
  Type y_type;  // `type`, or what is computed in for it: float32 for bfloat16
  void* y;
  int64_t y_sequence_stride, y_channel_stride;
  Type coefficient_type;
  const void *a, *b, *h0;       // (denominators, order), (channels, order), (channels); a plain numerator
  const double* initial_state;  // (sequences, channels, order), x = (v_{t-1}, ..., v_{t-n}); null: zero
  double* final_state;          // of the same shape; null: not wanted
  const int64_t* lengths;       // (sequences): samples past them are read and written as zero; null: all of the row
  const int64_t* offsets;       // (sequences + 1): where each one lies in a single row; null: a row each
};

// The largest order that this form takes on the current device: its tables must fit the shared memory.
int64_t largest_chunked_order();

void filter(const Filter& filter, cudaStream_t stream);

// Two of the same sizes and types at the same time.
void filter(const Filter& first, const Filter& second, cudaStream_t stream);

}  // namespace rtf::cuda
