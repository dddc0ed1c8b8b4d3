// The gradient of filtering at small orders (filter.h), in chunks: v and its gradient lambda, then their sums of
// products over time. Arithmetic is double. v and lambda lie in the workspace, and they and the initial state enter the
// sums, rounded to float32 unless the signals are float64. All sums run in an order that depends on sizes alone.
#pragma once

#include <cstddef>

#include "cuda/filter.h"
#include "cuda/wrapped_kernel.h"

namespace rtf::cuda {

struct FilterBackward {
  Filter forward;  // the response, as it was computed; y and the final state are not read
  const void* dy;  // of the type of u
  int64_t dy_sequence_stride, dy_channel_stride;
  const double* final_gradient;  // of the final state
  void* du;                      // of the type of u
  int64_t du_sequence_stride, du_channel_stride;
  Numbers da, db, dh0;       // (denominators, order), (channels, order), (channels)
  double* initial_gradient;  // of the initial state, whether there was one or not
};

std::size_t filter_backward_workspace(const FilterBackward& backward);

void filter_backward(const FilterBackward& backward, void* workspace, cudaStream_t stream);

}  // namespace rtf::cuda
