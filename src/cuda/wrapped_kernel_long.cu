// Rows longer than a block holds, length = 256 x rows points: point n = n1 * rows + n2, frequency k = k1 + 256 k2.
// Transforms over n1 ("columns", neighbouring n2 in a block), a twist by exp(-2 pi i k1 n2 / length), transforms over
// n2 ("lines" k1) where the quotient is taken, and the same way back. Two channels travel as one complex signal x + i
// y, so a line meets its mirror image, line 256 - k1, in one block. Never do signals of different kinds: a small
// gradient would drown in the rounding of the coefficients. A tile of channels at a time: its scratch stays near the
// cache, and memory does not grow with the channels.
#include "cuda/column_transforms.h"
#include "cuda/denominator_sum.h"
#include "cuda/double_fft.h"
#include "cuda/kernel_tiles.h"
#include "cuda/launch.h"
#include "cuda/wrapped_kernel_long.h"

namespace rtf::cuda {
namespace {

struct LineArguments {
  const Complex* denominators;  // (spectra, columns, rows)
  Complex* numerators;          // (pairs, columns, rows): b; then the kernels, or db
  Complex* gradients;           // likewise: dk; then da
  int64_t pairs_per_spectrum;
};

struct Two {
  Complex first, second;
};
// Twice the spectra of the two real signals behind a number of a line and the mirrored one, and back.
__device__ Two unpack(Complex z, Complex mirror) { return {z + conj(mirror), times_i(conj(mirror) - z)}; }
__device__ Complex pack(Two x) { return x.first + times_i(x.second); }
using cuda::conj;
__device__ Two conj(Two x) { return {conj(x.first), conj(x.second)}; }
__device__ Two operator*(Two x, Two y) { return {x.first * y.first, x.second * y.second}; }

constexpr int per_thread = 8;

// Lines k1 and 256 - k1 of a pair of channels, a thread row each. B / A; or with G the spectrum of dk dB = G / conj(A)
// and dA = - dB conj(B / A).
template <int rows, bool gradient>
__global__ void __launch_bounds__(DoubleFft<rows, per_thread, 2>::threads) divide_lines(const LineArguments p) {
  using Fft = DoubleFft<rows, per_thread, 2>;
  constexpr int signals = gradient ? 3 : 2, results = gradient ? 2 : 1, length = columns * rows, half = per_thread / 2;
  extern __shared__ __align__(16) char shared[];
  auto lines = reinterpret_cast<Complex(*)[2][rows]>(shared + Fft::shared_bytes);
  const int k1 = blockIdx.x, side = threadIdx.y, line = side == 0 ? k1 : (columns - k1) % columns;
  const int64_t pair = blockIdx.y, start = static_cast<int64_t>(line) * rows;
  Complex* const numerator = p.numerators + pair * length + start;
  Complex* const to_denominator = p.gradients + pair * length + start;
  const auto k2 = [](int i) { return static_cast<int>(threadIdx.x + i * Fft::stride); };
  const auto mirrored = [&](int k) { return k1 == 0 ? (rows - k) % rows : rows - 1 - k; };
  Complex z[results][per_thread];
#pragma unroll 1
  for (int signal = 0; signal < signals; ++signal) {
    const Complex* from = signal == 0   ? p.denominators + pair / p.pairs_per_spectrum * length + start
                          : signal == 1 ? numerator
                                        : to_denominator;
#pragma unroll
    for (int i = 0; i < per_thread; ++i) z[0][i] = from[k2(i)];
    typename Fft::Forward().execute(z[0], shared);
#pragma unroll
    for (int i = 0; i < per_thread; ++i) lines[signal][side][k2(i)] = z[0][i];
    __syncthreads();
  }
  const auto divide = [&](int k, Two(&result)[results]) {
    const auto signal = [&](int which) { return unpack(lines[which][side][k], lines[which][side ^ 1][mirrored(k)]); };
    const Two a = signal(0), inverse{reciprocal(a.first), reciprocal(a.second)}, quotient = signal(1) * inverse;
    result[0] = quotient;
    if constexpr (gradient) {
      result[0] = signal(2) * conj(inverse);
      const Two da = result[0] * conj(quotient);
      result[1] = {scaled(da.first, -1), scaled(da.second, -1)};
    }
  };
  // The first half of each line gives the second half of the other: real signals have conjugates at mirrored
  // frequencies. Line 0 mirrors itself and is divided whole.
#pragma unroll
  for (int i = 0; i < half; ++i) {
    Two x[results], y[results];
    divide(k2(i), x);
    if (k1 == 0) divide(k2(i + half), y);
#pragma unroll
    for (int result = 0; result < results; ++result) {
      z[result][i] = pack(x[result]);
      z[result][i + half] = pack(k1 == 0 ? y[result] : conj(x[result]));
    }
  }
  if (k1 != 0) {
    __syncthreads();
#pragma unroll
    for (int result = 0; result < results; ++result)
#pragma unroll
      for (int i = 0; i < half; ++i) lines[result][side ^ 1][mirrored(k2(i))] = z[result][i + half];
    __syncthreads();
#pragma unroll
    for (int result = 0; result < results; ++result)
#pragma unroll
      for (int i = half; i < per_thread; ++i) z[result][i] = lines[result][side][k2(i)];
  }
#pragma unroll 1
  for (int result = 0; result < results; ++result) {
    if constexpr (gradient) {
      if (result == 1) {
#pragma unroll
        for (int i = 0; i < per_thread; ++i) z[0][i] = z[1][i];
      }
    }
    __syncthreads();
    typename Fft::Inverse().execute(z[0], shared);
    twist<Fft::stride>(z[0], 1, line, threadIdx.x, length);
    if (side == 1 && line == k1) continue;
    Complex* to = result == 0 ? numerator : to_denominator;
#pragma unroll
    for (int i = 0; i < per_thread; ++i) to[k2(i)] = z[0][i];
  }
}

template <int rows, bool gradient>
void run_lines(const LineArguments& arguments, int64_t pairs, cudaStream_t stream) {
  using Fft = DoubleFft<rows, per_thread, 2>;
  constexpr std::size_t shared_bytes = Fft::shared_bytes + (gradient ? 6 : 4) * rows * sizeof(Complex);
  const dim3 grid(columns / 2 + 1, static_cast<unsigned>(pairs));
  launch("kernel", divide_lines<rows, gradient>, grid, dim3(Fft::stride, 2), shared_bytes, stream, arguments);
}

template <bool gradient>
void run_lines(int rows, const LineArguments& arguments, int64_t pairs, cudaStream_t stream) {
  switch (rows) {
    case 128:
      return run_lines<128, gradient>(arguments, pairs, stream);
    case 256:
      return run_lines<256, gradient>(arguments, pairs, stream);
    case 512:
      return run_lines<512, gradient>(arguments, pairs, stream);
    default:
      return run_lines<1024, gradient>(arguments, pairs, stream);
  }
}

PairRows channel_rows(Numbers numbers, int64_t first, int64_t channels, int64_t count, int offset) {
  return {numbers, first, 2, 1, 1, first + channels, false, static_cast<int>(count), offset, 0};
}

// A second channel that is missing divides 0 by the last denominator.
PairRows denominator_rows(const KernelSizes& sizes, Numbers a, const KernelTile& tile) {
  const auto order = static_cast<int>(sizes.order);
  if (tile.shared_denominators()) return {a, tile.group, 1, 0, 1, tile.group + tile.groups, true, order, 1, 1};
  const int64_t first = tile.group * tile.per_group;
  return {a, first, 2, 1, tile.per_group, first + tile.channels(), true, order, 1, 1};
}

struct Scratch {
  Complex *denominators, *numerators, *gradients;

