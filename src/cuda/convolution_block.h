// A row of 1,024 * radix points in one block of `radix` warps. One stage of radix points, across the block, brings
// every 1,024th part of the spectrum into a warp of its own: point k + 32 m of lane k and register m of warp f is
// frequency f + radix * (k + 32 m).
#pragma once

#include "cuda/convolution_signal.h"

namespace rtf::cuda {

// `splits` > 1: a row of splits * 1,024 * radix points, of which the block transforms one set of frequencies, congruent
// to `split`, after the other. The samples are read for each. Not `weighted`: the plain transform of a row that has its
// right-angle weights already.
template <int radix, int splits = 1, bool weighted = true>
class BlockFft {
  static_assert(weighted || (splits == 1 && radix > 1));

 public:
  static constexpr int threads = 32 * radix;
  static constexpr int part = warp::size * radix;
  static constexpr int size = splits * part;
  static constexpr int columns = 32 / radix;  // of the first stage that one thread computes
  static constexpr int exchange = radix * warp::buffer;
  static constexpr int firsts = weighted ? splits : 0;
  static constexpr int factors = firsts + log2_of(radix);  // of a thread, see for_columns
  static constexpr bool has_table = radix >= 8;            // of twiddles; fewer warps would make it for little use
  static constexpr int shared = exchange + factors * threads + (has_table ? warp::size : 0);  // complex numbers

  // The factors live in shared memory: a thread needs its registers for the row.
  __device__ __forceinline__ explicit BlockFft(float2* shared_memory) : shared_(shared_memory), thread_(threadIdx.x) {
    for (int s = 0; s < firsts; ++s) factor(s) = root<4 * size>(thread_ * (4 * s - 1));
    for (int j = 0; j < log2_of(radix); ++j) factor(firsts + j) = root<part>(thread_ << j);
    // The threads meet in transform() before they use it.
    if constexpr (has_table) twiddles_ = warp::TwiddleTable::make(shared_ + exchange + factors * threads);
  }

  // The set of frequencies to transform next.
  __device__ __forceinline__ void choose(int split) { split_ = split; }

  // Which 1,024 frequencies of the row this warp holds.
  __device__ __forceinline__ int frequencies() const { return split_ + splits * (thread_ / 32); }
  __device__ __forceinline__ int lane() const { return thread_ % 32; }

  // Sample i < 32 * splits of this thread, counted from its index.
  static constexpr int sample(int i) {
    return threads * (i / radix % columns) + warp::size * (i % radix) + part * (i / 32);
  }

  // The weighted row of a source, from this thread's index on.
  template <class Row>
  __device__ __forceinline__ void load(const Row& row, float2* x) const {
    if constexpr (radix == 1) {
      decltype(row(0)) samples[32];
      unroll<32>([&](auto i) { samples[i] = row(sample(i)); });
      for_columns([&](auto j, float2 first, const float2*) { x[j] = samples[j] * first; });
    } else {
      unroll<radix>([&](auto t1) {
        unroll<splits>([&](auto s) {
          const float2 w = weight<t1>(s);
          unroll<columns>([&](auto j) {
            constexpr int i = j * radix + t1;
            const float2 term = row(sample(i) + part * s) * w;
            x[i] = s == 0 ? term : x[i] + term;
          });
        });
      });
    }
  }

  __device__ __forceinline__ void transform(float2* x) const {
    if constexpr (radix > 1) {
      for_columns([&](auto j, float2 first, const float2* power) {
        fft<radix, forward>(x + j * radix);
        for_factors(first, power,
                    [&](auto f, auto w) { shared_[f * warp::buffer + thread_ + threads * j] = x[j * radix + f] * w; });
      });
      __syncthreads();
      unroll<32>([&](auto i) { x[i] = mine()[lane() + 32 * i]; });
    }
    warp::fft_forward(x, mine(), lane(), twiddles_);
  }

