// A real row on chip, to its spectrum and back.
#pragma once

#include <algorithm>

#include "cuda/double_fft.h"
#include "cuda/number_rows.h"

namespace rtf::cuda {

// exp(i pi / n) for n = 4 and 8, the numbers that a thread holds.
constexpr Complex half_turn(int n) {
  return n == 4 ? Complex(0.70710678118654752440, 0.70710678118654752440)
                : Complex(0.92387953251128675613, 0.38268343236508977173);
}

// The spectrum of a real row by a complex transform of half its length: z_e = x_2e + i x_{2e+1}. A thread's numbers are
// kept *mirrored* between the transforms: Z(k) in `low` and Z(half - k) in `high`, so that the spectrum X(k), X(half -
// k) comes and goes without a second exchange. Thread 0 holds Z(0) and Z(half/2) instead: its first number is the pair
// X(0), X(half), both real. The spectrum is twice X; inverse() doubles too, and its scale makes up for that alone.
template <int length>
struct RealRow {
  static constexpr int half = length / 2;
  static constexpr int numbers = length <= 2048 ? 4 : 8;  // a thread holds; few where there are few threads
  using Fft = DoubleFft<half, numbers, 1>;
  static constexpr int threads = Fft::threads, stride = Fft::stride;
  static constexpr int blocks = std::max(1, 512 / threads);  // a multiprocessor holds at least: 128 registers a thread
  static constexpr std::size_t spectrum_bytes = half * sizeof(Complex);
  static constexpr std::size_t exchange_bytes = std::max<std::size_t>(Fft::shared_bytes, spectrum_bytes / 2);

  __device__ explicit RealRow(void* exchange)
      : exchange_(static_cast<Complex*>(exchange)), root_(root_of_unity(-static_cast<int>(threadIdx.x), length)) {}

  __device__ static bool edge(int i) { return i == 0 && threadIdx.x == 0; }
  // The sample that real part (even i) or imaginary part of number i / 2 is.
  __device__ static int sample(int i) { return 2 * (static_cast<int>(threadIdx.x) + i / 2 * stride) + i % 2; }
  __device__ double& part(int i) { return i % 2 == 0 ? z[i / 2].x : z[i / 2].y; }

  __device__ void forward(const NumberRow& row) {
    load_points<2 * numbers>(row, length, sample, [this](int i) -> double& { return part(i); });
    typename Fft::Forward().execute(z, exchange_);
    const int t = threadIdx.x;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < numbers / 2; ++i) exchange_[t + i * stride] = z[i + numbers / 2];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < numbers / 2; ++i) z[i + numbers / 2] = exchange_[mirror(t + i * stride)];
    Complex root = root_;
#pragma unroll
    for (int i = 0; i < numbers / 2; ++i) {
      Complex &low = z[i], &high = z[i + numbers / 2];
      if (edge(i)) {
        low = scaled(Complex(low.x + low.y, low.x - low.y), 2);
        high = scaled(conj(high), 2);
      } else {
        const Complex even = low + conj(high), odd = root * times_i(conj(high) - low);
        low = even + odd;
        high = conj(even - odd);
      }
      root = root * conj(half_turn(numbers));
    }
    __syncthreads();
  }

  __device__ void inverse() {
    Complex root = conj(root_);
#pragma unroll
    for (int i = 0; i < numbers / 2; ++i) {
      Complex &low = z[i], &high = z[i + numbers / 2];
      if (edge(i)) {
        low = Complex(low.x + low.y, low.x - low.y);
        high = scaled(conj(high), 2);
      } else {
        const Complex even = low + conj(high), odd = times_i(root * (low - conj(high)));
        low = even + odd;
        high = conj(even - odd);
      }
      root = root * half_turn(numbers);
    }
    const int t = threadIdx.x;
#pragma unroll
    for (int i = 0; i < numbers / 2; ++i) exchange_[mirror(t + i * stride)] = z[i + numbers / 2];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < numbers / 2; ++i) z[i + numbers / 2] = exchange_[t + i * stride];
    __syncthreads();
    typename Fft::Inverse().execute(z, exchange_);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < numbers; ++i) z[i] = scaled(z[i], 1.0 / length);
  }

  // result(x, y) for each number and the one of the same frequency in `other`, which is a thread's own memory.
  template <class Result>
  __device__ void combine(Complex* other, Result result) {
#pragma unroll
    for (int i = 0; i < numbers; ++i) result(z[i], other[threadIdx.x + i * stride], edge(i));
  }

  __device__ void store(const NumberRow& row) {
    store_points<2 * numbers>(row, length, sample, [this](int i) -> double& { return part(i); });
  }

  Complex z[numbers];

 private:
  __device__ static int mirror(int k) { return k == 0 ? 0 : half / 2 - k; }

  Complex* exchange_;
  Complex root_;
};

// The pair of real values at an edge multiplies by components.
__device__ inline Complex multiply(Complex x, Complex y, bool edge) {
  return edge ? Complex(x.x * y.x, x.y * y.y) : x * y;
}
__device__ inline Complex invert(Complex x, bool edge) { return edge ? Complex(1 / x.x, 1 / x.y) : reciprocal(x); }
__device__ inline Complex conjugate(Complex x, bool edge) { return edge ? x : conj(x); }

}  // namespace rtf::cuda
