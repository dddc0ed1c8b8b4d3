#include "cuda/device.h"
#include "cuda/recurrence.h"

namespace rtf::cuda {
namespace {

constexpr int threads = 128, each = 8;  // numbers of a state that a thread takes, where they do not need a whole warp

// 2^log_lanes threads share a state; those of a warp take states that are neighbours in memory.
template <class T>
__global__ void step_kernel(Step p, int log_lanes) {
  const int thread = static_cast<int>(blockIdx.y) * threads + static_cast<int>(threadIdx.x), lanes = 1 << log_lanes;
  const int channel = thread >> log_lanes, channels = static_cast<int>(p.channels);
  // Threads past the last channel stay for the shuffles.
  const bool mine = channel < channels;
  const int lane = thread & (lanes - 1), order = mine ? static_cast<int>(p.order) : 0;
  const int64_t row = blockIdx.x * p.channels + channel;
  const int denominator = channel / (channels / static_cast<int>(p.denominators));
  // Restricted: a load need not wait for the store before it.
  const double* __restrict__ a = p.a + denominator * p.order;
  const double* __restrict__ b = p.b + channel * p.order;
  const double* __restrict__ x = p.state + row * p.order;
  double* __restrict__ next = p.next + row * p.order;
  const double u = mine ? static_cast<double>(static_cast<const T*>(p.u)[row]) : 0.0;
  double back = 0, out = lane == 0 && mine ? p.h0[channel] * u : 0.0;
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
  if (order > 0) next[0] = u - back;
  static_cast<T*>(p.y)[row] = static_cast<T>(out);
}

template <class T>
void launch(const Step& p, cudaStream_t stream) {
  int log_lanes = 0;
  while (log_lanes < 5 && (each << log_lanes) < p.order) ++log_lanes;
  const dim3 grid(static_cast<unsigned>(p.batch),
                  static_cast<unsigned>(((p.channels << log_lanes) + threads - 1) / threads));
  step_kernel<T><<<grid, threads, 0, stream>>>(p, log_lanes);
}

}  // namespace

void step(const Step& p, cudaStream_t stream) {
  if (p.batch == 0) return;
  with_type(p.type, [&](auto zero) { launch<decltype(zero)>(p, stream); });
  check("step", cudaGetLastError());
}

}  // namespace rtf::cuda
