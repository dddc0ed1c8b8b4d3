// Rows longer than a block holds, length = columns x rows points: point n = n1 * rows + n2, frequency k = k1 + columns *
// k2. Transforms over n1 ("columns", neighbouring n2 in a block), a twist by exp(-2 pi i k1 n2 / length), transforms over
// n2 ("lines" k1) where the quotient is taken, and the same way back. Two real signals travel as one complex one, so a
// line meets its mirror image, line columns - k1, in one block. A tile of channels at a time: its scratch stays in the
// cache, and memory does not grow with the channels.
#include "cuda/wrapped_kernel_long.h"

#include <algorithm>

#include "cuda/denominator_sum.h"
#include "cuda/device.h"
#include "cuda/double_fft.h"
#include "cuda/number_rows.h"

namespace rtf::cuda {
namespace {

constexpr std::size_t tile_bytes = 32 << 20;
constexpr int per_thread = 8;

// The rows that belong to the items of a tile: (first + item * step) / divisor, and none past `rows`.
struct Rows {
  Numbers numbers;
  int64_t first = 0, step = 1, divisor = 1, rows = 0, count = 0;
  int offset = 0;
  double leading = 0;

  __device__ int64_t index(int64_t item) const { return (first + item * step) / divisor; }
  __device__ bool has(int64_t item) const { return index(item) < rows; }
  __device__ NumberRow row(int64_t item) const { return {numbers, index(item) * count, count, offset, leading}; }
};

// points[i] *= exp(sign 2 pi i line (x + i stride) / length)
template <int stride>
__device__ void twist(Complex (&points)[per_thread], int sign, int64_t line, int64_t x, int64_t length) {
  Complex root = root_of_unity(static_cast<double>(sign * line * x), static_cast<double>(length));
  const Complex step = root_of_unity(static_cast<double>(sign * line * stride), static_cast<double>(length));
#pragma unroll
  for (int i = 0; i < per_thread; ++i) {
    points[i] = points[i] * root;
    root = root * step;
  }
}

struct ColumnArguments {
  Complex* scratch;     // (items, columns, rows)
  int64_t item_stride;  // of scratch
  int rows;
  Rows real, imaginary;
  Numbers h0;  // a number a channel: added to point 0 on the way back, taken from the imaginary rows' on the way there
};

template <int columns>
struct ColumnFft : BlockFft<columns, per_thread, columns == 128 ? 16 : 8> {
  static constexpr int together = columns == 128 ? 16 : 8;
};

template <int columns>
__global__ void __launch_bounds__(ColumnFft<columns>::threads) transform_columns(const ColumnArguments p) {
  using Fft = ColumnFft<columns>;
  extern __shared__ __align__(16) char shared[];
  const int64_t length = static_cast<int64_t>(columns) * p.rows, item = blockIdx.y;
  const int n2 = blockIdx.x * Fft::together + threadIdx.y;
  const auto point = [&](int i) { return static_cast<int64_t>(threadIdx.x + i * Fft::stride) * p.rows + n2; };
  double real[per_thread], imaginary[per_thread] = {};
  load_points(p.real.row(item), length, point, real);
  if (p.imaginary.has(item)) load_points(p.imaginary.row(item), length, point, imaginary);
  if (p.h0.data && n2 == 0 && threadIdx.x == 0) store_number(p.h0, p.imaginary.index(item), imaginary[0]);
  Complex z[per_thread];
#pragma unroll
  for (int i = 0; i < per_thread; ++i) z[i] = Complex(real[i], imaginary[i]);
  typename Fft::Forward().execute(z, shared);
  twist<Fft::stride>(z, -1, n2, threadIdx.x, length);
  Complex* out = p.scratch + item * p.item_stride;
#pragma unroll
  for (int i = 0; i < per_thread; ++i) out[point(i)] = z[i];
}

template <int columns>
__global__ void __launch_bounds__(ColumnFft<columns>::threads) transform_columns_back(const ColumnArguments p) {
  using Fft = ColumnFft<columns>;
  extern __shared__ __align__(16) char shared[];
  const int64_t length = static_cast<int64_t>(columns) * p.rows, item = blockIdx.y;
  const int n2 = blockIdx.x * Fft::together + threadIdx.y;
  const auto point = [&](int i) { return static_cast<int64_t>(threadIdx.x + i * Fft::stride) * p.rows + n2; };
  const Complex* in = p.scratch + item * p.item_stride;
  Complex z[per_thread];
#pragma unroll
  for (int i = 0; i < per_thread; ++i) z[i] = in[point(i)];
  typename Fft::Inverse().execute(z, shared);
  double real[per_thread], imaginary[per_thread];
  const double scale = 1.0 / static_cast<double>(length);
#pragma unroll
  for (int i = 0; i < per_thread; ++i) {
    real[i] = z[i].x * scale;
    imaginary[i] = z[i].y * scale;
  }
  const bool second = p.imaginary.has(item);
  if (p.h0.data && n2 == 0 && threadIdx.x == 0) {
    real[0] += load_number(p.h0, p.real.index(item));
    if (second) imaginary[0] += load_number(p.h0, p.imaginary.index(item));
  }
  store_points(p.real.row(item), length, point, real);
  if (second) store_points(p.imaginary.row(item), length, point, imaginary);
}

struct LineArguments {
  Complex* scratch;       // (channels of the tile, columns, rows)
  const Complex* spectra;  // of the gradient: (denominators of the tile, columns, rows)
  int64_t channels_per_spectrum;
  int64_t channels;
  int columns;
};

// Lines k1 and columns - k1 side by side, thread row y = 0 and 1 (of each channel in a block): where the mirror image of
// number k2 lies in the other line.
template <int rows>
__device__ int mirrored(int k1, int k2) {
  return k1 == 0 ? (rows - k2) % rows : rows - 1 - k2;
}

// Two channels a block, each z = a + i b: the lines of B / A of the first plus i times those of the second, left in the
// first channel's scratch.
template <int rows>
__global__ void __launch_bounds__(BlockFft<rows, per_thread, 4>::threads) divide_lines(const LineArguments p) {
  using Fft = BlockFft<rows, per_thread, 4>;
  extern __shared__ __align__(16) char shared[];
  Complex(*lines)[rows] = reinterpret_cast<Complex(*)[rows]>(shared + Fft::shared_bytes);
  const int k1 = blockIdx.x, side = threadIdx.y % 2, second = threadIdx.y / 2;
  const int line = side == 0 ? k1 : (p.columns - k1) % p.columns;
  const int64_t length = static_cast<int64_t>(p.columns) * rows, channel = 2 * static_cast<int64_t>(blockIdx.y) + second;
  const bool exists = channel < p.channels;
  const auto k2 = [](int i) { return static_cast<int>(threadIdx.x + i * Fft::stride); };
  Complex* own = p.scratch + channel * length + static_cast<int64_t>(line) * rows;
  Complex z[per_thread];
#pragma unroll
  for (int i = 0; i < per_thread; ++i) z[i] = exists ? own[k2(i)] : Complex(0, 0);
  typename Fft::Forward().execute(z, shared);
#pragma unroll
  for (int i = 0; i < per_thread; ++i) lines[threadIdx.y][k2(i)] = z[i];
  __syncthreads();
  // Z = A + i B and conj(mirror of Z) = A - i B
#pragma unroll
  for (int i = 0; i < per_thread; ++i) {
    const Complex mirror = conj(lines[threadIdx.y ^ 1][mirrored<rows>(k1, k2(i))]);
    z[i] = times_i(mirror - z[i]) * reciprocal(mirror + z[i]);
  }
  __syncthreads();
  if (second) {
#pragma unroll
    for (int i = 0; i < per_thread; ++i) lines[threadIdx.y][k2(i)] = exists ? z[i] : Complex(0, 0);
  }
  __syncthreads();
  if (!second) {
#pragma unroll
    for (int i = 0; i < per_thread; ++i) z[i] = z[i] + times_i(lines[threadIdx.y + 2][k2(i)]);
  }
  typename Fft::Inverse().execute(z, shared);
  twist<Fft::stride>(z, 1, line, threadIdx.x, length);
  if (second || (side == 1 && line == k1)) return;
#pragma unroll
  for (int i = 0; i < per_thread; ++i) own[k2(i)] = z[i];
}

// z = b + i dk: the lines of dB + i dA with dB = G / conj(A), dA = - dB conj(B) / conj(A).
template <int rows>
__global__ void __launch_bounds__(BlockFft<rows, per_thread, 2>::threads) divide_lines_vjp(const LineArguments p) {
  using Fft = BlockFft<rows, per_thread, 2>;
  extern __shared__ __align__(16) char shared[];
  Complex(*lines)[rows] = reinterpret_cast<Complex(*)[rows]>(shared + Fft::shared_bytes);
  const int k1 = blockIdx.x, side = threadIdx.y;
  const int line = side == 0 ? k1 : (p.columns - k1) % p.columns;
  const int64_t length = static_cast<int64_t>(p.columns) * rows, channel = blockIdx.y;
  const auto k2 = [](int i) { return static_cast<int>(threadIdx.x + i * Fft::stride); };
  const int64_t start = static_cast<int64_t>(line) * rows;
  Complex* own = p.scratch + channel * length + start;
  const Complex* spectrum = p.spectra + channel / p.channels_per_spectrum * length + start;
  Complex z[per_thread], a[per_thread];
#pragma unroll 1
  for (int which = 0; which < 2; ++which) {
#pragma unroll
    for (int i = 0; i < per_thread; ++i) z[i] = (which == 0 ? spectrum : own)[k2(i)];
    typename Fft::Forward().execute(z, shared);
    __syncthreads();
    if (which == 1) break;
#pragma unroll
    for (int i = 0; i < per_thread; ++i) a[i] = z[i];
  }
#pragma unroll
  for (int i = 0; i < per_thread; ++i) lines[side][k2(i)] = z[i];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < per_thread; ++i) {
    const Complex mirror = conj(lines[side ^ 1][mirrored<rows>(k1, k2(i))]);
    const Complex inverse = conj(reciprocal(a[i]));
    const Complex db = scaled(times_i(mirror - z[i]), 0.5) * inverse;
    const Complex da = scaled(db * conj(mirror + z[i]), -0.5) * inverse;
    z[i] = db + times_i(da);
  }
  __syncthreads();
  typename Fft::Inverse().execute(z, shared);
  twist<Fft::stride>(z, 1, line, threadIdx.x, length);
  if (side == 1 && line == k1) return;
#pragma unroll
  for (int i = 0; i < per_thread; ++i) own[k2(i)] = z[i];
}

// length = columns * rows with columns <= rows.
struct Factors {
  int columns, rows;
};

Factors factors_of(int64_t length) {
  if (length == 1 << 15) return {128, 256};
  if (length == 1 << 16) return {256, 256};
  if (length == 1 << 17) return {256, 512};
  return {512, 512};
}

template <int columns>
void run_columns(const ColumnArguments& arguments, int64_t items, bool back, cudaStream_t stream) {
  using Fft = ColumnFft<columns>;
  const dim3 grid(static_cast<unsigned>(arguments.rows / Fft::together), static_cast<unsigned>(items));
  const dim3 block(Fft::stride, Fft::together);
  const auto kernel = back ? transform_columns_back<columns> : transform_columns<columns>;
  allow_shared_memory("kernel", kernel, Fft::shared_bytes);
  kernel<<<grid, block, Fft::shared_bytes, stream>>>(arguments);
  check("kernel", cudaGetLastError());
}

void run_columns(int columns, const ColumnArguments& arguments, int64_t items, bool back, cudaStream_t stream) {
  if (columns == 128) return run_columns<128>(arguments, items, back, stream);
  if (columns == 256) return run_columns<256>(arguments, items, back, stream);
  return run_columns<512>(arguments, items, back, stream);
}

template <int rows, int together>
void run_lines(void (*kernel)(const LineArguments), const LineArguments& arguments, int64_t items, cudaStream_t stream) {
  using Fft = BlockFft<rows, per_thread, together>;
  constexpr std::size_t shared_bytes = Fft::shared_bytes + together * rows * sizeof(Complex);
  allow_shared_memory("kernel", kernel, shared_bytes);
  const dim3 grid(static_cast<unsigned>(arguments.columns / 2 + 1), static_cast<unsigned>(items));
  kernel<<<grid, dim3(Fft::stride, together), shared_bytes, stream>>>(arguments);
  check("kernel", cudaGetLastError());
}

int64_t ceil_div(int64_t x, int64_t y) { return (x + y - 1) / y; }

std::size_t row_bytes(const KernelSizes& sizes) { return sizes.length * sizeof(Complex); }

// Channels of a tile, an even number of them.
int64_t kernel_tile(const KernelSizes& sizes) {
  const auto fit = static_cast<int64_t>(tile_bytes / row_bytes(sizes));
  return std::min(std::max<int64_t>(fit / 2 * 2, 2), ceil_div(sizes.channels, 2) * 2);
}

// Tiles of the gradient: whole groups, or a part of one.
struct GradientTiles {
  int64_t groups, channels;

