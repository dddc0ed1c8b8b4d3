// A row of parts * 1,024 samples as a matrix of `parts` rows: the transforms of its columns, within a block, and of its
// rows, within a warp.
#pragma once

#include "cuda/convolution_steps.h"

namespace rtf::cuda::columns {

__device__ __forceinline__ float2* block_memory() {
  extern __shared__ float4 memory[];
  return reinterpret_cast<float2*>(memory);
}

// What other blocks of the same launch write must not come from this multiprocessor's own cache.
__device__ __forceinline__ float2 load_scratch(const float2* at) {
#ifdef __CUDA_ARCH__
  float2 value;
  asm volatile("ld.global.cg.v2.f32 {%0, %1}, [%2];" : "=f"(value.x), "=f"(value.y) : "l"(at) : "memory");
  return value;
#else
  return *at;
#endif
}

// Columns of parts = 16 * radix points, each in `radix` threads of as many warps; a block takes 32 columns or more.
// Thread w of a column has points w + radix * i, i < 16, in time, and frequencies w + radix * q + 16 * m, m < radix,
// q < 16 / radix. (32 points a thread would be as fast alone, but their instructions and those of the rows overflow the
// cache of a multiprocessor that runs both.)
template <int radix>
struct ColumnFft {
  static constexpr int parts = 16 * radix, size = parts * warp::size;
  static constexpr int warps = radix < 8 ? 8 : radix;      // of a block
  static constexpr int groups = warps / radix;             // of 32 columns in a block
  static constexpr int blocks = warp::size / 32 / groups;  // for all columns
  static constexpr int row_blocks = parts / warps;         // for all rows
  static constexpr std::size_t shared_bytes = warps * warp::buffer * sizeof(float2);

  float2* shared;
  int w, column;

  __device__ __forceinline__ explicit ColumnFft(int block) {
    const int lane = threadIdx.x % 32, group = threadIdx.x / 32 / radix;
    w = threadIdx.x / 32 % radix;
    column = (block * groups + group) * 32 + lane;
    shared = block_memory() + group * 16 * radix * 32 + lane;
  }

  __device__ __forceinline__ int first_sample() const { return w * warp::size + column; }
  static constexpr int sample(int i) { return i * radix * warp::size; }

  template <class Row>
  __device__ __forceinline__ void forward_from(const Row& row, float2* scratch) const {
    float2 x[16];
    unroll<16>([&](auto i) { x[i] = row(sample(i)) * weight<i>(); });
    fft<16, forward>(x);
    between_stages([&](auto k, float2 factor) { exchange(k, w) = x[k] * factor; });
    __syncthreads();
    unroll<16>([&](auto i) { x[i] = exchange(w + i / radix * radix, i % radix); });
    unroll<16 / radix>([&](auto q) { fft<radix, forward>(x + q * radix); });
    float2* to = scratch + column;
    between_passes([&](auto i, int part, float2 factor) { to[part * warp::size] = x[i] * factor; });
  }

  template <class Row>
  __device__ __forceinline__ void inverse_to(const float2* scratch, const Row& row) const {
    const float2* from = scratch + column;
    float2 x[16];
    unroll<16>([&](auto i) { x[i] = load_scratch(from + (w + i / radix * radix + 16 * (i % radix)) * warp::size); });
    between_passes([&](auto i, int, float2 factor) { x[i] = x[i] * conj(factor); });
    unroll<16 / radix>([&](auto q) { fft<radix, inverse>(x + q * radix); });
    unroll<16>([&](auto i) { exchange(w + i / radix * radix, i % radix) = x[i]; });
    __syncthreads();
    between_stages([&](auto k, float2 factor) { x[k] = exchange(k, w) * conj(factor); });
    fft<16, inverse>(x);
    unroll<16>([&](auto i) { row(sample(i), weight<i>(), x[i]); });
  }

 private:
  __device__ __forceinline__ float2& exchange(int k, int from) const { return shared[(k * radix + from) * 32]; }
  // Of the right-angle weight, the part that depends on i.
  template <int i>
  static __device__ __forceinline__ float2 weight() {
    constexpr constant::Root at = constant::root(-i, 64);
    return {at.re, at.im};
  }

  // f(k, factor) between the two stages, the weight of w included.
  template <class F>
  __device__ __forceinline__ void between_stages(F&& f) const {
    constexpr int step = root_count / parts;
    float2 power[4];
    unroll<4>([&](auto j) { power[j] = load_here(roots.at + (((w << j) * step) & (root_count - 1))); });
    for_powers<16>(load_here(roots.at + ((-w * (step / 4)) & (root_count - 1))), power, f);
  }

  // f(index, part, factor) between columns and rows, the weight of the column included.
  template <class F>
  __device__ __forceinline__ void between_passes(F&& f) const {
    constexpr int q_levels = log2_of(16 / radix), m_levels = log2_of(radix);
    float2 q_power[q_levels + 1], m_power[m_levels + 1];
    unroll<q_levels>([&](auto j) { q_power[j] = root(column * (radix << j), size); });
    unroll<m_levels>([&](auto j) { m_power[j] = root(column * (16 << j), size); });
    for_powers<16 / radix>(root(column * (4 * w - 1), 4 * size), q_power, [&](auto q, float2 q_factor) {
      for_powers<radix>(q_factor, m_power, [&](auto m, float2 factor) {
        f(std::integral_constant<int, q * radix + m>(), w + radix * q + 16 * m, factor);
      });
    });
  }
};

// A warp's 1,024 points in memory.
struct WarpRow {
  float2* exchange;
  int lane, warp_index;

  __device__ __forceinline__ WarpRow() {
    lane = threadIdx.x % 32, warp_index = threadIdx.x / 32;
    exchange = block_memory() + warp_index * warp::buffer;
  }
  __device__ __forceinline__ void load(const float2* from, float2* x) const {
    unroll<32>([&](auto i) { x[i] = load_scratch(from + lane + 32 * i); });
  }
  __device__ __forceinline__ void store(const float2* x, float2* to) const {
    unroll<32>([&](auto i) { to[lane + 32 * i] = x[i]; });
  }
};

// run(std::integral_constant<int, radix>) for columns of `parts` points.
template <class F>
void with_radix(int parts, F&& run) {
  switch (parts / 16) {
    case 2:
      return run(std::integral_constant<int, 2>());
    case 4:
      return run(std::integral_constant<int, 4>());
    case 8:
      return run(std::integral_constant<int, 8>());
    default:
      return run(std::integral_constant<int, 16>());
  }
}

}  // namespace rtf::cuda::columns
