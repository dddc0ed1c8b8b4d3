// A row of parts * 1,024 samples as a matrix of `parts` rows: the transforms of its columns, within a block, and of its
// rows, within a warp.
#pragma once

#include "cuda/convolution_steps.h"
#include "cuda/launch.h"

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

__device__ __forceinline__ void store_scratch(float2* at, float2 value) {
#ifdef __CUDA_ARCH__
  asm volatile("st.global.v2.f32 [%0], {%1, %2};" : : "l"(at), "f"(value.x), "f"(value.y) : "memory");
#else
  *at = value;
#endif
}

// Columns of parts = 16 * radix points, each in `radix` threads of as many warps; a block takes 32 columns or more.
// Thread w of a column has points w + radix * i, i < 16, in time, and frequencies w + radix * q + 16 * m, m < radix,
// q < 16 / radix. (32 points a thread would be as fast alone, but their instructions and those of the rows overflow the
// cache of a multiprocessor that runs both.)
template <int radix>
class ColumnFft {
 public:
  static constexpr int parts = 16 * radix, size = parts * warp::size;
  static constexpr int warps = radix < 8 ? 8 : radix;                              // of a block
  static constexpr int groups = warps / radix;                                     // of 32 columns in a block
  static constexpr int blocks = warp::size / 32 / groups;                          // for all columns
  static constexpr int row_blocks = parts / warps;                                 // for all rows
  static constexpr int exchange = groups * parts * 32, shared = exchange + parts;  // complex numbers of shared memory

  // What the threads of a block have in common, made by all of them before they meet: the factors between the stages.
  static __device__ __forceinline__ void fill(float2* table) {
    for (int i = threadIdx.x; i < parts; i += 32 * warps)
      table[i] = roots.at[i % radix * (4 * (i / radix) - 1) * (root_count / (4 * parts)) & (root_count - 1)];
  }

  __device__ __forceinline__ ColumnFft(int block, float2* memory, const float2* table) {
    const int lane = threadIdx.x % 32, group = threadIdx.x / 32 / radix;
    w_ = threadIdx.x / 32 % radix;
    column_ = (block * groups + group) * 32 + lane;
    by_point_ = memory + (group * parts + w_) * 32 + lane;
    by_frequency_ = memory + (group * parts + w_ * radix) * 32 + lane;
    factors_ = table + w_;
  }

  __device__ __forceinline__ int first_sample() const { return w_ * warp::size + column_; }
  static constexpr int sample(int i) { return i * radix * warp::size; }

  template <class Row>
  __device__ __forceinline__ void load(const Row& row, float2* x) const {
    unroll<16>([&](auto i) { x[i] = row(sample(i)) * weight<i>(); });
  }

  __device__ __forceinline__ void transform(float2* x, float2* scratch) const {
    fft<16, forward>(x);
    unroll<16>([&](auto k) { by_point_[k * radix * 32] = x[k] * factors_[k * radix]; });
    __syncthreads();
    unroll<16>([&](auto i) { x[i] = by_frequency_[place(i)]; });
    unroll<16 / radix>([&](auto q) { fft<radix, forward>(x + q * radix); });
    float2* to = keep(scratch + first_sample());
    between_passes([&](auto i, float2 factor) { store_scratch(to + part(i) * warp::size, x[i] * factor); });
  }

  template <class Row>
  __device__ __forceinline__ void inverse_to(const float2* scratch, const Row& row) const {
    const float2* from = keep(scratch + first_sample());
    float2 x[16];
    unroll<16>([&](auto i) { x[i] = load_scratch(from + part(i) * warp::size); });
    between_passes([&](auto i, float2 factor) { x[i] = x[i] * conj(factor); });
    unroll<16 / radix>([&](auto q) { fft<radix, inverse>(x + q * radix); });
    unroll<16>([&](auto i) { by_frequency_[place(i)] = x[i]; });
    __syncthreads();
    unroll<16>([&](auto k) { x[k] = by_point_[k * radix * 32] * conj(factors_[k * radix]); });
    fft<16, inverse>(x);
    unroll<16>([&](auto i) { row(sample(i), weight<i>(), x[i]); });
  }

 private:
  // Frequency i of the thread, counted from w: in the exchange, and of the row.
  static constexpr int place(int i) { return (i / radix * radix * radix + i % radix) * 32; }
  static constexpr int part(int i) { return i / radix * radix + 16 * (i % radix); }
  // Of the right-angle weight, the part that depends on i.
  template <int i>
  static __device__ __forceinline__ float2 weight() {
    constexpr float2 at = constant::root(-i, 64).as<float2>();
    return at;
  }

  // f(index, factor) between columns and rows, the weight of the column included.
  template <class F>
  __device__ __forceinline__ void between_passes(F&& f) const {
    constexpr int q_levels = log2_of(16 / radix), m_levels = log2_of(radix);
    float2 q_power[q_levels + 1], m_power[m_levels + 1];
    unroll<q_levels>([&](auto j) { q_power[j] = root<size>(column_ * (radix << j)); });
    unroll<m_levels>([&](auto j) { m_power[j] = root<size>(column_ * (16 << j)); });
    for_powers<16 / radix>(root<4 * size>(column_ * (4 * w_ - 1)), q_power, [&](auto q, float2 q_factor) {
      for_powers<radix>(q_factor, m_power,
                        [&](auto m, float2 factor) { f(std::integral_constant<int, q * radix + m>(), factor); });
    });
  }

  int w_, column_;
  float2 *by_point_, *by_frequency_;
  const float2* factors_;
};

// A warp's 1,024 points in memory.
struct WarpRow {
  float2* exchange;
  int lane, warp_index;

  __device__ __forceinline__ explicit WarpRow(float2* memory) {
    lane = threadIdx.x % 32, warp_index = threadIdx.x / 32;
    exchange = memory + warp_index * warp::buffer;
  }
  __device__ __forceinline__ void load(const float2* from, float2* x) const {
    from = keep(from + lane);
    unroll<32>([&](auto i) { x[i] = load_scratch(from + 32 * i); });
  }
  __device__ __forceinline__ void store(const float2* x, float2* to) const {
    to = keep(to + lane);
    unroll<32>([&](auto i) { store_scratch(to + 32 * i, x[i]); });
  }
};

// run(std::integral_constant<int, radix>) for columns of `parts` points.
template <class F>
void with_radix(int parts, F&& run) {
  with_one_of<2, 4, 8, 16>(parts / 16, run);
}

}  // namespace rtf::cuda::columns
