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
  int64_t pairs, pairs_per_spectrum;
  int64_t pairs_per_block = 0, blocks_per_spectrum = 0;
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
template <int rows>
constexpr std::size_t inverse_bytes = 2 * rows * sizeof(double2);
template <bool gradient>
constexpr int resident_threads = gradient ? 384 : 512;  // of a multiprocessor: as their registers allow
constexpr int lines = columns / 2 + 1;                  // that no other one mirrors

// Lines k1 and 256 - k1 of some pairs of channels with one denominator, a thread row each. B / A; or with G the spectrum
// of dk dB = G / conj(A) and dA = - dB conj(B / A).
//
// Real signals have conjugates at mirrored frequencies, so the first half of each line is divided and gives the second
// half of the other. Line 0 mirrors itself: there the one row of threads divides its first half and the other its second.
template <int rows, bool gradient>
__global__ void __launch_bounds__(LineFft<rows>::threads, resident_threads<gradient> / LineFft<rows>::threads)
    divide_lines(const LineArguments p) {
  using Fft = LineFft<rows>;
  constexpr int each = 8, half = each / 2, length = columns * rows, signals = gradient ? 2 : 1;
  extern __shared__ __align__(16) double2 shared[];
  double2* const table = shared + Fft::exchange_bytes / sizeof(double2);
  const int k1 = blockIdx.x, side = threadIdx.y, line = side == 0 ? k1 : (columns - k1) % columns;
  const bool second_half = k1 == 0 && side == 1;
  const int64_t start = static_cast<int64_t>(line) * rows;
  const int64_t spectrum = blockIdx.y / p.blocks_per_spectrum;
  const int64_t first_pair = spectrum * p.pairs_per_spectrum + blockIdx.y % p.blocks_per_spectrum * p.pairs_per_block;
  const int64_t end_pair = min(min(first_pair + p.pairs_per_block, (spectrum + 1) * p.pairs_per_spectrum), p.pairs);
  const auto k2 = [](int i) { return static_cast<int>(threadIdx.x) + i * Fft::stride; };
  const auto divided = [&](int i) { return k2(second_half ? i + half : i); };
  const auto mirrored = [&](int k) { return k1 == 0 ? (rows - k) & (rows - 1) : rows - 1 - k; };

  Fft::fill(table);
  // 1 / A lies in shared memory, each thread's own: registers are short.
  double2* const inverse_a = table + Fft::table_bytes / sizeof(double2) + side * Fft::stride + threadIdx.x;
  const auto load_inverse = [&](int i) {
    return Two{inverse_a[2 * i * Fft::threads], inverse_a[(2 * i + 1) * Fft::threads]};
  };
  Two result[signals][half];  // B / A; with gradients first B / A in the second, then dB and -dA.
  // The denominator, then of each pair b, and dk.
  const int count = 1 + signals * static_cast<int>(end_pair - first_pair);
#pragma unroll 1
  for (int signal = 0; signal < count; ++signal) {
    const int64_t pair = first_pair + (signal - 1) / signals;
    const bool is_denominator = signal == 0, is_numerator = !gradient || signal % 2 == 1;
    double2* const numerator = p.numerators + pair * length + start;
    double2* const to_denominator = p.gradients + pair * length + start;
    const double2* from = is_denominator ? p.denominators + spectrum * length + start
                          : is_numerator ? numerator
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
      if (is_denominator) {
        const Two inverse = reciprocal(x);
        inverse_a[2 * i * Fft::threads] = inverse.first;
        inverse_a[(2 * i + 1) * Fft::threads] = inverse.second;
      } else if (is_numerator) {
        result[gradient][i] = x * load_inverse(i);
      } else if constexpr (gradient) {
        result[0][i] = x * conj(load_inverse(i));
        result[1][i] = result[0][i] * conj(result[1][i]);
      }
    }
    if (is_denominator || (gradient && is_numerator)) continue;
#pragma unroll 1
    for (int which = 0; which < signals; ++which) {
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
}

// Pairs with one denominator share its transform in a block: as many as take the least time when the blocks run in waves
// over the multiprocessors.
int64_t pairs_in_block(int64_t pairs, int64_t pairs_per_spectrum, int64_t resident, int64_t transforms_per_pair) {
  int64_t best = 1, least = 0;
  for (int64_t each = 1; each <= std::min<int64_t>(pairs_per_spectrum, 8); each *= 2) {
    const int64_t blocks = lines * ceil_div(pairs, pairs_per_spectrum) * ceil_div(pairs_per_spectrum, each);
    const int64_t time = ceil_div(blocks, resident) * (1 + transforms_per_pair * each);
    if (each == 1 || time < least) best = each, least = time;
  }
  return best;
}

template <bool gradient>
void run_lines(int rows, LineArguments arguments, cudaStream_t stream) {
  const auto run = [&](auto size) {
    using Fft = LineFft<size>;
    const int64_t resident = multiprocessors * std::max(1, resident_threads<gradient> / Fft::threads);
    arguments.pairs_per_block =
        pairs_in_block(arguments.pairs, arguments.pairs_per_spectrum, resident, gradient ? 4 : 2);
    arguments.blocks_per_spectrum = ceil_div(arguments.pairs_per_spectrum, arguments.pairs_per_block);
    const int64_t blocks = ceil_div(arguments.pairs, arguments.pairs_per_spectrum) * arguments.blocks_per_spectrum;
    launch("kernel", divide_lines<size, gradient>, dim3(lines, static_cast<unsigned>(blocks)), dim3(Fft::stride, 2),
           Fft::exchange_bytes + Fft::table_bytes + inverse_bytes<size>, stream, arguments);
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
    run_lines<false>(rows, {scratch.denominators, scratch.numerators, nullptr, pairs, ceil_div(pairs, tile.spectra())},
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
                    {scratch.denominators, scratch.numerators, scratch.gradients, pairs,
                     ceil_div(pairs, tile.spectra())},
                    stream);
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
