// The first and the last level of a long transform: real signals in device memory to and from columns of their spectra.
#pragma once

#include <type_traits>

#include "cuda/launch.h"
#include "cuda/number_rows.h"
#include "cuda/row_transforms.h"

namespace rtf::cuda::two_level {

constexpr int columns = 256, radix = 16;
constexpr int lines = columns / 2 + 1;  // of a real signal: the others are conjugates of these
constexpr int together = 8;             // pairs of columns in a block: several blocks a multiprocessor
constexpr int column_threads = radix * together;

// Rows first, first + 1, ... of `numbers`, each a real signal.
struct Signals {
  Numbers numbers;
  int64_t first = 0, end = 0;
  int count = 0, offset = 0;  // numbers of a row, and the point that the first of them is
  double leading = 0;         // points before it

  __host__ __device__ int64_t size() const { return end - first; }
};

// Signals and their scratch, (signals, lines, rows).
struct Columns {
  double2* scratch = nullptr;
  Signals signals;
  Numbers h0;  // on the way ahead dh0, which is point 0; on the way back h0, which is added to it
};

struct ColumnArguments {
  Columns parts[3];  // one after the other along the grid
};

// 256 points by 16 x 16 in registers: thread (c, j) holds the points j + 16 i of column c before and after, so that
// neighbouring threads always hold neighbouring columns.
template <int sign>
__device__ void transform_column(double2 (&z)[radix], double2 root, double2 (*exchange)[together]) {
  const int c = threadIdx.x, j = threadIdx.y;
  fft<radix, sign>(z);
  multiply_by_powers<radix - 1>(z + 1, root, root);
  unroll<radix>([&](auto i) { exchange[i * radix + j][c] = z[i]; });
  __syncthreads();
  unroll<radix>([&](auto i) { z[i] = exchange[j * radix + i][c]; });
  fft<radix, sign>(z);
}

// z[i] = the points first + i * stride and `together` further of a signal; all loads start before the first one ends.
// (Branches around them are faster than predicates: what lies past the end of a row is not even issued.)
template <int length>
__device__ void load_columns(const Signals& signals, int64_t index, int first, double2 (&z)[radix]) {
  constexpr int stride = length / radix;
  with_pointer(signals.numbers, [&](const auto* data) {
    data += index * signals.count;
    const int begin = first - signals.offset;
    using T = std::remove_cvref_t<decltype(*data)>;
    T u[radix], v[radix];
    const auto number = [&](int k) { return k >= 0 && k < signals.count ? load_with_neighbours(data + k) : T(0); };
#pragma unroll
    for (int i = 0; i < radix; ++i) {
      u[i] = number(begin + i * stride);
      v[i] = number(begin + i * stride + together);
    }
    unroll<radix>([&](auto i) { z[i] = {static_cast<double>(u[i]), static_cast<double>(v[i])}; });
    if (begin < 0) z[0].x = signals.leading;
    if (signals.count + signals.offset <= length) return;
#pragma unroll
    for (int i = 0; i < radix; ++i)
#pragma unroll 1
      for (int k = begin + i * stride + length; k < signals.count; k += length) {
        z[i].x += static_cast<double>(data[k]);
        if (k + together < signals.count) z[i].y += static_cast<double>(data[k + together]);
      }
  });
}

// Which signal a block works on, and where: a thread has columns n2 and n2 + together.
template <int rows>
struct ColumnPlace {
  static constexpr int length = columns * rows;
  int64_t signal;  // among those of its part
  const Columns& part;
  int64_t index;  // in `numbers`
  int n2;
  bool first_point;

