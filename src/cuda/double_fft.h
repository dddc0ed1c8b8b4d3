// Transforms in double inside a kernel, and what complex numbers need besides cuFFTDx's own + - *.
#pragma once

#include <cufftdx.hpp>

namespace rtf::cuda {

using Complex = cufftdx::complex<double>;

__device__ inline Complex conj(Complex x) { return {x.x, -x.y}; }
__device__ inline Complex times_i(Complex x) { return {-x.y, x.x}; }
__device__ inline Complex scaled(Complex x, double factor) { return {x.x * factor, x.y * factor}; }
__device__ inline Complex reciprocal(Complex x) { return scaled(conj(x), 1.0 / fma(x.x, x.x, x.y * x.y)); }

// exp(2 pi i numerator / denominator)
__device__ inline Complex root_of_unity(double numerator, double denominator) {
  Complex result;
  sincospi(2 * numerator / denominator, &result.y, &result.x);
  return result;
}

// `count` transforms of `points` complex numbers side by side in a block: thread (x, y) holds of row y the numbers
// x + i * stride, i = 0, 1, ..., before and after. The inverse is not scaled.
template <int points, int per_thread, int count>
struct DoubleFft {
  using Description =
      decltype(cufftdx::Size<points>() + cufftdx::Precision<double>() + cufftdx::Type<cufftdx::fft_type::c2c>() +
               cufftdx::SM<RTF_CUDA_CAPABILITY * 10>() + cufftdx::ElementsPerThread<per_thread>() +
               cufftdx::FFTsPerBlock<count>() + cufftdx::Block());
  using Forward = decltype(Description() + cufftdx::Direction<cufftdx::fft_direction::forward>());
  using Inverse = decltype(Description() + cufftdx::Direction<cufftdx::fft_direction::inverse>());
  static constexpr int stride = points / per_thread;
  static constexpr int threads = stride * count;
  static constexpr std::size_t shared_bytes = Forward::shared_memory_size > Inverse::shared_memory_size
                                                  ? Forward::shared_memory_size
                                                  : Inverse::shared_memory_size;
  static_assert(Forward::storage_size == per_thread && Forward::stride == stride && !Forward::requires_workspace);
};

}  // namespace rtf::cuda
