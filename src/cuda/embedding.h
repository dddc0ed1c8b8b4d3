// What a model reads, tokens or numbers, as a signal (batch, channels, length) in memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "cuda/elements.h"

namespace rtf::cuda {

struct EmbeddingArguments {
  std::int64_t batch = 0, length = 0, channels = 0, vocabulary = 0;
  Type type = Type::float32;
  const std::int64_t* tokens = nullptr;  // (batch, length); one outside the vocabulary gives nan
  const void* weight = nullptr;          // (vocabulary, channels)
  void* y = nullptr;
  cudaStream_t stream = nullptr;
};

void embedding(const EmbeddingArguments& arguments);

struct SpreadArguments {
  std::int64_t batch = 0, length = 0, channels = 0;
  Type type = Type::float32;  // of all tensors
  const void* x = nullptr;    // (batch, length)
  cudaStream_t stream = nullptr;
};

// y = x weight + bias: a number at each position, spread over the channels.
void spread(const SpreadArguments& arguments, const void* weight, const void* bias, void* y);
// The sums over all positions of dy x and of dy.
void spread_backward(const SpreadArguments& arguments, const void* dy, void* weight_gradient, void* bias_gradient,
                     void* workspace);
std::size_t spread_backward_workspace_bytes(const SpreadArguments& arguments);

}  // namespace rtf::cuda