  // The part that a signal of the grid belongs to; `signal` becomes its number there.
  static __device__ const Columns& part_of(const ColumnArguments& p, int64_t& signal) {
    int which = 0;
    for (; which < 2 && signal >= p.parts[which].signals.size(); ++which) signal -= p.parts[which].signals.size();
    return p.parts[which];
  }
  __device__ explicit ColumnPlace(const ColumnArguments& p) : signal(blockIdx.y), part(part_of(p, signal)) {
    index = part.signals.first + signal;
    n2 = static_cast<int>(blockIdx.x * 2 * together + threadIdx.x);
    first_point = part.h0.data && n2 == 0 && threadIdx.y == 0;
  }
  __device__ int point(int i) const { return static_cast<int>(threadIdx.y) * rows + n2 + i * radix * rows; }
  // Number n2 of a line; lines of T lie where those of double2 begin.
  template <class T>
  __device__ T* at(int line) const {
    return reinterpret_cast<T*>(part.scratch + (signal * lines + line) * rows) + n2;
  }
};

// Signals to columns of scratch. Two columns x and y of a signal go as one complex z = x + i y: with Z(256 - k) the
// mirrored number, X(k) = (Z(k) + conj Z(256 - k)) / 2 and Y(k) = (Z(k) - conj Z(256 - k)) / 2i. Columns of two signals
// must not: the rounding of a large one would drown a small one.
template <int rows>
__global__ void __launch_bounds__(column_threads, 4) columns_ahead(const ColumnArguments p) {
  extern __shared__ __align__(16) double2 shared[];
  auto* const exchange = reinterpret_cast<double2(*)[together]>(shared);
  const ColumnPlace<rows> place(p);
  const Signals& signals = place.part.signals;
  const int c = threadIdx.x, j = threadIdx.y;
  // Of few numbers a column holds one at its beginning, and that is its transform everywhere.
  const bool few = signals.count + signals.offset <= rows;
  const double2 root = double_root<forward>(j, columns);
  const Twist twist = Twist::load<forward>(place.n2, j, radix, place.length);
  const Twist further = Twist::load<forward>(place.n2 + together, j, radix, place.length);
  double2 z[radix];
  load_columns<place.length>(signals, place.index, few ? place.n2 : place.point(0), z);
  if (place.first_point) store_number(place.part.h0, place.index, z[0].x);
  if (few) {
    unroll<radix / 2>([&](auto i) { z[i + 1] = z[0]; });
  } else {
    transform_column<forward>(z, root, exchange);
    __syncthreads();
    unroll<radix / 2>([&](auto i) { exchange[(i + radix / 2) * radix + j][c] = z[i + radix / 2]; });
    __syncthreads();
  }
  double2 w = 0.5 * twist.first, v = 0.5 * further.first;
  double2* const to = place.template at<double2>(j);
  const auto put = [&](auto i, double2 twice_x, double2 twice_y) {
    to[i * radix * rows] = twice_x * w;
    to[i * radix * rows + together] = twice_y * v;
    w = w * twist.step;
    v = v * further.step;
  };
  unroll<radix / 2>([&](auto i) {
    if (few || (i == 0 && j == 0)) {
      put(i, {2 * z[i].x, 0}, {2 * z[i].y, 0});
    } else {
      const double2 mirror = conj(exchange[columns - (i * radix + j)][c]), own = z[i];
      put(i, own + mirror, times_i(mirror - own));
    }
  });
  constexpr auto half = std::integral_constant<int, radix / 2>();
  if (j == 0) put(half, {2 * z[half].x, 0}, {2 * z[half].y, 0});
}

// Columns of scratch, numbers of type T, to signals.
template <int rows, class T>
__global__ void __launch_bounds__(column_threads, 4) columns_back(const ColumnArguments p) {
  extern __shared__ __align__(16) double2 shared[];
  auto* const exchange = reinterpret_cast<double2(*)[together]>(shared);
  const ColumnPlace<rows> place(p);
  const Signals& signals = place.part.signals;
  const int c = threadIdx.x, j = threadIdx.y;
  const double2 root = double_root<inverse>(j, columns);
  double2 z[radix];
  T x[radix / 2], y[radix / 2];
  unroll<radix / 2>([&](auto i) {
    const T* const from = place.template at<T>(i * radix + j);
    x[i] = from[0];
    y[i] = from[together];
  });
  const auto widen = [](T value) { return double2{value.x, value.y}; };
  unroll<radix / 2>([&](auto i) {
    const double2 first = widen(x[i]), second = times_i(widen(y[i]));
    z[i] = first + second;
    const int line = i * radix + j;
    if (line != 0) exchange[columns - line][c] = conj(first - second);
  });
  if (j == 0) {
    const T* const from = place.template at<T>(columns / 2);
    exchange[columns / 2][c] = widen(from[0]) + times_i(widen(from[together]));
  }
  __syncthreads();
  unroll<radix / 2>([&](auto i) { z[i + radix / 2] = exchange[(i + radix / 2) * radix + j][c]; });
  __syncthreads();
  transform_column<inverse>(z, root, exchange);
  if (place.first_point) z[0].x += load_number(place.part.h0, place.index);
  const NumberRow row{signals.numbers, place.index * signals.count, signals.count, signals.offset, 0};
  const auto point = [&](int i) { return place.point(i); };
  store_points<radix>(row, place.length, point, [&](int i) { return z[i].x; });
  const NumberRow further{row.numbers, row.start, row.count, row.offset - together, 0};  // `together` points later
  store_points<radix>(further, place.length, point, [&](int i) { return z[i].y; });
}

// run(std::integral_constant<int, rows>())
template <class Run>
void with_rows(int rows, Run run) {
  with_one_of<128, 256, 512, 1024>(rows, run);
}

inline void run_columns(const char* operation, void (*kernel)(ColumnArguments), int rows,
                        const ColumnArguments& arguments, cudaStream_t stream) {
  constexpr std::size_t shared_bytes = columns * together * sizeof(double2);
  int64_t signals = 0;
  for (const Columns& part : arguments.parts) signals += part.signals.size();
  const dim3 grid(rows / (2 * together), static_cast<unsigned>(signals));
  launch(operation, kernel, grid, dim3(together, radix), shared_bytes, stream, arguments);
}

inline void run_columns_ahead(const char* operation, int rows, const ColumnArguments& arguments, cudaStream_t stream) {
  with_rows(rows, [&](auto size) { run_columns(operation, columns_ahead<size>, rows, arguments, stream); });
}

template <class T>
void run_columns_back(const char* operation, int rows, const ColumnArguments& arguments, cudaStream_t stream) {
  with_rows(rows, [&](auto size) { run_columns(operation, columns_back<size, T>, rows, arguments, stream); });
}

}  // namespace rtf::cuda::two_level
