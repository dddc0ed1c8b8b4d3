// The factors of the products that filter.cu is made of, for one channel, in shared memory and in the order that
// multiply_add takes them.
#pragma once

#include <cstdint>

#include "cuda/filter.h"
#include "cuda/matrix_multiply.h"

namespace rtf::cuda {

inline constexpr int fragment = 128;  // numbers of a (16, 8) factor: four a thread

// `order` is padded to 8, 16, 32 or 64: coefficients past the filter's own are zero. The state is scanned over 2^levels
// chunks at a time.
template <int order_, int chunk_, int levels_>
struct FilterTables {
  static constexpr int order = order_, chunk = chunk_, levels = levels_;
  static constexpr int blocks = chunk / 16, tiles = order / 8, depth = order < 16 ? order : 16, steps = order / depth;

  double to_state[blocks][tiles][fragment];       // K
  double direct[blocks][2][fragment];             // T, by the distance of two blocks of 16 samples
  double from_state[blocks][steps][2][fragment];  // O
  union {
    double power[levels][steps][tiles][fragment];  // the companion matrix to the chunk, 2 chunk, 4 chunk, ...
    struct {                                       // what all is made of
      double free[chunk][order];                   // v_t from each state of a single 1: -a companion^t
      double observed[chunk][order];               // y_t from each: b companion^t
    };
  };
  double inverse[chunk + 1], kernel[chunk + 1];  // v_t and y_t after a single sample of 1
  double a[order], b[order];