  // Back to samples, which still have their weights.
  __device__ __forceinline__ void transform_back(float2* x) const {
    warp::fft_inverse(x, mine(), lane(), twiddles_);
    if constexpr (radix > 1) {
      __syncwarp();
      unroll<32>([&](auto i) { mine()[lane() + 32 * i] = x[i]; });
      __syncthreads();
      for_columns([&](auto j, float2 first, const float2* power) {
        for_factors(first, power, [&](auto f, auto w) {
          x[j * radix + f] = shared_[f * warp::buffer + thread_ + threads * j] * conj(w);
        });
        fft<radix, inverse>(x + j * radix);
      });
    }
  }

  // put(i, t, weight, value) for the samples of this thread, i < 32 * splits and t from this thread's index on.
  // conj(weight) value is the sample, of which each split has its share.
  template <class Put>
  __device__ __forceinline__ void store(const float2* x, Put&& put) const {
    if constexpr (radix == 1) {
      for_columns([&](auto j, float2 first, const float2*) { put(j, sample(j), first, x[j]); });
    } else {
      unroll<radix>([&](auto t1) {
        unroll<splits>([&](auto s) {
          const float2 w = weight<t1>(s);
          unroll<columns>([&](auto j) {
            constexpr int i = (s * columns + j) * radix + t1;
            put(std::integral_constant<int, i>(), sample(i), w, x[j * radix + t1]);
          });
        });
      });
    }
  }

 private:
  __device__ __forceinline__ float2* mine() const { return shared_ + thread_ / 32 * warp::buffer; }

  // f(k, factor) of one column, see for_columns.
  template <class F>
  __device__ __forceinline__ void for_factors(float2 first, const float2* power, F&& f) const {
    if constexpr (weighted) {
      for_powers<radix>(first, power, f);
    } else {
      f(std::integral_constant<int, 0>(), One());
      for_powers<radix>(power, f);
    }
  }

  // f(j, first, power): the factor of column thread + threads * j and frequency f of the first stage is
  // first * power[0]^f, the right-angle weight of the column included.
  template <class F>
  __device__ __forceinline__ void for_columns(F&& f) const {
    const float2 first = weighted ? static_cast<float2>(factor(split_)) : float2{1.f, 0.f};
    float2 power[log2_of(radix) + 1];
    unroll<log2_of(radix)>([&](auto l) { power[l] = factor(firsts + l); });
    unroll<columns>([&](auto j) {
      float2 here = first, step[log2_of(radix) + 1];
      if constexpr (weighted && splits == 1)
        here = turn<forward, -j, 128>(first);
      else if constexpr (weighted && j > 0)
        here = first * load_here(roots.at + ((j * (4 * split_ - 1) * (8 / splits)) & (root_count - 1)));
      unroll<log2_of(radix)>([&](auto l) { step[l] = turn<forward, (j << l), 32>(power[l]); });
      f(j, here, step);
    });
  }

  struct Factor {
    volatile float2* at;
    __device__ __forceinline__ operator float2() const { return {at->x, at->y}; }
    __device__ __forceinline__ void operator=(float2 value) const { at->x = value.x, at->y = value.y; }
  };
  __device__ __forceinline__ Factor factor(int i) const { return {shared_ + exchange + threads * i + thread_}; }

  // Of samples 1,024 (t1 + radix * s) and on, apart from the column's.
  template <int t1>
  __device__ __forceinline__ float2 weight(int s) const {
    if constexpr (splits == 1) {
      constexpr float2 w = constant::root(-t1, 4 * radix).as<float2>();
      return w;
    } else {
      return load_here(
          roots.at + (((4 * split_ - 1) * (t1 + radix * s) * (root_count / (4 * splits * radix))) & (root_count - 1)));
    }
  }

  float2* shared_;
  int thread_, split_ = 0;
  std::conditional_t<has_table, warp::TwiddleTable, warp::Twiddles> twiddles_;
};

// A block's shared memory.
__device__ __forceinline__ float2* block_memory() {
  extern __shared__ float4 shared[];
  return reinterpret_cast<float2*>(shared);
}

}  // namespace rtf::cuda
