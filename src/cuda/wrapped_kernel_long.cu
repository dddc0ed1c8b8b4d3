// Rows longer than a block holds, length = 256 x rows points: point n = n1 * rows + n2, frequency k = k1 + 256 k2.
// Transforms over n1 ("columns", neighbouring n2 in a block), a twist by exp(-2 pi i k1 n2 / length), transforms over
// n2 ("lines" k1) where the quotient is taken, and the same way back. Signals are real: of a line k1 and its mirror
// image 256 - k1 one is enough. No two signals meet before a quotient is taken. A tile of channels at a time: memory
// does not grow with the channels.
#include "cuda/column_transforms.h"
#include "cuda/denominator_sum.h"
#include "cuda/kernel_tiles.h"
#include "cuda/launch.h"
#include "cuda/row_transforms.h"
#include "cuda/wrapped_kernel_long.h"

namespace rtf::cuda {
namespace {

using namespace two_level;

struct LineArguments {
  const double2* denominators;  // (groups, lines, rows)
  double2* numerators;          // (channels, lines, rows): b; then the kernels, or db
  double2* gradients;           // likewise: dk; then da
  int64_t groups, channels_per_group;
  int64_t channels_per_run = 0, runs_per_group = 0;

  __host__ __device__ int64_t runs() const { return groups * runs_per_group; }
};

template <int rows, class C = double2>
using LineFft = RowFft<C, rows, 2>;
template <int rows>
constexpr std::size_t line_bytes = LineFft<rows>::exchange_bytes + LineFft<rows>::table_bytes +
                                   2 * rows * sizeof(double2);
constexpr int resident_threads = 512;  // of a multiprocessor: as their registers allow

// One line of two runs of channels, a thread row each; those of a run share a denominator. B / A; or with G the
// spectrum of dk dB = G / conj(A) and dA = - dB conj(B / A), over the length. The way back is in numbers of type T:
// what is float32 in the end may be so once its quotient is taken, each channel by itself.
template <int rows, bool gradient, class T>
__global__ void __launch_bounds__(LineFft<rows>::threads, resident_threads / LineFft<rows>::threads)
    divide_lines(const LineArguments p) {
  using Fft = LineFft<rows>;
  constexpr int each = 8, length = columns * rows, signals = gradient ? 2 : 1;
  extern __shared__ __align__(16) double2 shared[];
  double2* const table = shared + Fft::exchange_bytes / sizeof(double2);
  // 1 / A, each thread's own: registers are short.
  double2* const inverse_a = table + Fft::table_bytes / sizeof(double2) + threadIdx.y * Fft::stride + threadIdx.x;
  const int line = blockIdx.x;
  const int64_t run = min(2 * static_cast<int64_t>(blockIdx.y) + threadIdx.y, p.runs() - 1);  // the last one twice
  const int64_t group = run / p.runs_per_group, begin = run % p.runs_per_group * p.channels_per_run;
  const int64_t count = min(p.channels_per_run, p.channels_per_group - begin);
  const auto k2 = [](int i) { return static_cast<int>(threadIdx.x) + i * Fft::stride; };

  Fft::fill(table);
  double2 quotient[each];  // B / A; with gradients kept until dk comes, then -dA
  // The denominator, then of each channel b, and dk. All threads take part in every transform, whatever their run has.
#pragma unroll 1
  for (int signal = 0; signal < 1 + signals * static_cast<int>(p.channels_per_run); ++signal) {
    const int index = (signal - 1) / signals;
    const bool is_denominator = signal == 0, is_numerator = !gradient || signal % 2 == 1;
    const int64_t channel = group * p.channels_per_group + begin + min(static_cast<int64_t>(index), count - 1);
    double2* const numerator = p.numerators + (channel * lines + line) * rows;
    double2* const to_denominator = p.gradients + (channel * lines + line) * rows;
    const double2* from = is_denominator ? p.denominators + (group * lines + line) * rows
                          : is_numerator ? numerator
                                         : to_denominator;
    double2 z[each];
#pragma unroll
    for (int i = 0; i < each; ++i) z[i] = from[k2(i)];
    Fft::template execute<forward>(z, shared, table);
#pragma unroll
    for (int i = 0; i < each; ++i) {
      double2& inverse = inverse_a[i * Fft::threads];
      if (is_denominator) {
        inverse = reciprocal(z[i]);
      } else if (is_numerator) {
        quotient[i] = z[i] * inverse;
      } else {
        z[i] = z[i] * conj(inverse);
        quotient[i] = z[i] * conj(quotient[i]);
      }
    }
    if (is_denominator || (gradient && is_numerator)) continue;
    const bool exists = index < count && run == 2 * static_cast<int64_t>(blockIdx.y) + threadIdx.y;
    const Twist twist = Twist::load<inverse>(line, threadIdx.x, Fft::stride, length);
    // Scaled before it is rounded: a quotient is up to `length` times as large as what becomes of it.
    const auto put_back = [&](double2(&points)[each], double2* to, double scale) {
      T y[each];
#pragma unroll
      for (int i = 0; i < each; ++i) y[i] = round_to<T>(scale * points[i]);
      LineFft<rows, T>::template execute<inverse>(y, shared, table);
      twist.apply(y);
      if (!exists) return;
#pragma unroll
      for (int i = 0; i < each; ++i) reinterpret_cast<T*>(to)[k2(i)] = y[i];
    };
    if (gradient) put_back(z, numerator, 1.0 / length);
    put_back(quotient, gradient ? to_denominator : numerator, (gradient ? -1.0 : 1.0) / length);
  }
}

// Channels with one denominator share its transform in a run: as many as take the least time when the blocks go in
// waves over the multiprocessors.
int64_t channels_in_run(int64_t groups, int64_t channels_per_group, int64_t resident, int64_t transforms_per_channel) {
  int64_t best = 1, least = 0;
  for (int64_t each = 1; each <= std::min<int64_t>(channels_per_group, 8); each *= 2) {
    const int64_t blocks = lines * ceil_div(groups * ceil_div(channels_per_group, each), 2);
    const int64_t time = ceil_div(blocks, resident) * (1 + transforms_per_channel * each);
    if (each == 1 || time < least) best = each, least = time;
  }
  return best;
}

template <bool gradient, class T>
void run_lines(int rows, LineArguments arguments, cudaStream_t stream) {
  with_rows(rows, [&](auto size) {
    using Fft = LineFft<size>;
    const int64_t resident = multiprocessors * std::max(1, resident_threads / Fft::threads);
    const int64_t each = channels_in_run(arguments.groups, arguments.channels_per_group, resident, gradient ? 4 : 2);
    arguments.channels_per_run = each;
    arguments.runs_per_group = ceil_div(arguments.channels_per_group, each);
    const dim3 grid(lines, static_cast<unsigned>(ceil_div(arguments.runs(), 2)));
    launch(gradient ? "kernel_backward" : "kernel", divide_lines<size, gradient, T>, grid, dim3(Fft::stride, 2),
           line_bytes<size>, stream, arguments);
  });
}

Signals coefficient_rows(Numbers numbers, int64_t first, int64_t size, int64_t order, double leading) {
  return {numbers, first, first + size, static_cast<int>(order), 1, leading};
}

Signals sample_rows(Numbers numbers, int64_t first, int64_t size, int64_t length) {
  return {numbers, first, first + size, static_cast<int>(length), 0, 0};
}

std::size_t signal_bytes(const KernelSizes& sizes) { return lines * (sizes.length / columns) * sizeof(double2); }

struct Scratch {
  double2 *denominators, *numerators, *gradients;
  void* end;

