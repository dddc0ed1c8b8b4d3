// Matrices turned over: between (length, channels) and (channels, length) in memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace rtf::cuda {

// to (batch, columns, rows) from (batch, rows, columns), both contiguous, of numbers of 2, 4 or 8 bytes. `beside`:
// while the kernel before it on the stream still runs, which must be one that started after all before it, and have
// nothing to do with `from` and `to`.
void transpose(const void* from, void* to, int64_t batch, int64_t rows, int64_t columns, std::size_t number_bytes,
               cudaStream_t stream, bool beside = false);

}  // namespace rtf::cuda
