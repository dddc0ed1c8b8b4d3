// Gradients of the convolution of rows that fit a block: one pass over dy, u and du. A block takes some sequences of
// one channel and sums the spectrum of the kernel's gradient over them.
#include "cuda/convolution_block.h"
#include "cuda/convolution_steps.h"
#include "cuda/launch.h"

namespace rtf::cuda::block {
namespace {

// The sum of conj(u) dy in the registers of each thread.
class RegisterSum {
 public:
  static constexpr int shared = 0;
  __device__ __forceinline__ explicit RegisterSum(float2*) {}
  __device__ __forceinline__ void choose(int) {}
  template <int m>
  __device__ __forceinline__ void add(std::integral_constant<int, m>, float2 value) {
    sum_[m] = sum_[m] + value;
  }
  template <int m>
  __device__ __forceinline__ float2 at(std::integral_constant<int, m>) const {
    return sum_[m];
  }

 private:
  float2 sum_[32] = {};
};

// The same in shared memory, for each of several splits.
template <int threads, int splits>
class SharedSum {
 public:
  static constexpr int shared = splits * 32 * threads;
  __device__ __forceinline__ explicit SharedSum(float2* memory) : memory_(memory + threadIdx.x), mine_(memory_) {
    for (int i = 0; i < splits * 32; ++i) memory_[i * threads] = {0.f, 0.f};
  }
  __device__ __forceinline__ void choose(int split) { mine_ = memory_ + split * 32 * threads; }
  template <int m>
  __device__ __forceinline__ void add(std::integral_constant<int, m>, float2 value) {
    mine_[m * threads] = mine_[m * threads] + value;
  }
  template <int m>
  __device__ __forceinline__ float2 at(std::integral_constant<int, m>) const {
    return mine_[m * threads];
  }

 private:
  float2 *memory_, *mine_;
};

template <int radix, int splits>
using Sum = std::conditional_t<splits == 1, RegisterSum, SharedSum<32 * radix, splits>>;

// Two spectra and a sum take most of a thread's 255 registers: eight warps fill a multiprocessor.
template <int radix, int splits, class T>
__global__ __launch_bounds__(32 * radix, 8 / radix) void backward_kernel(SignalSource<T> from_dy,
                                                                         SignalSource<T> from_u, const float2* spectrum,
                                                                         SignalSink<T, Ends::valid> to_du,
                                                                         float2* shares, int group) {
  BlockFft<radix, splits> fft(block_memory());
  Sum<radix, splits> sum(block_memory() + fft.shared);
  const int batch = from_u.sizes.batch, groups = (batch + group - 1) / group;
  const int c = blockIdx.x / groups, g = blockIdx.x % groups;
  const int last = min(g * group + group, batch);
  // Of this thread in a channel's spectrum.
  const auto place = [&] { return std::int64_t(fft.frequencies()) * warp::size + fft.lane(); };
  for (int b = g * group; b < last; ++b) {
    const auto to = to_du.row(b, c, threadIdx.x);
    [[maybe_unused]] float whole[splits == 1 ? 1 : 32 * splits] = {};
#pragma unroll 1
    for (int split = 0; split < splits; ++split) {
      fft.choose(split);
      sum.choose(split);
      float2 u[32] = {}, dy[32];
      // A loop, so that both share their instructions: the cache for those is small.
#pragma unroll 1
      for (int pass = 0; pass < 2; ++pass) {
        auto row = from_u.row(b, c, threadIdx.x);
        if (pass == 1) {
          wait_for_previous();
          row = from_dy.row(b, c, threadIdx.x);
        }
        fft.load(row, dy);
        fft.transform(dy);
        if (pass == 1) break;
        unroll<32>([&](auto m) { u[m] = dy[m]; });
        if (radix > 1) __syncthreads();
      }
      const float2* k = spectrum + std::int64_t(c) * fft.size + place();
      unroll<32>([&](auto m) {
        sum.add(m, conj(u[m]) * dy[m]);
        dy[m] = conj(load_here(k + 32 * m)) * dy[m];
      });
      fft.transform_back(dy);
      fft.store(dy, [&](auto i, int t, float2 weight, float2 value) {
        if constexpr (splits == 1)
          to(t, weight, value);
        else
          whole[i] += real_dot(weight, value);
      });
      if (radix > 1) __syncthreads();
    }
    if constexpr (splits > 1) unroll<32 * splits>([&](auto i) { to.put(fft.sample(i), whole[i]); });
  }
  let_next_start();
  for (int split = 0; split < splits; ++split) {
    fft.choose(split);
    sum.choose(split);
    float2* share = shares + (std::int64_t(g) * from_u.sizes.channels + c) * fft.size + place();
    unroll<32>([&](auto m) { share[32 * m] = sum.at(m); });
  }
}

template <int radix, int splits, class T>
void launch_backward(const Convolution& sizes, int group, Signal dy, Signal u, const float2* spectrum, Signal du,
                     float2* shares, cudaStream_t stream) {
  const int groups = (sizes.batch + group - 1) / group;
  launch("convolve_backward", Start::early, backward_kernel<radix, splits, T>, dim3(groups * sizes.channels),
         dim3(32 * radix), sizeof(float2) * (BlockFft<radix, splits>::shared + Sum<radix, splits>::shared), stream,
         SignalSource<T>{sizes, dy, Ends::length}, SignalSource<T>{sizes, u, Ends::valid}, spectrum,
         SignalSink<T, Ends::valid>{sizes, du}, shares, group);
}

// run(radix, splits), both std::integral_constant, for rows of `size` points.
template <class F>
auto with_shape(int size, F&& run) {
  return with_one_of<1, 2, 4, 8, 16>(size / warp::size, [&](auto warps) {
    constexpr int splits = warps == 16 ? 2 : 1;  // sixteen warps would have half of the registers
    return run(std::integral_constant<int, warps / splits>(), std::integral_constant<int, splits>());
  });
}

template <class T>
void backward_as(const Convolution& sizes, int size, int group, Signal dy, Signal u, const float2* spectrum, Signal du,
                 float2* shares, cudaStream_t stream) {
  with_shape(size, [&](auto radix, auto splits) {
    launch_backward<radix, splits, T>(sizes, group, dy, u, spectrum, du, shares, stream);
  });
}

}  // namespace

std::size_t backward_shared_bytes(int size) {
  return with_shape(size, [](auto radix, auto splits) {
    return sizeof(float2) * (BlockFft<radix, splits>::shared + Sum<radix, splits>::shared);
  });
}

void backward(const Convolution& sizes, int size, int group, Signal dy, Signal u, const float2* spectrum, Signal du,
              float2* shares, cudaStream_t stream) {
  sizes.storage == Storage::float32
      ? backward_as<float>(sizes, size, group, dy, u, spectrum, du, shares, stream)
      : backward_as<__nv_bfloat16>(sizes, size, group, dy, u, spectrum, du, shares, stream);
}

}  // namespace rtf::cuda::block
