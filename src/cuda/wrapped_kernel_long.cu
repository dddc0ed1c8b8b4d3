// Rows longer than a block holds, length = 256 x rows points: point n = n1 * rows + n2, frequency k = k1 + 256 k2.
// Transforms over n1 ("columns", neighbouring n2 in a block), a twist by exp(-2 pi i k1 n2 / length), transforms over
// n2 ("lines" k1) where the quotient is taken, and the same way back. Two channels travel as one complex signal x + i
// y, so a line meets its mirror image, line 256 - k1, in one block. Never do signals of different kinds: a small
// gradient would drown in the rounding of the coefficients. A tile of channels at a time: its scratch stays near the
// cache, and memory does not grow with the channels.
#include "cuda/column_transforms.h"
#include "cuda/denominator_sum.h"
#include "cuda/double_transforms.h"
#include "cuda/kernel_tiles.h"
#include "cuda/launch.h"
#include "cuda/wrapped_kernel_long.h"

namespace rtf::cuda {
namespace {

struct LineArguments {
  const double2* denominators;  // (spectra, columns, rows)
  double2* numerators;          // (pairs, columns, rows): b; then the kernels, or db
  double2* gradients;           // likewise: dk; then da
  int64_t pairs_per_spectrum;
};

struct Two {
  double2 first, second;
};
using cuda::conj;
using cuda::operator*;
using cuda::reciprocal;
// Twice the spectra of the two real signals behind a number of a line and the mirrored one, and back.
__device__ Two unpack(double2 z, double2 mirror) { return {z + conj(mirror), times_i(conj(mirror) - z)}; }
__device__ double2 pack(Two x) { return x.first + times_i(x.second); }
__device__ Two conj(Two x) { return {conj(x.first), conj(x.second)}; }
__device__ Two operator*(Two x, Two y) { return {x.first * y.first, x.second * y.second}; }
__device__ Two reciprocal(Two x) { return {reciprocal(x.first), reciprocal(x.second)}; }

template <int rows>
using LineFft = BlockFft<rows, 2>;

// Lines k1 and 256 - k1 of a pair of channels, a thread row each. B / A; or with G the spectrum of dk dB = G / conj(A)
// and dA = - dB conj(B / A).
//
// Real signals have conjugates at mirrored frequencies, so the first half of each line is divided and gives the second
// half of the other. Line 0 mirrors itself: there the one row of threads divides its first half and the other its second.
template <int rows, bool gradient>
__global__ void __launch_bounds__(LineFft<rows>::threads, (gradient ? 384 : 512) / LineFft<rows>::threads)
    divide_lines(const LineArguments p) {
  using Fft = LineFft<rows>;
  constexpr int each = 8, half = each / 2, length = columns * rows, results = gradient ? 2 : 1;
  extern __shared__ __align__(16) double2 shared[];
  double2* const table = shared + Fft::exchange_bytes / sizeof(double2);
  const int k1 = blockIdx.x, side = threadIdx.y, line = side == 0 ? k1 : (columns - k1) % columns;
  const bool second_half = k1 == 0 && side == 1;
  const int64_t pair = blockIdx.y, start = static_cast<int64_t>(line) * rows;
  double2* const numerator = p.numerators + pair * length + start;
  double2* const to_denominator = p.gradients + pair * length + start;
  const auto k2 = [](int i) { return static_cast<int>(threadIdx.x) + i * Fft::stride; };
  const auto divided = [&](int i) { return k2(second_half ? i + half : i); };
  const auto mirrored = [&](int k) { return k1 == 0 ? (rows - k) & (rows - 1) : rows - 1 - k; };

  Fft::fill(table);
  // 1 / A, then B / A; with gradients B / A beside it, then dB and -dA.
  Two result[results][half];
#pragma unroll 1
  for (int signal = 0; signal < (gradient ? 3 : 2); ++signal) {
    const double2* from = signal == 0   ? p.denominators + pair / p.pairs_per_spectrum * length + start
                          : signal == 1 ? numerator
                                        : to_denominator;
    double2 z[each];
#pragma unroll
    for (int i = 0; i < each; ++i) z[i] = from[k2(i)];
    Fft::template execute<forward>(z, shared, table);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < each; ++i) shared[side * rows + k2(i)] = z[i];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < half; ++i) {
      const double2 own = second_half ? z[i + half] : z[i];
      const Two x = unpack(own, shared[(side ^ 1) * rows + mirrored(divided(i))]);
      if (signal == 0) {
        result[0][i] = reciprocal(x);
      } else if (signal == 1) {
        result[gradient][i] = x * result[0][i];
      } else if constexpr (gradient) {
        result[0][i] = x * conj(result[0][i]);
        result[1][i] = result[0][i] * conj(result[1][i]);
      }
    }
  }
#pragma unroll 1
  for (int which = 0; which < results; ++which) {
    double2 z[each];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < half; ++i) {
      const Two x = which == 0 ? result[0][i] : result[gradient][i];
      const double2 own = pack(x);
      shared[(side ^ 1) * rows + (k1 == 0 ? divided(i) : mirrored(divided(i)))] = k1 == 0 ? own : pack(conj(x));
      z[i] = z[i + half] = own;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < half; ++i) {
      const double2 other = shared[side * rows + k2(second_half ? i : i + half)];
      (second_half ? z[i] : z[i + half]) = other;
    }
    const Twist twist = Twist::load<inverse>(line, threadIdx.x, Fft::stride, length);
    Fft::template execute<inverse>(z, shared, table);
    twist.apply(z);
    if (side == 1 && line == k1) continue;
    const double sign = which == 0 ? 1 : -1;
    double2* to = which == 0 ? numerator : to_denominator;
#pragma unroll
    for (int i = 0; i < each; ++i) to[k2(i)] = sign * z[i];
  }
}

