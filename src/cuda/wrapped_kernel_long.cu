// Rows longer than a block holds, length = 256 x rows points: point n = n1 * rows + n2, frequency k = k1 + 256 k2.
// Transforms over n1 ("columns", 16 neighbouring n2 in a block), a twist by exp(-2 pi i k1 n2 / length), transforms over
// n2 ("lines" k1) where the quotient is taken, and the same way back. Two channels travel as one complex signal x + i y,
// so a line meets its mirror image, line 256 - k1, in one block. Never do signals of different kinds: a small gradient
// would drown in the rounding of the coefficients. A tile of channels at a time: its scratch stays in the cache, and
// memory does not grow with the channels.
#include "cuda/wrapped_kernel_long.h"

#include <algorithm>

#include "cuda/denominator_sum.h"
#include "cuda/device.h"
#include "cuda/double_fft.h"
#include "cuda/number_rows.h"

namespace rtf::cuda {
namespace {

constexpr std::size_t tile_bytes = 32 << 20;
constexpr int columns = 256, radix = 16, together = 16;

// The rows that belong to the items of a tile: (first + item * step) / divisor. Past `last` there is none, or its row
// again where one is needed.
struct Rows {
  Numbers numbers;
  int64_t first = 0, step = 1, divisor = 1, last = 0;
  bool repeat_last = false;
  int count = 0, offset = 0;
  double leading = 0;