  explicit GradientTiles(const KernelSizes& sizes) {
    const int64_t each = sizes.channels_per_group();
    const auto fit = std::max<int64_t>(static_cast<int64_t>(tile_bytes / row_bytes(sizes)), 2);
    channels = std::min(each, fit - 1);
    groups = channels < each ? 1 : std::clamp<int64_t>(fit / (each + 1), 1, sizes.groups);
  }
};

}  // namespace

std::size_t long_workspace(const KernelSizes& sizes) { return kernel_tile(sizes) * row_bytes(sizes); }

std::size_t long_vjp_workspace(const KernelSizes& sizes) {
  const GradientTiles tiles(sizes);
  const int64_t terms = sizes.channels_per_group() == 1 ? 0 : tiles.groups * tiles.channels + 1;
  return tiles.groups * (tiles.channels + 1) * row_bytes(sizes) + terms * sizes.order * sizeof(double);
}

void long_kernel(const KernelSizes& sizes, Numbers a, Numbers b, Numbers h0, Numbers kernel, void* workspace,
                 cudaStream_t stream) {
  const Factors factors = factors_of(sizes.length);
  const int64_t tile = kernel_tile(sizes), each = sizes.channels_per_group(), order = sizes.order;
  auto* scratch = static_cast<Complex*>(workspace);
  for (int64_t first = 0; first < sizes.channels; first += tile) {
    const int64_t channels = std::min(tile, sizes.channels - first), pairs = ceil_div(channels, 2);
    run_columns(factors.columns,
                {scratch, sizes.length, factors.rows, {a, first, 1, each, sizes.groups, order, 1, 1},
                 {b, first, 1, 1, sizes.channels, order, 1, 0}, {}},
                channels, false, stream);
    const LineArguments lines{scratch, nullptr, 1, channels, factors.columns};
    if (factors.rows == 256)
      run_lines<256, 4>(divide_lines<256>, lines, pairs, stream);
    else
      run_lines<512, 4>(divide_lines<512>, lines, pairs, stream);
    run_columns(factors.columns,
                {scratch, 2 * sizes.length, factors.rows, {kernel, first, 2, 1, sizes.channels, sizes.length, 0, 0},
                 {kernel, first + 1, 2, 1, sizes.channels, sizes.length, 0, 0}, h0},
                pairs, true, stream);
  }
}