  // The powers one after the other lie in two places, of which the filling of the last power overwrites one.
  using Square = double[order][order];
  Square last_square;
  __device__ Square& square(int level) {
    return level % 2 == (levels - 1) % 2 ? last_square : reinterpret_cast<Square&>(power[levels - 1]);
  }
};

// Where time runs backwards, so do the four neighbours that a thread takes from memory at once: j ^ turned in time.
__device__ inline int turned(Series series) { return series == Series::adjoint ? 3 : 0; }

// Which index of a sum over samples, and over states, a thread's j-th number of a factor stands for.
__device__ inline int sample_at(int column, int j) { return 4 * column + j; }
__device__ inline int state_at(int column, int j) { return 8 * (j / 2) + 2 * column + j % 2; }
// Which sample of 16 is column `row` of tile `half` of a result: a thread then holds four neighbours.
__device__ inline int sample_of(int row, int half) { return 4 * (row / 2) + 2 * half + row % 2; }

// value(fragment, column, j, row) for all numbers of these fragments.
template <class Value>
__device__ void fill(double* to, int fragments, Value value) {
  for (int i = threadIdx.x; i < fragments * fragment; i += blockDim.x) {
    const int at = i % fragment, lane = at % 64 / 2;
    to[i] = value(i / fragment, lane % 4, 2 * (at / 64) + at % 2, lane / 4);
  }
}

__device__ inline double coefficient(const Filter& p, const void* of, int64_t at) {
  switch (p.coefficient_type) {
    case Type::float64:
      return static_cast<const double*>(of)[at];
    case Type::bfloat16:
      return static_cast<double>(static_cast<const __nv_bfloat16*>(of)[at]);
    default:
      return static_cast<const float*>(of)[at];
  }
}

// row = row companion, thread k of a warp holding numbers k and k + 32: each moves to the place before it, and the
// first comes back by the denominator.
template <int order, int each>
__device__ void multiply_companion(double (&row)[each], const double (&denominator)[each], int lane) {
  const double first = __shfl_sync(~0u, row[0], 0);
#pragma unroll
  for (int i = 0; i < each; ++i) {
    const double within = __shfl_down_sync(~0u, row[i], 1);
    const double across = i + 1 < each ? __shfl_sync(~0u, row[i + 1 < each ? i + 1 : i], 0) : 0.0;
    const double next = lane == 31 ? across : within;
    row[i] = (lane + 32 * i + 1 < order ? next : 0.0) - denominator[i] * first;
  }
}

// rows[t] = sign start companion^t, thread k of a warp holding numbers k and k + 32; the first goes to series[t + 1]
// too.
template <int order, int chunk>
__device__ void companion_powers(double (&rows)[chunk][order], double (&series)[chunk + 1],
                                 const double (&start)[order], double sign, const double (&a)[order], int lane) {
  constexpr int each = (order + 31) / 32;
  double row[each], denominator[each];
#pragma unroll
  for (int i = 0; i < each; ++i) {
    row[i] = lane + 32 * i < order ? sign * start[lane + 32 * i] : 0.0;
    denominator[i] = lane + 32 * i < order ? a[lane + 32 * i] : 0.0;
  }
#pragma unroll 4
  for (int t = 0; t < chunk; ++t) {
    if (lane == 0) series[t + 1] = row[0];
#pragma unroll
    for (int i = 0; i < each; ++i)
      if (lane + 32 * i < order) rows[t][lane + 32 * i] = row[i];
    multiply_companion<order>(row, denominator, lane);
  }
}

// to = from from, a tile of the result a warp.
template <int order>
__device__ void square(double (&to)[order][order], const double (&from)[order][order], int lane) {
  constexpr int depth = order < 16 ? order : 16;
  const int row = lane / 4, column = lane % 4;
  for (int tile = threadIdx.x / 32; tile < (order + 15) / 16 * (order / 8); tile += blockDim.x / 32) {
    const int top = 16 * (tile / (order / 8)), left = 8 * (tile % (order / 8));
    double c[4] = {};
#pragma unroll
    for (int first = 0; first < order; first += depth) {
      double a[8], b[4];
#pragma unroll
      for (int j = 0; j < depth / 2; ++j) {
        const int at = top + row + 8 * (j % 2);
        a[j] = at < order ? from[at][first + column + 4 * (j / 2)] : 0.0;
      }
#pragma unroll
      for (int j = 0; j < depth / 4; ++j) b[j] = from[first + column + 4 * j][left + row];
      multiply_add<depth>(c, a, b);
    }
#pragma unroll
    for (int j = 0; j < 4; ++j)
      if (top + row + 8 * (j / 2) < order) to[top + row + 8 * (j / 2)][left + 2 * column + j % 2] = c[j];
  }
}

// By all threads of a block, whole warps of them. The adjoint is the transposed system: what enters the state and what
// is seen of it change places.
template <class Tables>
__device__ void make_tables(Tables& t, const Filter& p, int channel) {
  constexpr int order = Tables::order, chunk = Tables::chunk, tiles = Tables::tiles, steps = Tables::steps;
  const int n = static_cast<int>(p.order), thread = threadIdx.x, threads = blockDim.x, lane = thread % 32;
  const int shared = static_cast<int>(p.channels) / static_cast<int>(p.denominators);  // channels of a denominator
  for (int k = thread; k < order; k += threads) {
    t.a[k] = k < n ? coefficient(p, p.a, channel / shared * static_cast<int64_t>(n) + k) : 0.0;
    t.b[k] = k < n ? coefficient(p, p.b, channel * static_cast<int64_t>(n) + k) : 0.0;
  }
  const bool adjoint = p.series == Series::adjoint, inner = p.series == Series::inner;
  const int turn = turned(p.series);
  if (thread == 0) {
    t.inverse[0] = 1.0;
    t.kernel[0] = adjoint ? 0.0 : coefficient(p, p.h0, channel);
  }
  __syncthreads();
  // The first warp, and the last, which may be the same.
  if (thread < 32) companion_powers(t.free, t.inverse, t.a, -1.0, t.a, lane);
  if (thread >= threads - 32) companion_powers(t.observed, t.kernel, t.b, 1.0, t.a, lane);
  __syncthreads();
  fill(t.to_state[0][0], Tables::blocks * tiles, [&](int f, int column, int j, int row) {
    const int left = chunk - 1 - (16 * (f / tiles) + sample_at(column, j ^ turn)), state = 8 * (f % tiles) + row;
    if (adjoint) return t.observed[left][state];
    return left >= state ? t.inverse[left - state] : 0.0;
  });
  fill(t.direct[0][0], 2 * Tables::blocks, [&](int f, int column, int j, int row) {
    const int lag = 16 * (f / 2) + (sample_of(row, f % 2) ^ turn) - sample_at(column, j ^ turn);
    return lag < 0 ? 0.0 : inner ? t.inverse[lag] : t.kernel[lag];
  });
  fill(t.from_state[0][0][0], 2 * Tables::blocks * steps, [&](int f, int column, int j, int row) {
    const int state = 16 * (f / 2 % steps) + state_at(column, j);
    const int sample = 16 * (f / (2 * steps)) + (sample_of(row, f % 2) ^ turn);
    if (adjoint) return sample >= state ? t.inverse[sample - state] : 0.0;
    if (state >= order) return 0.0;
    return inner ? t.free[sample][state] : t.observed[sample][state];
  });
  // Where the last power will be, nothing is read any more.
  static_assert(chunk * order <= (Tables::levels - 1) * steps * tiles * fragment);
  __syncthreads();
  for (int i = thread; i < order * order; i += threads)
    t.square(0)[i / order][i % order] = t.free[chunk - 1 - i / order][i % order];
  for (int level = 0; level < Tables::levels; ++level) {
    __syncthreads();
    const auto& power = t.square(level);
    fill(t.power[level][0][0], steps * tiles, [&](int f, int column, int j, int row) {
      const int state = 16 * (f / tiles) + state_at(column, j);
      const int to = 8 * (f % tiles) + row;
      return state >= order ? 0.0 : adjoint ? power[state][to] : power[to][state];
    });
    if (level + 1 < Tables::levels) square<order>(t.square(level + 1), power, lane);
  }
  __syncthreads();
}

}  // namespace rtf::cuda