  __device__ int64_t index(int64_t item) const { return min(first + item * step, last) / divisor; }
  __device__ bool has(int64_t item) const { return repeat_last || first + item * step <= last; }
  __device__ NumberRow row(int64_t item) const { return {numbers, index(item) * count, count, offset, leading}; }
};

// points[i] *= exp(sign 2 pi i line (x + i stride) / length)
template <int stride, int count>
__device__ void twist(Complex (&points)[count], int sign, int line, int x, int length) {
  Complex root = root_of_unity(static_cast<double>(sign * line * x), length);
  const Complex step = root_of_unity(static_cast<double>(sign * line * stride), length);
#pragma unroll
  for (int i = 0; i < count; ++i) {
    points[i] = points[i] * root;
    root = root * step;
  }
}

struct ColumnArguments {
  Complex* scratch;  // (items, columns, rows)
  int rows;
  Rows real, imaginary;
  Numbers h0;  // of each channel: its point 0 goes there on the way there, it is added to it on the way back
};

// 256 points by 16 x 16 in registers: thread (c, j) holds the points j + 16 i of column c before and after, so that
// neighbouring threads always hold neighbouring columns.
template <cufftdx::fft_direction direction>
__device__ void transform_column(Complex (&z)[radix], Complex (*exchange)[together]) {
  using Fft = decltype(cufftdx::Size<radix>() + cufftdx::Precision<double>() +
                       cufftdx::Type<cufftdx::fft_type::c2c>() + cufftdx::Direction<direction>() +
                       cufftdx::SM<RTF_CUDA_CAPABILITY * 10>() + cufftdx::Thread());
  const int c = threadIdx.x, j = threadIdx.y;
  Fft().execute(z);
  twist<1>(z, direction == cufftdx::fft_direction::forward ? -1 : 1, j, 0, columns);
#pragma unroll
  for (int i = 0; i < radix; ++i) exchange[i * radix + j][c] = z[i];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < radix; ++i) z[i] = exchange[j * radix + i][c];
  Fft().execute(z);
}

template <bool back>
__global__ void __launch_bounds__(radix* together, 2) transform_columns(const ColumnArguments p) {
  extern __shared__ __align__(16) char shared[];
  auto exchange = reinterpret_cast<Complex(*)[together]>(shared);
  const int length = columns * p.rows, n2 = blockIdx.x * together + threadIdx.x;
  const int64_t item = blockIdx.y;
  const auto point = [&](int i) { return (static_cast<int>(threadIdx.y) + i * radix) * p.rows + n2; };
  const bool second = p.imaginary.has(item), first_point = p.h0.data && n2 == 0 && threadIdx.y == 0;
  Complex* scratch = p.scratch + item * length;
  Complex z[radix] = {};
  const auto real = [&](int i) -> double& { return z[i].x; };
  const auto imaginary = [&](int i) -> double& { return z[i].y; };
  if constexpr (!back) {
    load_points<radix>(p.real.row(item), length, point, real);
    if (second) load_points<radix>(p.imaginary.row(item), length, point, imaginary);
    if (first_point) store_number(p.h0, p.real.index(item), z[0].x);
    if (first_point && second) store_number(p.h0, p.imaginary.index(item), z[0].y);
    transform_column<cufftdx::fft_direction::forward>(z, exchange);
    twist<radix>(z, -1, n2, threadIdx.y, length);
#pragma unroll
    for (int i = 0; i < radix; ++i) scratch[point(i)] = z[i];
  } else {
#pragma unroll
    for (int i = 0; i < radix; ++i) z[i] = scratch[point(i)];
    transform_column<cufftdx::fft_direction::inverse>(z, exchange);
#pragma unroll
    for (int i = 0; i < radix; ++i) z[i] = scaled(z[i], 1.0 / length);
    if (first_point) z[0].x += load_number(p.h0, p.real.index(item));
    if (first_point && second) z[0].y += load_number(p.h0, p.imaginary.index(item));
    store_points<radix>(p.real.row(item), length, point, real);
    if (second) store_points<radix>(p.imaginary.row(item), length, point, imaginary);
  }
}

struct LineArguments {
  const Complex* denominators;  // (spectra, columns, rows)
  Complex* numerators;          // (pairs, columns, rows): b; then the kernels, or db
  Complex* gradients;           // likewise: dk; then da
  int64_t pairs_per_spectrum;
};

// The two real signals behind a line's number and the mirrored one's: twice the spectrum of each.
struct Two {
  Complex first, second;
};
__device__ Two unpack(Complex z, Complex mirror) {
  return {z + conj(mirror), times_i(conj(mirror) - z)};
}

constexpr int per_thread = 8;

// Lines k1 and 256 - k1 of a pair of channels, a thread row each. B / A; or with G the spectrum of dk dB = G / conj(A)
// and dA = - dB conj(B / A).
template <int rows, bool gradient>
__global__ void __launch_bounds__(BlockFft<rows, per_thread, 2>::threads) divide_lines(const LineArguments p) {
  using Fft = BlockFft<rows, per_thread, 2>;
  constexpr int signals = gradient ? 3 : 2, length = columns * rows;
  extern __shared__ __align__(16) char shared[];
  auto lines = reinterpret_cast<Complex(*)[2][rows]>(shared + Fft::shared_bytes);
  const int k1 = blockIdx.x, side = threadIdx.y, line = side == 0 ? k1 : (columns - k1) % columns;
  const int64_t pair = blockIdx.y, start = static_cast<int64_t>(line) * rows;
  Complex* const numerator = p.numerators + pair * length + start;
  Complex* const to_denominator = p.gradients + pair * length + start;
  const auto k2 = [](int i) { return static_cast<int>(threadIdx.x + i * Fft::stride); };
  const auto mirrored = [&](int k) { return k1 == 0 ? (rows - k) % rows : rows - 1 - k; };
  Complex z[per_thread], da[per_thread];
#pragma unroll 1
  for (int signal = 0; signal < signals; ++signal) {
    const Complex* from = signal == 0   ? p.denominators + pair / p.pairs_per_spectrum * length + start
                          : signal == 1 ? numerator
                                        : to_denominator;
#pragma unroll
    for (int i = 0; i < per_thread; ++i) z[i] = from[k2(i)];
    typename Fft::Forward().execute(z, shared);
#pragma unroll
    for (int i = 0; i < per_thread; ++i) lines[signal][side][k2(i)] = z[i];
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < per_thread; ++i) {
    const int k = k2(i), mirror = mirrored(k);
    const auto signal = [&](int which) { return unpack(lines[which][side][k], lines[which][side ^ 1][mirror]); };
    const Two a = signal(0), b = signal(1);
    const Complex inverse_a = reciprocal(a.first), inverse_a2 = reciprocal(a.second);
    const Complex quotient = b.first * inverse_a, quotient2 = b.second * inverse_a2;
    z[i] = quotient + times_i(quotient2);
    if constexpr (gradient) {
      const Two g = signal(2);
      const Complex db = g.first * conj(inverse_a), db2 = g.second * conj(inverse_a2);
      z[i] = db + times_i(db2);
      da[i] = scaled(db * conj(quotient) + times_i(db2 * conj(quotient2)), -1);
    }
  }
#pragma unroll 1
  for (int result = 0; result < (gradient ? 2 : 1); ++result) {
    if (result == 1) {
#pragma unroll
      for (int i = 0; i < per_thread; ++i) z[i] = da[i];
    }
    __syncthreads();
    typename Fft::Inverse().execute(z, shared);
    twist<Fft::stride>(z, 1, line, threadIdx.x, length);
    if (side == 1 && line == k1) continue;
    Complex* to = result == 0 ? numerator : to_denominator;
#pragma unroll
    for (int i = 0; i < per_thread; ++i) to[k2(i)] = z[i];
  }
}

void run_columns(bool back, const ColumnArguments& arguments, int64_t items, cudaStream_t stream) {
  constexpr std::size_t shared_bytes = columns * together * sizeof(Complex);
  const dim3 grid(arguments.rows / together, static_cast<unsigned>(items));
  const auto kernel = back ? transform_columns<true> : transform_columns<false>;
  allow_shared_memory("kernel", kernel, shared_bytes);
  kernel<<<grid, dim3(together, radix), shared_bytes, stream>>>(arguments);
  check("kernel", cudaGetLastError());
}

template <int rows, bool gradient>
void run_lines(const LineArguments& arguments, int64_t pairs, cudaStream_t stream) {
  using Fft = BlockFft<rows, per_thread, 2>;
  constexpr std::size_t shared_bytes = Fft::shared_bytes + (gradient ? 6 : 4) * rows * sizeof(Complex);
  allow_shared_memory("kernel", divide_lines<rows, gradient>, shared_bytes);
  const dim3 grid(columns / 2 + 1, static_cast<unsigned>(pairs));
  divide_lines<rows, gradient><<<grid, dim3(Fft::stride, 2), shared_bytes, stream>>>(arguments);
  check("kernel", cudaGetLastError());
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

int64_t ceil_div(int64_t x, int64_t y) { return (x + y - 1) / y; }

// Some groups with all of their channels, or one group with some of them.
struct Tile {
  int64_t group, groups, begin, per_group;

  int64_t channels() const { return groups * per_group; }
  int64_t pairs() const { return ceil_div(channels(), 2); }
  // A denominator serves its whole group, unless pairs cross the border between groups.
  bool shared_denominators() const { return groups == 1 || per_group % 2 == 0; }
  int64_t spectra() const { return shared_denominators() ? groups : pairs(); }
};

class Tiles {
 public:
  Tiles(const KernelSizes& sizes, bool gradient) : sizes_(sizes), signals_(gradient ? 2 : 1) {
    const int64_t each = sizes.channels_per_group();
    const int64_t fit = std::max<int64_t>(tile_bytes / (sizes.length * sizeof(Complex)), 4);  // rows of scratch
    const int64_t twice_rows = each % 2 == 0 ? 2 + signals_ * each : (1 + signals_) * each;    // of a group
    groups_ = std::clamp<int64_t>(2 * fit / twice_rows, 1, sizes.groups);
    if (groups_ > 1 && groups_ < sizes.groups) groups_ -= groups_ % 2;
    per_group_ = groups_ > 1 ? each : std::min(each, (fit - 1) / signals_ * 2);
  }

  Tile largest() const { return {0, groups_, 0, per_group_}; }
  int64_t scratch_rows() const { return largest().spectra() + signals_ * largest().pairs(); }

  template <class Body>
  void for_each(Body body) const {
    const int64_t each = sizes_.channels_per_group();
    for (int64_t group = 0; group < sizes_.groups; group += groups_)
      for (int64_t begin = 0; begin < each; begin += per_group_)
        body(Tile{group, std::min(groups_, sizes_.groups - group), begin, std::min(per_group_, each - begin)});
  }

 private:
  KernelSizes sizes_;
  int64_t signals_, groups_, per_group_;
};

// Rows of a tile's pairs of channels: the real and the imaginary ones.
struct PairRows {
  Rows real, imaginary;
};

PairRows channel_rows(Numbers numbers, int64_t first, int64_t channels, int64_t count, int offset) {
  const Rows real{numbers, first, 2, 1, first + channels - 1, false, static_cast<int>(count), offset, 0};
  Rows imaginary = real;
  ++imaginary.first;
  return {real, imaginary};
}

// A second channel that is missing divides 0 by the last denominator.
PairRows denominator_rows(const KernelSizes& sizes, Numbers a, const Tile& tile) {
  Rows real{a, tile.group, 1, 1, tile.group + tile.groups - 1, true, static_cast<int>(sizes.order), 1, 1};
  if (tile.shared_denominators()) return {real, real};
  real.first *= tile.per_group;
  real.step = 2;
  real.divisor = tile.per_group;
  real.last = real.first + tile.channels() - 1;
  Rows imaginary = real;
  ++imaginary.first;
  return {real, imaginary};
}

struct Scratch {
  Complex *denominators, *numerators, *gradients;

  Scratch(const KernelSizes& sizes, const Tiles& tiles, void* workspace)
      : denominators(static_cast<Complex*>(workspace)),
        numerators(denominators + tiles.largest().spectra() * sizes.length),
        gradients(numerators + tiles.largest().pairs() * sizes.length) {}
};

std::size_t scratch_bytes(const KernelSizes& sizes, const Tiles& tiles) {
  return tiles.scratch_rows() * sizes.length * sizeof(Complex);
}

}  // namespace

std::size_t long_workspace(const KernelSizes& sizes) { return scratch_bytes(sizes, Tiles(sizes, false)); }

std::size_t long_vjp_workspace(const KernelSizes& sizes) {
  const Tiles tiles(sizes, true);
  const int64_t terms = sizes.channels_per_group() == 1 ? 0 : tiles.largest().channels() + 1;
  return scratch_bytes(sizes, tiles) + terms * sizes.order * sizeof(double);
}

void long_kernel(const KernelSizes& sizes, Numbers a, Numbers b, Numbers h0, Numbers kernel, void* workspace,
                 cudaStream_t stream) {
  const Tiles tiles(sizes, false);
  const Scratch scratch(sizes, tiles, workspace);
  const auto rows = static_cast<int>(sizes.length / columns);
  tiles.for_each([&](const Tile& tile) {
    const int64_t first = tile.group * sizes.channels_per_group() + tile.begin, pairs = tile.pairs();
    const auto [a_real, a_imaginary] = denominator_rows(sizes, a, tile);
    run_columns(false, {scratch.denominators, rows, a_real, a_imaginary, {}}, tile.spectra(), stream);
    const auto [b_real, b_imaginary] = channel_rows(b, first, tile.channels(), sizes.order, 1);
    run_columns(false, {scratch.numerators, rows, b_real, b_imaginary, {}}, pairs, stream);
    run_lines<false>(rows, {scratch.denominators, scratch.numerators, nullptr, ceil_div(pairs, tile.spectra())}, pairs,
                     stream);
    const auto [k_real, k_imaginary] = channel_rows(kernel, first, tile.channels(), sizes.length, 0);
    run_columns(true, {scratch.numerators, rows, k_real, k_imaginary, h0}, pairs, stream);
  });
}

void long_kernel_vjp(const KernelSizes& sizes, Numbers dk, Numbers a, Numbers b, Numbers da, Numbers db, Numbers dh0,
                     void* workspace, cudaStream_t stream) {
  const Tiles tiles(sizes, true);
  const Scratch scratch(sizes, tiles, workspace);
  const auto rows = static_cast<int>(sizes.length / columns);
  const int64_t order = sizes.order, each = sizes.channels_per_group();
  auto* terms = reinterpret_cast<double*>(scratch.gradients + tiles.largest().pairs() * sizes.length);
  double* sum_so_far = terms + tiles.largest().channels() * order;
  tiles.for_each([&](const Tile& tile) {
    const int64_t first = tile.group * each + tile.begin, pairs = tile.pairs(), channels = tile.channels();
    const auto there = [&](Complex* to, const PairRows& from, Numbers h0, int64_t items) {
      run_columns(false, {to, rows, from.real, from.imaginary, h0}, items, stream);
    };
    const auto back = [&](Complex* from, const PairRows& to) {
      run_columns(true, {from, rows, to.real, to.imaginary, {}}, pairs, stream);
    };
    there(scratch.denominators, denominator_rows(sizes, a, tile), {}, tile.spectra());
    there(scratch.numerators, channel_rows(b, first, channels, order, 1), {}, pairs);
    there(scratch.gradients, channel_rows(dk, first, channels, sizes.length, 0), dh0, pairs);
    run_lines<true>(rows,
                    {scratch.denominators, scratch.numerators, scratch.gradients, ceil_div(pairs, tile.spectra())},
                    pairs, stream);
    back(scratch.numerators, channel_rows(db, first, channels, order, 1));
    if (each == 1) return back(scratch.gradients, channel_rows(da, first, channels, order, 1));
    back(scratch.gradients, channel_rows({terms, NumberType::float64}, 0, channels, order, 1));
    const bool last = tile.begin + tile.per_group == each;
    Numbers sums{sum_so_far, NumberType::float64};
    if (last) sums = {static_cast<char*>(da.data) + tile.group * order * bytes_of(da.type), da.type};
    sum_denominators({terms, tile.begin == 0 ? nullptr : sum_so_far, sums, tile.groups, tile.per_group, order}, stream);
  });
}

}  // namespace rtf::cuda
