#include "cuda/recurrence.h"

#include <algorithm>
#include <bit>

#include "cuda/device.h"

namespace rtf::cuda {
namespace {

constexpr int threads = 128, each = 8;  // numbers of a state that a thread takes, where they do not need a whole warp

// `lanes` threads, a power of two up to 32, share a state; those of a warp take states that are neighbours in memory.
template <class T>
__global__ void step_kernel(Step p, int lanes) {
  const int64_t thread = blockIdx.x * static_cast<int64_t>(threads) + threadIdx.x, row = thread / lanes;
  const int lane = static_cast<int>(thread % lanes);
  // Threads past the last row stay for the shuffles.
  const bool mine = row < p.batch * p.channels;
  const int64_t channel = mine ? row % p.channels : 0;
  const int order = mine ? static_cast<int>(p.order) : 0;
  // Restricted: a load need not wait for the store before it.
  const double* __restrict__ a = p.a + channel / (p.channels / p.denominators) * p.order;
  const double* __restrict__ b = p.b + channel * p.order;
  const double* __restrict__ x = p.state + row * p.order;
  double* __restrict__ next = p.next + row * p.order;
  double back = 0, out = 0;
#pragma unroll each
  for (int k = lane; k < order; k += lanes) {
    const double value = x[k];
    back += a[k] * value;
    out += b[k] * value;
    if (k + 1 < order) next[k + 1] = value;
  }
  for (int half = lanes / 2; half > 0; half /= 2) {
    back += __shfl_xor_sync(~0u, back, half);
    out += __shfl_xor_sync(~0u, out, half);
  }
  if (!mine || lane > 0) return;
  const double u = static_cast<double>(static_cast<const T*>(p.u)[row]);
  if (order > 0) next[0] = u - back;
  static_cast<T*>(p.y)[row] = static_cast<T>(out + p.h0[channel] * u);
}

template <class T>
void launch(const Step& p, cudaStream_t stream) {
  const auto wanted = static_cast<uint64_t>((p.order + each - 1) / each);
  const int lanes = static_cast<int>(std::clamp<uint64_t>(std::bit_ceil(wanted), 1, 32));
  const int64_t blocks = (p.batch * p.channels * lanes + threads - 1) / threads;
  step_kernel<T><<<static_cast<unsigned>(blocks), threads, 0, stream>>>(p, lanes);
}

}  // namespace

void step(const Step& p, cudaStream_t stream) {
  if (p.batch == 0) return;
  switch (p.type) {
    case Type::float32:
      launch<float>(p, stream);
      break;
    case Type::bfloat16:
      launch<__nv_bfloat16>(p, stream);
      break;
    case Type::float64:
      launch<double>(p, stream);
      break;
  }
  check("step", cudaGetLastError());
}

}  // namespace rtf::cuda
