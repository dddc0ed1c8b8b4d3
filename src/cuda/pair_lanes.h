// Gradients that are sums over many points for each of a few pairs of poles: a lane a pair. Where a warp has more lanes
// than pairs, the rest share the points; every warp and every such share is a stream.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda/elements.h"

namespace rtf::cuda {

// The blocks that share the tiles of points of a row: enough in all to fill any device, and so few that their partial
// sums do not grow with the number of points.
inline std::int64_t point_shares(std::int64_t tiles, std::int64_t rows, std::int64_t pairs) {
  constexpr std::int64_t enough = 2048;
  return std::max<std::int64_t>(1, std::min(tiles, enough / std::max<std::int64_t>(1, rows * ceil_div(pairs, 32))));
}

struct PairLanes {
  std::int64_t pair;  // this thread's
  bool inside;        // whether there is such a pair
  int width;          // pairs side by side, a power of 2
  int stream, streams;

  // Of the pairs from 32 * blockIdx.z on.
  __device__ explicit PairLanes(std::int64_t pairs) {
    const std::int64_t first = 32 * static_cast<std::int64_t>(blockIdx.z);
    width = 32;
    while (width > 1 && width / 2 >= pairs - first) width /= 2;
    pair = first + threadIdx.x % width;
    inside = pair < pairs;
    stream = static_cast<int>(threadIdx.x) / width;
    streams = static_cast<int>(blockDim.x) / width;
  }

  // sum = `total` over all streams in a fixed order, for the threads of stream 0 that have a pair: those it returns
  // true for.
  template <int threads, class T, int count>
  __device__ bool add_streams(const T (&total)[count], double (&sum)[count]) const {
    __shared__ T all[threads / 32][count][32];
    const int lane = threadIdx.x % 32;
    for (int i = 0; i < count; ++i) {
      T value = total[i];
      for (int offset = 16; offset >= width; offset /= 2) value += __shfl_xor_sync(~0u, value, offset);
      if (lane < width) all[threadIdx.x / 32][i][lane] = value;
    }
    __syncthreads();
    if (stream > 0 || !inside) return false;
    for (int i = 0; i < count; ++i) {
      sum[i] = 0;
      for (int warp = 0; warp < threads / 32; ++warp) sum[i] += all[warp][i][lane];
    }
    return true;
  }
};

}  // namespace rtf::cuda
