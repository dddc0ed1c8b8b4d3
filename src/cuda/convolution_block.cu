// Convolution of rows that fit a block: one pass over u and y.
#include <algorithm>

#include "cuda/convolution_block.h"
#include "cuda/convolution_steps.h"
#include "cuda/launch.h"

namespace rtf::cuda::block {
namespace {

// Sixteen warps of 128 registers fill a multiprocessor.
template <int radix, class T>
__global__ __launch_bounds__(32 * radix, 16 / radix) void convolve_kernel(SignalSource<T> source,
                                                                          SignalSink<T, Ends::length> sink,
                                                                          const float2* spectrum, int rows_per_block) {
  const BlockFft<radix> fft(block_memory());
  const int batch = source.sizes.batch, groups = (batch + rows_per_block - 1) / rows_per_block;
  const int c = blockIdx.x / groups, first = blockIdx.x % groups * rows_per_block;
  const int last = min(first + rows_per_block, batch);
  const float2* k = spectrum + (std::int64_t(c) * radix + fft.frequencies()) * warp::size + fft.lane();
  for (int b = first; b < last; ++b) {
    float2 x[32];
    fft.load(source.row(b, c, threadIdx.x), x);
    fft.transform(x);
    wait_for_previous();
    unroll<32>([&](auto m) { x[m] = x[m] * load_here(k + 32 * m); });
    fft.transform_back(x);
    const auto to = sink.row(b, c, threadIdx.x);
    fft.store(x, [&](auto, int t, float2 weight, float2 value) { to(t, weight, value); });
    if (radix > 1 && b + 1 < last) __syncthreads();
  }
}

template <int radix>
__global__ __launch_bounds__(32 * radix, 16 / radix) void spectrum_kernel(KernelSource kernel, float2* out) {
  let_next_start();
  const BlockFft<radix> fft(block_memory());
  float2 x[32];
  fft.load(kernel.row(0, blockIdx.x, threadIdx.x), x);
  fft.transform(x);
  float2* to = out + (std::int64_t(blockIdx.x) * radix + fft.frequencies()) * warp::size + fft.lane();
  constexpr float scale = 1.f / fft.size;
  unroll<32>([&](auto m) { to[32 * m] = scale * x[m]; });
}

template <int radix>
__global__ __launch_bounds__(32 * radix, 16 / radix) void gradient_kernel(const float2* shares, int groups,
                                                                          KernelSink kernel) {
  const BlockFft<radix> fft(block_memory());
  __syncthreads();
  float2 x[32] = {};
  wait_for_previous();
  let_next_start();  // not sooner: see convolve_backward
  const float2* from = shares + (std::int64_t(blockIdx.x) * radix + fft.frequencies()) * warp::size + fft.lane();
  for (int g = 0; g < groups; ++g, from += std::int64_t(kernel.channels) * fft.size)
    unroll<32>([&](auto m) { x[m] = x[m] + from[32 * m]; });
  constexpr float scale = 1.f / fft.size;
  unroll<32>([&](auto m) { x[m] = scale * x[m]; });
  fft.transform_back(x);
  const auto to = kernel.row(0, blockIdx.x, threadIdx.x);
  fft.store(x, [&](auto, int t, float2 weight, float2 value) { to(t, weight, value); });
}

// run(std::integral_constant<int, radix>) for a row of `size` points.
template <class F>
void with_radix(int size, F&& run) {
  with_one_of<1, 2, 4, 8, 16>(size / warp::size, run);
}

template <class T>
void convolve_as(const Convolution& sizes, int size, Signal u, const float2* spectrum, Signal y, cudaStream_t stream) {
  with_radix(size, [&](auto radix) {
    // One block a multiprocessor begins a row while it still writes the one before; several do that for each other.
    const int rows_per_block = radix < 16 ? 1 : 4;
    const int groups = (sizes.batch + rows_per_block - 1) / rows_per_block;
    launch("convolve", Start::early, convolve_kernel<radix, T>, dim3(groups * sizes.channels), dim3(32 * radix),
           sizeof(float2) * BlockFft<radix>::shared, stream, SignalSource<T>{sizes, u, Ends::valid},
           SignalSink<T, Ends::length>{sizes, y}, spectrum, rows_per_block);
  });
}

}  // namespace

void spectrum(const KernelSource& kernel, float2* out, cudaStream_t stream) {
  with_radix(kernel.size, [&](auto radix) {
    launch("convolve", spectrum_kernel<radix>, dim3(kernel.channels), dim3(32 * radix),
           sizeof(float2) * BlockFft<radix>::shared, stream, kernel, out);
  });
}

void convolve(const Convolution& sizes, int size, Signal u, const float2* spectrum, Signal y, cudaStream_t stream) {
  sizes.storage == Storage::float32 ? convolve_as<float>(sizes, size, u, spectrum, y, stream)
                                    : convolve_as<__nv_bfloat16>(sizes, size, u, spectrum, y, stream);
}

void gradient(const float2* shares, int groups, const KernelSink& kernel, cudaStream_t stream) {
  with_radix(kernel.size, [&](auto radix) {
    launch("convolve_backward", Start::early, gradient_kernel<radix>, dim3(kernel.channels), dim3(32 * radix),
           sizeof(float2) * BlockFft<radix>::shared, stream, shares, groups, kernel);
  });
}

}  // namespace rtf::cuda::block