template <bool gradient>
void run_lines(int rows, const LineArguments& arguments, int64_t pairs, cudaStream_t stream) {
  const auto run = [&](auto size) {
    using Fft = LineFft<size>;
    launch("kernel", divide_lines<size, gradient>, dim3(columns / 2 + 1, static_cast<unsigned>(pairs)),
           dim3(Fft::stride, 2), Fft::exchange_bytes + Fft::table_bytes, stream, arguments);
  };
  switch (rows) {
    case 128:
      return run(std::integral_constant<int, 128>());
    case 256:
      return run(std::integral_constant<int, 256>());
    case 512:
      return run(std::integral_constant<int, 512>());
    default:
      return run(std::integral_constant<int, 1024>());
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
  double2 *denominators, *numerators, *gradients;

  Scratch(const KernelSizes& sizes, const KernelTiles& tiles, void* workspace)
      : denominators(static_cast<double2*>(workspace)),
        numerators(denominators + tiles.largest().spectra() * sizes.length),
        gradients(numerators + tiles.largest().pairs() * sizes.length) {}
};

std::size_t scratch_bytes(const KernelSizes& sizes, const KernelTiles& tiles) {
  return tiles.scratch_rows() * sizes.length * sizeof(double2);
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
    run_columns(columns_ahead,
                {rows,
                 {{scratch.denominators, denominator_rows(sizes, a, tile), {}, tile.spectra()},
                  {scratch.numerators, channel_rows(b, first, channels, sizes.order, 1), {}, pairs}}},
                stream);
    run_lines<false>(rows, {scratch.denominators, scratch.numerators, nullptr, ceil_div(pairs, tile.spectra())}, pairs,
                     stream);
    run_columns(columns_back,
                {rows, {{scratch.numerators, channel_rows(kernel, first, channels, sizes.length, 0), h0, pairs}}},
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
    run_columns(columns_ahead,
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
    run_columns(columns_back,
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
