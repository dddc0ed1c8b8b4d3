// The first and the last level of a long transform: pairs of rows in device memory to and from columns of scratch.
#pragma once

#include <type_traits>

#include "cuda/double_transforms.h"
#include "cuda/launch.h"
#include "cuda/number_rows.h"

namespace rtf::cuda {

constexpr int columns = 256, radix = 16;
constexpr int together = 8;  // columns in a block: 128 bytes side by side, and several blocks a multiprocessor

// Rows of a tile, two by two: item i is made of (first + i * step) / divisor and (first + i * step + second) / divisor.
// From `end` on there is no second one, or the last again where one is needed.
struct PairRows {
  Numbers numbers;
  int64_t first = 0, step = 2, second = 1, divisor = 1, end = 0;
  bool repeat_last = false;
  int count = 0, offset = 0;
  double leading = 0;

  __device__ int64_t index(int64_t item) const { return (first + item * step) / divisor; }
  __device__ int64_t second_index(int64_t item) const { return min(first + item * step + second, end - 1) / divisor; }
  __device__ bool has_second(int64_t item) const { return repeat_last || first + item * step + second < end; }
};

struct Columns {
  double2* scratch = nullptr;  // (items, columns, rows)
  PairRows pairs;
  Numbers h0;  // of each channel: its point 0 goes there on the way there, it is added to it on the way back
  int64_t items = 0;
};

struct ColumnArguments {
  int rows;
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

// The two rows' points in real and imaginary part; all loads start before the first one ends.
template <class Position>
__device__ void load_pair(const PairRows& pairs, int64_t item, int length, Position position, double2 (&z)[radix]) {
  const bool has_second = pairs.has_second(item);
  with_pointer(pairs.numbers, [&](const auto* data) {
    const auto* x = data + pairs.index(item) * pairs.count;
    const auto* y = data + pairs.second_index(item) * pairs.count;
    using T = std::remove_cv_t<std::remove_pointer_t<decltype(data)>>;
    T u[radix], v[radix];
#pragma unroll
    for (int i = 0; i < radix; ++i) {
      const int k = position(i) - pairs.offset;
      const bool inside = k >= 0 && k < pairs.count;
      u[i] = inside ? x[k] : T(0);
      v[i] = inside && has_second ? y[k] : T(0);
    }
#pragma unroll
    for (int i = 0; i < radix; ++i) {
      z[i] = {static_cast<double>(u[i]), static_cast<double>(v[i])};
      if (position(i) < pairs.offset) z[i] = {pairs.leading, pairs.leading};
    }
    if (pairs.count + pairs.offset <= length) return;
#pragma unroll
    for (int i = 0; i < radix; ++i)
      for (int k = position(i) - pairs.offset + length; k < pairs.count; k += length) {
        z[i].x += static_cast<double>(x[k]);
        if (has_second) z[i].y += static_cast<double>(y[k]);
      }
  });
}

// Which of the parts a block works on, and where.
struct ColumnPlace {
  const Columns& part;
  int64_t item;
  int length, n2;
  bool has_second, first_point;

  static __device__ const Columns& part_of(const ColumnArguments& p, int64_t& item) {
    int which = 0;
    for (; which < 2 && item >= p.parts[which].items; ++which) item -= p.parts[which].items;
    return p.parts[which];
  }
  __device__ explicit ColumnPlace(const ColumnArguments& p, int64_t block = blockIdx.y)
      : part(part_of(p, block)), item(block), length(columns * p.rows), n2(blockIdx.x * together + threadIdx.x) {
    has_second = part.pairs.has_second(item);
    first_point = part.h0.data && n2 == 0 && threadIdx.y == 0;
  }
  __device__ int point(int i) const { return (static_cast<int>(threadIdx.y) + i * radix) * (length / columns) + n2; }
};

// Pairs of rows to columns of scratch.
inline __global__ void __launch_bounds__(radix * together, 4) columns_ahead(const ColumnArguments p) {
  extern __shared__ __align__(16) double2 shared[];
  const ColumnPlace at(p);
  const PairRows& pairs = at.part.pairs;
  const double2 root = double_root<forward>(threadIdx.y, columns);
  const Twist twist = Twist::load<forward>(at.n2, threadIdx.y, radix, at.length);
  double2 z[radix];
  // Of few numbers a column holds one at its beginning, and that is its transform everywhere.
  const bool few = pairs.count + pairs.offset <= p.rows;
  load_pair(pairs, at.item, at.length, [&](int i) { return few ? at.n2 : at.point(i); }, z);
  if (at.first_point) store_number(at.part.h0, pairs.index(at.item), z[0].x);
  if (at.first_point && at.has_second) store_number(at.part.h0, pairs.second_index(at.item), z[0].y);
  if (!few) transform_column<forward>(z, root, reinterpret_cast<double2(*)[together]>(shared));
  twist.apply(z);
  double2* scratch = at.part.scratch + at.item * at.length;
#pragma unroll
  for (int i = 0; i < radix; ++i) scratch[at.point(i)] = z[i];
}

// Columns of scratch to pairs of rows.
inline __global__ void __launch_bounds__(radix * together, 5) columns_back(const ColumnArguments p) {
  extern __shared__ __align__(16) double2 shared[];
  const ColumnPlace at(p);
  const PairRows& pairs = at.part.pairs;
  const double2 root = double_root<inverse>(threadIdx.y, columns);
  const double2* scratch = at.part.scratch + at.item * at.length;
  double2 z[radix];
#pragma unroll
  for (int i = 0; i < radix; ++i) z[i] = scratch[at.point(i)];
  transform_column<inverse>(z, root, reinterpret_cast<double2(*)[together]>(shared));
#pragma unroll
  for (int i = 0; i < radix; ++i) z[i] = 1.0 / at.length * z[i];
  if (at.first_point) z[0].x += load_number(at.part.h0, pairs.index(at.item));
  if (at.first_point && at.has_second) z[0].y += load_number(at.part.h0, pairs.second_index(at.item));
  const auto point = [&](int i) { return at.point(i); };
  const NumberRow row{pairs.numbers, pairs.index(at.item) * pairs.count, pairs.count, pairs.offset, 0};
  store_points<radix>(row, at.length, point, [&](int i) { return z[i].x; });
  const NumberRow second{pairs.numbers, pairs.second_index(at.item) * pairs.count, pairs.count, pairs.offset, 0};
  if (at.has_second) store_points<radix>(second, at.length, point, [&](int i) { return z[i].y; });
}

inline void run_columns(void (*kernel)(ColumnArguments), const ColumnArguments& arguments, cudaStream_t stream) {
  constexpr std::size_t shared_bytes = columns * together * sizeof(double2);
  const int64_t items = arguments.parts[0].items + arguments.parts[1].items + arguments.parts[2].items;
  const dim3 grid(arguments.rows / together, static_cast<unsigned>(items));
  launch("kernel", kernel, grid, dim3(together, radix), shared_bytes, stream, arguments);
}

}  // namespace rtf::cuda
