// The rows of a table by their numbers, written as a signal (batch, channels, length) in memory.
#pragma once

#include <cuda_runtime_api.h>

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

}  // namespace rtf::cuda
