// Matrices turned over: between (length, channels) and (channels, length) in memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace rtf::cuda {

// to (batch, columns, rows) from (batch, rows, columns), both contiguous, of numbers of 2, 4 or 8 bytes.
struct Turn {
  const void* from;
  void* to;
  int64_t batch, rows, columns, number_bytes;
};

// `beside`: it starts when the kernel before it on the stream lets it. What may still run then must have nothing to do
// with `from` and `to`. Either way it lets the next start at once, and does not end before all before it.
void transpose(const Turn& turn, cudaStream_t stream, bool beside = false);

}  // namespace rtf::cuda
