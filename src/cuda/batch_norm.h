// Batch normalisation on the GPU. Signals are (batch, channels, length) in memory. Sums are in double, in an order that
// depends on the sizes alone.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/elements.h"

namespace rtf::cuda {

struct BatchNormArguments {
  std::int64_t batch = 0, length = 0, channels = 0;
  Type type = Type::float32;   // of x and its gradient
  Type outer = Type::float32;  // of y and its gradient: that of x, or bfloat16 where x is float32
  const void* x = nullptr;
  const void* weight = nullptr;  // (channels); float64 where x is, else float32, as all that has a value a channel
  double eps = 0;
  double* mean = nullptr;      // (channels): out of batch_norm, into its gradient
  double* variance = nullptr;  // biased
  cudaStream_t stream = nullptr;
};

// Averages over steps, which move on by `momentum`; null: none. The variance there is unbiased.
struct RunningStatistics {
  void *mean = nullptr, *variance = nullptr;
  double momentum = 0;
};

// y = (x - mean) / sqrt(variance + eps) * weight + bias, and the statistics.
void batch_norm(const BatchNormArguments& arguments, const void* bias, void* y, const RunningStatistics& running);

// What is added on the way, both of the type of x; null: nothing.
struct BatchNormSums {
  const void* dy = nullptr;  // a second gradient to y
  const void* dx = nullptr;  // a second gradient to x
};

// Through batch_norm, its statistics included.
void batch_norm_backward(const BatchNormArguments& arguments, const void* dy, const BatchNormSums& added, void* dx,
                         void* weight_gradient, void* bias_gradient);

}  // namespace rtf::cuda
