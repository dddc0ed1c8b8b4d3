// The last step of sums that many blocks had a part in, in an order that depends on the sizes alone.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/device.h"

namespace rtf::cuda {

// The sums of `count` numbers over the threads of a block: put(j, total) in one thread each.
template <int threads, int count, class A, class Put>
__device__ void block_sums(A (&values)[count], Put&& put) {
  static_assert(count <= threads);
  __shared__ A of_warps[threads / 32][count];
#pragma unroll
  for (int j = 0; j < count; ++j) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) values[j] += __shfl_xor_sync(~0u, values[j], offset);
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32][j] = values[j];
  }
  __syncthreads();
  const int j = static_cast<int>(threadIdx.x);
  if (j >= count) return;
  A total = 0;
  for (int warp = 0; warp < threads / 32; ++warp) total += of_warps[warp][j];
  put(j, total);
}

// sum[column] = partial[0][column] + partial[1][column] + ..., rows of partial `stride` apart; 32 columns a block.
template <class A>
__global__ void __launch_bounds__(1024)
    sum_partials_kernel(const A* partial, std::int64_t parts, std::int64_t stride, std::int64_t columns, A* sum) {
  __shared__ double totals[32][33];
  const std::int64_t column = std::int64_t{blockIdx.x} * 32 + threadIdx.x;
  double total = 0;
  if (column < columns) {
#pragma unroll 8
    for (std::int64_t part = threadIdx.y; part < parts; part += 32)
      total += static_cast<double>(partial[part * stride + column]);
  }
  totals[threadIdx.y][threadIdx.x] = total;
  __syncthreads();
  total = totals[threadIdx.x][threadIdx.y];
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) total += __shfl_xor_sync(~0u, total, offset);
  const std::int64_t mine = std::int64_t{blockIdx.x} * 32 + threadIdx.y;
  if (threadIdx.x == 0 && mine < columns) sum[mine] = static_cast<A>(total);
}

template <class A>
void sum_partials(const char* operation, const A* partial, std::int64_t parts, std::int64_t stride,
                  std::int64_t columns, A* sum, cudaStream_t stream) {
  sum_partials_kernel<<<static_cast<unsigned>((columns + 31) / 32), dim3(32, 32), 0, stream>>>(partial, parts, stride,
                                                                                               columns, sum);
  check(operation, cudaGetLastError());
}

}  // namespace rtf::cuda
