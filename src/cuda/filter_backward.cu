// The gradients of the coefficients are correlations,
//   db_k = sum_t dy_t v_{t-k},   da_k = - sum_t lambda_t v_{t-k},   k = 1 ... n,   and dh0 = sum_t dy_t u_t,
// and the first two are products of matrices: with t = 8 p + s, s < 8, the sum over p of dy_{8p+s} v_{8(p-q)+r} has a
// part of the lag 8 q + s - r. A warp takes eight neighbouring segments of a sequence, each a depth of the product, and
// one p of all of them at a time; the v that lie before stay in registers. dy and lambda are the upper and the lower
// half of one factor.
#include <algorithm>
#include <utility>

#include "cuda/denominator_sum.h"
#include "cuda/filter_backward.h"
#include "cuda/filter_steps.h"
#include "cuda/launch.h"
#include "cuda/number_rows.h"

namespace rtf::cuda {
namespace {

constexpr int most_warps = 8, segments = 8, together = 4;  // values of p that are loaded at once
// Longer segments lie too far apart in memory; shorter ones read too many of the v before them again.
constexpr int64_t longest_segment = 256;
// A sequence is cut in parts until there are so many warps.
constexpr int64_t enough_warps = 2048;

struct Correlation {
  FilterBackward of;
  const void *v, *lambda;  // in the type of the arithmetic, strides as y of the filters that made them
  int64_t sequence_stride, channel_stride;
  int64_t parts, terms;              // of a sequence, and of a channel: one from each block
  double *a_terms, *b_terms, *gain;  // (channels, terms, order), and (channels, terms)
};

int64_t parts_of(const Filter& p) {
  const int64_t wanted = ceil_div(enough_warps, p.sequences * p.channels);
  return std::max<int64_t>(1, std::min(wanted, p.length / (segments * longest_segment)));
}

template <class T, int order>
__global__ void __launch_bounds__(32 * most_warps, order <= 32 ? 2 : 1)
    correlate_kernel(const __grid_constant__ Correlation c) {
  using A = Arithmetic<T>;
  constexpr int tiles = order / 8 + 1, before = order / 8;
  const Filter& p = c.of.forward;
  const int warps = blockDim.x / 32, warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32, row = lane / 4, column = lane % 4;
  const int channels = static_cast<int>(p.channels), channel = static_cast<int>(blockIdx.x) % channels;
  const int block = static_cast<int>(blockIdx.x) / channels, n = static_cast<int>(p.order);
  const int64_t unit = static_cast<int64_t>(block) * warps + warp;
  double sums[tiles][4] = {}, gain = 0;
  if (unit < p.sequences * c.parts) {
    const int64_t sequence = unit / c.parts;
    const Place place(p, sequence);
    const auto row_of = [&](auto* data, int64_t sequence_stride, int64_t channel_stride) {
      return data + place.row * sequence_stride + channel * channel_stride + place.first;
    };
    constexpr int at_once = 8 * together;
    const int segment = static_cast<int>(min(place.length / (segments * at_once) * at_once + at_once, longest_segment));
    const int turn = segments * segment;
    const int64_t turns = (place.length + turn - 1) / turn, each = (turns + c.parts - 1) / c.parts * turn;
    const int64_t first = unit % c.parts * each, last = min(first + each, place.length);
    // Of the turn that is being taken.
    const T* u = row_of(static_cast<const T*>(p.u), p.u_sequence_stride, p.u_channel_stride) + first;
    const T* dy = row_of(static_cast<const T*>(c.of.dy), c.of.dy_sequence_stride, c.of.dy_channel_stride) + first;
    T* du = row_of(static_cast<T*>(c.of.du), c.of.du_sequence_stride, c.of.du_channel_stride) + first;
    const A* v = row_of(static_cast<const A*>(c.v), c.sequence_stride, c.channel_stride) + first;
    const A* lambda = row_of(static_cast<const A*>(c.lambda), c.sequence_stride, c.channel_stride) + first;
    const double h0 = coefficient(p, p.h0, channel);
    if (unit % c.parts == 0) clear_rest(p, du, place.length, lane);

    // A thread has number `row` of every 8 samples of two segments.
    const int mine = column * segment + row;
    A inner[2][before + together];
#pragma unroll 1
    for (int64_t begin = first; begin < last; begin += turn) {
      const int samples = static_cast<int>(min(last - begin, int64_t{turn}));
#pragma unroll
      for (int h = 0; h < 2; ++h)
#pragma unroll
        for (int i = 0; i < before; ++i) {
          const int t = mine + 4 * h * segment - 8 * (before - i);
          inner[h][i] = 0;
          if (t >= 0 || begin > 0) {
            if (t < samples) inner[h][i] = v[t];
          } else if (-t <= n && p.initial_state != nullptr) {
            inner[h][i] = static_cast<A>(p.initial_state[(sequence * p.channels + channel) * n - t - 1]);
          }
        }
#pragma unroll 1
      for (int at = 0; at < min(segment, samples); at += at_once) {
        A left[2][2][together];
        T input[2][together];
#pragma unroll
        for (int h = 0; h < 2; ++h)
#pragma unroll
          for (int i = 0; i < together; ++i) {
            const int t = mine + 4 * h * segment + at + 8 * i;
            const bool inside = t < samples;
            left[h][0][i] = inside ? widen(dy[t]) : A(0);
            left[h][1][i] = inside ? lambda[t] : A(0);
            inner[h][before + i] = inside ? v[t] : A(0);
            input[h][i] = inside ? u[t] : T(0.0f);
          }
#pragma unroll
        for (int h = 0; h < 2; ++h)
#pragma unroll
          for (int i = 0; i < together; ++i) {
            const int t = mine + 4 * h * segment + at + 8 * i;
            const double gradient = left[h][0][i];
            gain += gradient * static_cast<double>(input[h][i]);
            if (t < samples) du[t] = sample<T>(static_cast<double>(left[h][1][i]) + h0 * gradient);
          }
#pragma unroll
        for (int i = 0; i < together; ++i) {
          const double a[4] = {left[0][0][i], left[0][1][i], left[1][0][i], left[1][1][i]};
#pragma unroll
          for (int q = 0; q < tiles; ++q) {
            const double b[2] = {inner[0][before + i - q], inner[1][before + i - q]};
            multiply_add<8>(sums[q], a, b);
          }
        }
#pragma unroll
        for (int h = 0; h < 2; ++h)
#pragma unroll
          for (int i = 0; i < before; ++i) inner[h][i] = inner[h][i + together];
      }
      u += turn, dy += turn, du += turn, v += turn, lambda += turn;
    }
  }

  // One warp after the other, then the diagonals of all products.
  __shared__ double totals[tiles][16][8], gains[most_warps];
  for (int turn = 0; turn < warps; ++turn) {
    if (warp == turn)
#pragma unroll
      for (int q = 0; q < tiles; ++q)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          double& total = totals[q][row + 8 * (j / 2)][2 * column + j % 2];
          total = turn == 0 ? sums[q][j] : total + sums[q][j];
        }
    __syncthreads();
  }
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) gain += __shfl_xor_sync(~0u, gain, offset);
  if (lane == 0) gains[warp] = gain;
  __syncthreads();
  const int64_t term = channel * c.terms + block;
  for (int i = threadIdx.x; i < 2 * n; i += blockDim.x) {
    const bool of_a = i >= n;
    const int lag = i % n + 1;
    double total = 0;
#pragma unroll
    for (int s = 0; s < 8; ++s) {
      const int r = (s - lag) & 7;
      total += totals[(lag - s + r) / 8][s + (of_a ? 8 : 0)][r];
    }
    (of_a ? c.a_terms : c.b_terms)[term * n + lag - 1] = of_a ? -total : total;
  }
  if (threadIdx.x == 0) {
    double total = 0;
    for (int i = 0; i < warps; ++i) total += gains[i];
    c.gain[term] = total;
  }
}

