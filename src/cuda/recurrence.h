// One sample of every sequence and channel: y = b.x + h0 u, then x' = (u - a.x, x shifted).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/elements.h"

namespace rtf::cuda {

struct Step {
  int64_t batch, channels, denominators, order;
  Type type;
  const void* u;  // (batch, channels)
  void* y;
  const double *a, *b, *h0;  // (denominators, order), (channels, order), (channels)
  const double* state;       // (batch, channels, order)
  double* next;              // of the same shape; not `state`
};

// One launch, whatever the sizes; the arithmetic is double.
void step(const Step& step, cudaStream_t stream);

}  // namespace rtf::cuda