  Scratch(const KernelSizes& sizes, const KernelTiles& tiles, bool gradient, void* workspace) {
    const int64_t signal = lines * (sizes.length / columns), channels = tiles.largest().channels();
    denominators = static_cast<double2*>(workspace);
    numerators = denominators + tiles.largest().groups * signal;
    gradients = numerators + channels * signal;
    end = gradient ? gradients + channels * signal : gradients;
  }
};

}  // namespace

std::size_t long_workspace(const KernelSizes& sizes) {
  return KernelTiles(sizes, false, signal_bytes(sizes)).signals() * signal_bytes(sizes);
}

std::size_t long_vjp_workspace(const KernelSizes& sizes) {
  const KernelTiles tiles(sizes, true, signal_bytes(sizes));
  const int64_t terms = sizes.channels_per_group() == 1 ? 0 : tiles.largest().channels() + 1;
  return tiles.signals() * signal_bytes(sizes) + terms * sizes.order * sizeof(double);
}

void long_kernel(const KernelSizes& sizes, Numbers a, Numbers b, Numbers h0, Numbers kernel, void* workspace,
                 cudaStream_t stream) {
  const KernelTiles tiles(sizes, false, signal_bytes(sizes));
  const Scratch scratch(sizes, tiles, false, workspace);
  const auto rows = static_cast<int>(sizes.length / columns);
  tiles.for_each([&](const KernelTile& tile) {
    const int64_t first = tile.group * sizes.channels_per_group() + tile.begin, channels = tile.channels();
    run_columns_ahead("kernel", rows,
                      {{{scratch.denominators, coefficient_rows(a, tile.group, tile.groups, sizes.order, 1), {}},
                        {scratch.numerators, coefficient_rows(b, first, channels, sizes.order, 0), {}}}},
                      stream);
    const LineArguments arguments{scratch.denominators, scratch.numerators, nullptr, tile.groups, tile.per_group};
    const ColumnArguments back{{{scratch.numerators, sample_rows(kernel, first, channels, sizes.length), h0}}};
    const auto divide = [&]<class T>(T) {
      run_lines<false, T>(rows, arguments, stream);
      run_columns_back<T>("kernel", rows, back, stream);
    };
    kernel.type == Type::float32 ? divide(float2()) : divide(double2());
  });
}

void long_kernel_vjp(const KernelSizes& sizes, Numbers dk, Numbers a, Numbers b, Numbers da, Numbers db, Numbers dh0,
                     void* workspace, cudaStream_t stream) {
  const KernelTiles tiles(sizes, true, signal_bytes(sizes));
  const Scratch scratch(sizes, tiles, true, workspace);
  const auto rows = static_cast<int>(sizes.length / columns);
  const int64_t order = sizes.order, each = sizes.channels_per_group();
  auto* terms = static_cast<double*>(scratch.end);
  double* sum_so_far = terms + tiles.largest().channels() * order;
  tiles.for_each([&](const KernelTile& tile) {
    const int64_t first = tile.group * each + tile.begin, channels = tile.channels();
    run_columns_ahead("kernel_backward", rows,
                      {{{scratch.denominators, coefficient_rows(a, tile.group, tile.groups, order, 1), {}},
                        {scratch.numerators, coefficient_rows(b, first, channels, order, 0), {}},
                        {scratch.gradients, sample_rows(dk, first, channels, sizes.length), dh0}}},
                      stream);
    run_lines<true, double2>(
        rows, {scratch.denominators, scratch.numerators, scratch.gradients, tile.groups, tile.per_group}, stream);
    const Signals to_a = each == 1 ? coefficient_rows(da, first, channels, order, 0)
                                   : coefficient_rows({terms, Type::float64}, 0, channels, order, 0);
    run_columns_back<double2>(
        "kernel_backward", rows,
        {{{scratch.numerators, coefficient_rows(db, first, channels, order, 0), {}}, {scratch.gradients, to_a, {}}}},
        stream);
    if (each == 1) return;
    const bool last = tile.begin + tile.per_group == each;
    Numbers sums{sum_so_far, Type::float64};
    if (last) sums = {static_cast<char*>(da.data) + tile.group * order * size_of(da.type), da.type};
    sum_denominators("kernel_backward",
                     {terms, tile.begin == 0 ? nullptr : sum_so_far, sums, tile.groups, tile.per_group, order}, stream);
  });
}

}  // namespace rtf::cuda
