// dropout, GELU and the gate on the GPU, each in one pass over memory. Signals are (batch, channels, length) in memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "cuda/dropout_mask.h"
#include "cuda/elements.h"

namespace rtf::cuda {

struct ActivationArguments {
  std::int64_t batch = 0, length = 0, channels = 0;  // of the result; z and its gradient have twice the channels
  Type type = Type::float32;                         // of x or z, and of its gradient
  const void* x = nullptr;                           // x or z
  const void* dy = nullptr;                          // backward
  void* result = nullptr;                            // y, or the gradient to x or z
  Dropout dropout;
  cudaStream_t stream = nullptr;

  // Of the gate alone. y, its gradient and the residual may be float32 where z is bfloat16.
  Type outer = Type::float32;
  const void* bias = nullptr;  // (2 channels), added to z; float64 where z is, else float32
  const void* residual = nullptr;
};

void dropout(const ActivationArguments& arguments);  // y = dropout(x)
void gelu(const ActivationArguments& arguments);     // y = dropout(x Phi(x))
void gelu_backward(const ActivationArguments& arguments);
void glu(const ActivationArguments& arguments);  // y = residual + dropout(p sigmoid(q)), z + bias = (p, q)

// bias_gradient: (2 channels), of the type of the bias; null when it is not wanted.
void glu_backward(const ActivationArguments& arguments, void* bias_gradient, void* workspace);
std::size_t glu_backward_workspace_bytes(const ActivationArguments& arguments);

}  // namespace rtf::cuda
