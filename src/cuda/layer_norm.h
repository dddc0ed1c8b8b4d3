// Layer normalisation on the GPU: every position to mean 0 and variance 1 over its channels, then scaled and shifted.
// Signals are (batch, channels, length) in memory, so that the channels of a position lie a row apart.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "cuda/elements.h"

namespace rtf::cuda {

struct LayerNormArguments {
  std::int64_t batch = 0, length = 0, channels = 0;
  Type type = Type::float32;   // of x and its gradient
  Type outer = Type::float32;  // of y and its gradient: that of x, or bfloat16 where x is float32
  const void* x = nullptr;
  const void* weight = nullptr;  // (channels); float64 where x is, else float32, as all that is not a signal
  void* mean = nullptr;          // (batch, length): out of layer_norm, into its gradient
  void* inverse = nullptr;       // 1 / sqrt(variance + eps)
  cudaStream_t stream = nullptr;
};

void layer_norm(const LayerNormArguments& arguments, const void* bias, double eps, void* y);

// dx has `more_dx` (of the type of x) added, where there is one.
void layer_norm_backward(const LayerNormArguments& arguments, const void* dy, const void* more_dx, void* dx,
                         void* weight_gradient, void* bias_gradient, void* workspace);
std::size_t layer_norm_backward_workspace_bytes(const LayerNormArguments& arguments);

}  // namespace rtf::cuda