void long_kernel_vjp(const KernelSizes& sizes, Numbers dk, Numbers a, Numbers b, Numbers da, Numbers db, Numbers dh0,
                     void* workspace, cudaStream_t stream) {
  const Factors factors = factors_of(sizes.length);
  const GradientTiles tiles(sizes);
  const int64_t each = sizes.channels_per_group(), order = sizes.order, length = sizes.length;
  auto* scratch = static_cast<Complex*>(workspace);
  Complex* spectra = scratch + tiles.groups * tiles.channels * length;
  auto* terms = reinterpret_cast<double*>(spectra + tiles.groups * length);
  double* sum_so_far = terms + tiles.groups * tiles.channels * order;
  for (int64_t group = 0; group < sizes.groups; group += tiles.groups) {
    const int64_t groups = std::min(tiles.groups, sizes.groups - group);
    run_columns(factors.columns,
                {spectra, length, factors.rows, {a, group, 1, 1, sizes.groups, order, 1, 1}, {}, {}}, groups, false,
                stream);
    for (int64_t begin = 0; begin < each; begin += tiles.channels) {
      const int64_t per_group = std::min(tiles.channels, each - begin), channels = groups * per_group;
      const int64_t first = group * each + begin;
      run_columns(factors.columns,
                  {scratch, length, factors.rows, {b, first, 1, 1, sizes.channels, order, 1, 0},
                   {dk, first, 1, 1, sizes.channels, length, 0, 0}, dh0},
                  channels, false, stream);
      const LineArguments lines{scratch, spectra, per_group, channels, factors.columns};
      if (factors.rows == 256)
        run_lines<256, 2>(divide_lines_vjp<256>, lines, channels, stream);
      else
        run_lines<512, 2>(divide_lines_vjp<512>, lines, channels, stream);
      const Rows to_a = each == 1 ? Rows{da, first, 1, 1, sizes.groups, order, 1, 0}
                                  : Rows{{terms, NumberType::float64}, 0, 1, 1, channels, order, 1, 0};
      run_columns(factors.columns,
                  {scratch, length, factors.rows, {db, first, 1, 1, sizes.channels, order, 1, 0}, to_a, {}}, channels,
                  true, stream);
      if (each == 1) continue;
      const bool last = begin + per_group == each;
      Numbers sums{sum_so_far, NumberType::float64};
      if (last) sums = {static_cast<char*>(da.data) + group * order * bytes_of(da.type), da.type};
      sum_denominators({terms, begin == 0 ? nullptr : sum_so_far, sums, groups, per_group, order}, stream);
    }
  }
}

}  // namespace rtf::cuda