  Scratch(const KernelSizes& sizes, const KernelTiles& tiles, void* workspace)
      : denominators(static_cast<Complex*>(workspace)),
        numerators(denominators + tiles.largest().spectra() * sizes.length),
        gradients(numerators + tiles.largest().pairs() * sizes.length) {}
};

std::size_t scratch_bytes(const KernelSizes& sizes, const KernelTiles& tiles) {
  return tiles.scratch_rows() * sizes.length * sizeof(Complex);
}

}  // namespace

std::size_t long_workspace(const KernelSizes& sizes) { return scratch_bytes(sizes, KernelTiles(sizes, false)); }

std::size_t long_vjp_workspace(const KernelSizes& sizes) {
  const KernelTiles tiles(sizes, true);
  const int64_t terms = sizes.channels_per_group() == 1 ? 0 : tiles.largest().channels() + 1;
  return scratch_bytes(sizes, tiles) + terms * sizes.order * sizeof(double);
}

void long_kernel(const KernelSizes& sizes, Numbers a, Numbers b, Numbers h0, Numbers kernel, void* workspace,
                 cudaStream_t stream) {
  const KernelTiles tiles(sizes, false);
  const Scratch scratch(sizes, tiles, workspace);
  const auto rows = static_cast<int>(sizes.length / columns);
  tiles.for_each([&](const KernelTile& tile) {
    const int64_t first = tile.group * sizes.channels_per_group() + tile.begin;
    const int64_t channels = tile.channels(), pairs = tile.pairs();
    run_columns(false,
                {rows,
                 {{scratch.denominators, denominator_rows(sizes, a, tile), {}, tile.spectra()},
                  {scratch.numerators, channel_rows(b, first, channels, sizes.order, 1), {}, pairs}}},
                stream);
    run_lines<false>(rows, {scratch.denominators, scratch.numerators, nullptr, ceil_div(pairs, tile.spectra())}, pairs,
                     stream);
    run_columns(true, {rows, {{scratch.numerators, channel_rows(kernel, first, channels, sizes.length, 0), h0, pairs}}},
                stream);
  });
}

void long_kernel_vjp(const KernelSizes& sizes, Numbers dk, Numbers a, Numbers b, Numbers da, Numbers db, Numbers dh0,
                     void* workspace, cudaStream_t stream) {
  const KernelTiles tiles(sizes, true);
  const Scratch scratch(sizes, tiles, workspace);
  const auto rows = static_cast<int>(sizes.length / columns);
  const int64_t order = sizes.order, each = sizes.channels_per_group();
  auto* terms = reinterpret_cast<double*>(scratch.gradients + tiles.largest().pairs() * sizes.length);
  double* sum_so_far = terms + tiles.largest().channels() * order;
  tiles.for_each([&](const KernelTile& tile) {
    const int64_t first = tile.group * each + tile.begin, pairs = tile.pairs(), channels = tile.channels();
    run_columns(false,
                {rows,
                 {{scratch.denominators, denominator_rows(sizes, a, tile), {}, tile.spectra()},
                  {scratch.numerators, channel_rows(b, first, channels, order, 1), {}, pairs},
                  {scratch.gradients, channel_rows(dk, first, channels, sizes.length, 0), dh0, pairs}}},
                stream);
    run_lines<true>(rows,
                    {scratch.denominators, scratch.numerators, scratch.gradients, ceil_div(pairs, tile.spectra())},
                    pairs, stream);
    const PairRows to_a = each == 1 ? channel_rows(da, first, channels, order, 1)
                                    : channel_rows({terms, Type::float64}, 0, channels, order, 1);
    run_columns(true,
                {rows,
                 {{scratch.numerators, channel_rows(db, first, channels, order, 1), {}, pairs},
                  {scratch.gradients, to_a, {}, pairs}}},
                stream);
    if (each == 1) return;
    const bool last = tile.begin + tile.per_group == each;
    Numbers sums{sum_so_far, Type::float64};
    if (last) sums = {static_cast<char*>(da.data) + tile.group * order * size_of(da.type), da.type};
    sum_denominators({terms, tile.begin == 0 ? nullptr : sum_so_far, sums, tile.groups, tile.per_group, order}, stream);
  });
}

}  // namespace rtf::cuda