template <class T>
void correlate(const Correlation& c, int64_t warps, cudaStream_t stream) {
  const auto run = [&](auto kernel) {
    launch("filter_backward", kernel, dim3(static_cast<unsigned>(c.of.forward.channels * c.terms)),
           dim3(static_cast<unsigned>(32 * warps)), 0, stream, c);
  };
  if (c.of.forward.order <= 8)
    run(correlate_kernel<T, 8>);
  else if (c.of.forward.order <= 16)
    run(correlate_kernel<T, 16>);
  else if (c.of.forward.order <= 32)
    run(correlate_kernel<T, 32>);
  else
    run(correlate_kernel<T, 64>);
}

// What lies in the workspace: v, lambda, and the terms of the sums.
struct Layout {
  int64_t rows, parts, warps, terms;
  std::size_t signal, coefficients, gains;  // bytes

  explicit Layout(const Filter& p) {
    const auto aligned = [](std::size_t bytes) { return (bytes + 255) / 256 * 256; };
    rows = p.offsets != nullptr ? 1 : p.sequences;
    parts = parts_of(p);
    warps = std::min<int64_t>(most_warps, p.sequences * parts);
    terms = ceil_div(p.sequences * parts, warps);
    signal = aligned(rows * p.channels * p.length * (p.type == Type::float64 ? 8 : 4));
    coefficients = aligned(p.channels * terms * p.order * sizeof(double));
    gains = aligned(p.channels * terms * sizeof(double));
  }
};

}  // namespace

