// A real row on chip, to its spectrum and back.
#pragma once

#include <algorithm>

#include "cuda/number_rows.h"
#include "cuda/row_transforms.h"

namespace rtf::cuda {

// The spectrum of a real row by a complex transform of half its length: z_e = x_2e + i x_{2e+1}. A thread's numbers are
// kept *mirrored* between the transforms: Z(k) in `low` and Z(half - k) in `high`, so that the spectrum X(k), X(half -
// k) comes and goes without a second exchange. Thread 0 holds Z(0) and Z(half/2) instead: its first number is the pair
// X(0), X(half), both real. The spectrum is twice X; inverse() doubles too, and its scale makes up for that alone.
template <int length>
struct RealRow {
  static constexpr int half = length / 2;
  static constexpr int numbers = length <= 2048 ? 4 : length <= 8192 ? 8 : 16;  // of a thread; short rows have few
  using Fft = RowFft<double2, half, 1, numbers, (length > 8192)>;
  static constexpr int threads = Fft::threads, stride = Fft::stride;
  static constexpr int blocks = std::max(1, 512 / threads);  // a multiprocessor holds at least: 128 registers a thread
  static constexpr std::size_t spectrum_bytes = half * sizeof(double2);
  static constexpr std::size_t exchange_bytes = Fft::exchange_bytes + Fft::table_bytes;
  static_assert(Fft::exchange_bytes >= spectrum_bytes / 2);  // half a spectrum goes to its mirror image

  __device__ explicit RealRow(void* exchange)
      : exchange_(static_cast<double2*>(exchange)),
        table_(exchange_ + Fft::exchange_bytes / sizeof(double2)),
        root_(double_root<rtf::cuda::forward>(threadIdx.x, length)) {
    Fft::fill(table_);
  }

  __device__ static bool edge(int i) { return i == 0 && threadIdx.x == 0; }
  // The sample that real part (even i) or imaginary part of number i / 2 is.
  __device__ static int sample(int i) { return 2 * (static_cast<int>(threadIdx.x) + i / 2 * stride) + i % 2; }
  __device__ double& part(int i) { return i % 2 == 0 ? z[i / 2].x : z[i / 2].y; }

  __device__ void forward(const NumberRow& row) {
    load_points<2 * numbers>(row, length, sample, [this](int i) -> double& { return part(i); });
    Fft::template execute<rtf::cuda::forward>(z, exchange_, table_);
    const int t = threadIdx.x;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < numbers / 2; ++i) exchange_[t + i * stride] = z[i + numbers / 2];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < numbers / 2; ++i) z[i + numbers / 2] = exchange_[mirror(t + i * stride)];
    unroll<numbers / 2>([&](auto i) {
      double2 &low = z[i], &high = z[i + numbers / 2];
      if (edge(i)) {
        low = {2 * (low.x + low.y), 2 * (low.x - low.y)};
        high = 2.0 * conj(high);
      } else {
        const double2 root = turn<rtf::cuda::forward, i, 2 * numbers>(root_);
        const double2 even = low + conj(high), odd = root * times_i(conj(high) - low);
        low = even + odd;
        high = conj(even - odd);
      }
    });
  }

  __device__ void inverse() {
    unroll<numbers / 2>([&](auto i) {
      double2 &low = z[i], &high = z[i + numbers / 2];
      if (edge(i)) {
        low = {low.x + low.y, low.x - low.y};
        high = 2.0 * conj(high);
      } else {
        const double2 root = conj(turn<rtf::cuda::forward, i, 2 * numbers>(root_));
        const double2 even = low + conj(high), odd = times_i(root * (low - conj(high)));
        low = even + odd;
        high = conj(even - odd);
      }
    });
    const int t = threadIdx.x;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < numbers / 2; ++i) exchange_[mirror(t + i * stride)] = z[i + numbers / 2];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < numbers / 2; ++i) z[i + numbers / 2] = exchange_[t + i * stride];
    Fft::template execute<rtf::cuda::inverse>(z, exchange_, table_);
#pragma unroll
    for (int i = 0; i < numbers; ++i) z[i] = 1.0 / length * z[i];
  }

  // result(x, y) for each number and the one of the same frequency in `other`, which is a thread's own memory.
  template <class Result>
  __device__ void combine(double2* other, Result result) {
#pragma unroll
    for (int i = 0; i < numbers; ++i) result(z[i], other[threadIdx.x + i * stride], edge(i));
  }

  __device__ void store(const NumberRow& row) {
    store_points<2 * numbers>(row, length, sample, [this](int i) -> double& { return part(i); });
  }

  double2 z[numbers];

 private:
  __device__ static int mirror(int k) { return k == 0 ? 0 : half / 2 - k; }

  double2 *exchange_, *table_;
  double2 root_;
};

// The pair of real values at an edge multiplies by components.
__device__ inline double2 multiply(double2 x, double2 y, bool edge) {
  return edge ? double2{x.x * y.x, x.y * y.y} : x * y;
}
__device__ inline double2 invert(double2 x, bool edge) { return edge ? double2{1 / x.x, 1 / x.y} : reciprocal(x); }
__device__ inline double2 conjugate(double2 x, bool edge) { return edge ? x : conj(x); }

}  // namespace rtf::cuda
