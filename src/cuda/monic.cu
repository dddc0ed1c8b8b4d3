#include <algorithm>

#include "cuda/launch.h"
#include "cuda/monic.h"
#include "cuda/number_rows.h"

namespace rtf::cuda {
namespace {

constexpr int threads = 256, lanes = 32;

// One channel's coefficients.
struct Channel {
  const Monic& p;
  int64_t a_row, b_row;
  double a0, h0;

  __device__ Channel(const Monic& filters, int64_t channel)
      : p(filters),
        a_row(channel / (p.channels / p.denominators) * p.a_columns),
        b_row(p.b_rows == 1 ? 0 : channel * p.b_columns),
        a0(load_number(p.a, a_row)),
        h0(load_number(p.b, b_row) / a0) {}

  __device__ double a(int64_t k) const { return k < p.a_columns ? load_number(p.a, a_row + k) : 0; }
  // The product with all its digits: filters that block a constant leave little of the difference.
  __device__ double b(int64_t k) const {
    return fma(-h0, a(k), k < p.b_columns ? load_number(p.b, b_row + k) : 0) / a0;
  }
};

__global__ void __launch_bounds__(threads)
    monic_kernel(const __grid_constant__ Monic p, double* a, double* b, double* h0) {
  const int64_t i = blockIdx.x * int64_t{threads} + threadIdx.x;
  if (i < p.denominators * p.order) {
    const int64_t row = i / p.order, k = i % p.order + 1;
    a[i] = k < p.a_columns ? load_number(p.a, row * p.a_columns + k) / load_number(p.a, row * p.a_columns) : 0;
  }
  const int64_t channel = i / (p.order + 1), k = i % (p.order + 1);
  if (channel >= p.channels) return;
  const Channel at(p, channel);
  if (k == 0)
    h0[channel] = at.h0;
  else
    b[channel * p.order + k - 1] = at.b(k);
}

__device__ double sum_of_lanes(double x) {
#pragma unroll
  for (int step = lanes / 2; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffff, x, step);
  return x;
}

// A block has a denominator and its channels; the equations stand in torch/rational.cpp.
__global__ void __launch_bounds__(threads)
    monic_vjp_kernel(const __grid_constant__ Monic p, const double* da, const double* db, const double* dh0,
                     double* gains, Numbers to_a, Numbers to_b) {
  __shared__ double leading[threads / lanes];
  const int64_t row = blockIdx.x, sharing = p.channels / p.denominators, begin = row * sharing;
  const int lane = threadIdx.x % lanes, warp = threadIdx.x / lanes;
  const double a0 = load_number(p.a, row * p.a_columns);
  double to_leading = 0;
  for (int64_t channel = begin + warp; channel < begin + sharing; channel += threads / lanes) {
    const Channel at(p, channel);
    double along_a = 0, along_b = 0;
    for (int64_t k = 1 + lane; k <= p.order; k += lanes) {
      const double g = db[channel * p.order + k - 1] / a0;
      along_a += g * at.a(k);
      along_b += g * at.b(k);
    }
    const double e = dh0[channel] - sum_of_lanes(along_a);
    to_leading -= e * at.h0 / a0 + sum_of_lanes(along_b);
    if (lane == 0) gains[channel] = e;
  }
  if (warp == 0) {
    double along = 0;
    for (int64_t k = lane; k < p.order; k += lanes) {
      const double a = k + 1 < p.a_columns ? load_number(p.a, row * p.a_columns + k + 1) / a0 : 0;
      along += da[row * p.order + k] * a;
    }
    to_leading -= sum_of_lanes(along) / a0;
  }
  if (lane == 0) leading[warp] = to_leading;
  __syncthreads();

  for (int64_t k = threadIdx.x; k <= p.order; k += threads) {
    double sum_a = k == 0 ? 0 : da[row * p.order + k - 1] / a0, sum_b = 0;
    for (int64_t channel = begin; channel < begin + sharing; ++channel) {
      const double g = (k == 0 ? gains[channel] : db[channel * p.order + k - 1]) / a0;
      if (k > 0) sum_a -= g * load_number(p.b, p.b_rows == 1 ? 0 : channel * p.b_columns) / a0;
      if (p.b_rows == 1)
        sum_b += g;
      else if (k < p.b_columns)
        store_number(to_b, channel * p.b_columns + k, g);
    }
    if (k == 0)
      for (const double part : leading) sum_a += part;
    if (k < p.a_columns) store_number(to_a, row * p.a_columns + k, sum_a);
    if (p.b_rows == 1 && k < p.b_columns) store_number(to_b, row * p.b_columns + k, sum_b);
  }
}

}  // namespace

void monic(const Monic& filters, double* a, double* b, double* h0, cudaStream_t stream) {
  const int64_t numbers = std::max(filters.denominators * filters.order, filters.channels * (filters.order + 1));
  launch("monic", monic_kernel, static_cast<unsigned>(ceil_div(numbers, threads)), threads, 0, stream, filters, a, b,
         h0);
}

void monic_vjp(const Monic& filters, const double* da, const double* db, const double* dh0, double* gains, Numbers to_a,
               Numbers to_b, cudaStream_t stream) {
  launch("monic_backward", monic_vjp_kernel, static_cast<unsigned>(filters.denominators), threads, 0, stream, filters,
         da, db, dh0, gains, to_a, to_b);
}

}  // namespace rtf::cuda