std::size_t filter_backward_workspace(const FilterBackward& backward) {
  if (backward.forward.sequences == 0) return 0;
  const Layout layout(backward.forward);
  return 2 * layout.signal + 2 * layout.coefficients + layout.gains;
}

void filter_backward(const FilterBackward& backward, void* workspace, cudaStream_t stream) {
  const Filter& p = backward.forward;
  if (p.sequences == 0) return;
  const Layout layout(p);
  auto* bytes = static_cast<unsigned char*>(workspace);
  const auto take = [&](std::size_t count) { return std::exchange(bytes, bytes + count); };
  void *v = take(layout.signal), *lambda = take(layout.signal);
  auto* a_terms = reinterpret_cast<double*>(take(layout.coefficients));
  auto* b_terms = reinterpret_cast<double*>(take(layout.coefficients));
  auto* gain = reinterpret_cast<double*>(take(layout.gains));

  Filter inner = p;
  inner.series = Series::inner;
  inner.y_type = p.type == Type::float64 ? Type::float64 : Type::float32;
  inner.y = v;
  inner.y_sequence_stride = p.channels * p.length;
  inner.y_channel_stride = p.length;
  inner.final_state = nullptr;
  Filter adjoint = inner;
  adjoint.series = Series::adjoint;
  adjoint.u = backward.dy;
  adjoint.u_sequence_stride = backward.dy_sequence_stride;
  adjoint.u_channel_stride = backward.dy_channel_stride;
  adjoint.y = lambda;
  adjoint.initial_state = backward.final_gradient;
  adjoint.final_state = backward.initial_gradient;
  filter(inner, adjoint, stream);

  const Correlation correlation{
      backward, v,       lambda, inner.y_sequence_stride, inner.y_channel_stride, layout.parts, layout.terms,
      a_terms,  b_terms, gain};
  with_type(p.type, [&](auto zero) { correlate<decltype(zero)>(correlation, layout.warps, stream); });
  const int64_t sharing = p.channels / p.denominators;
  sum_denominators("filter_backward",
                   {{a_terms, nullptr, backward.da, p.denominators, sharing * layout.terms, p.order},
                    {b_terms, nullptr, backward.db, p.channels, layout.terms, p.order},
                    {gain, nullptr, backward.dh0, p.channels, layout.terms, 1}},
                   stream);
}

}  // namespace rtf::cuda
