// The steps of filter.cu, each by a warp: samples, products with states, and the last samples of a sequence.
#pragma once

#include <cstdint>

#include "cuda/filter.h"
#include "cuda/filter_tables.h"
#include "cuda/matrix_multiply.h"

namespace rtf::cuda {

// Volatile, so that the factors stay in shared memory: read ahead of the loop over the signal they fill all registers.
template <int depth>
__device__ void load_factor(double (&b)[4], const double* from, int lane) {
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(from + 2 * lane));
#pragma unroll
  for (int j = 0; j < depth / 4; j += 2)
    asm volatile("ld.volatile.shared.v2.f64 {%0, %1}, [%2];" : "=d"(b[j]), "=d"(b[j + 1]) : "r"(address + 256 * j));
}

// Four neighbouring samples.
template <class T>
struct alignas(sizeof(T) * 4 > 16 ? 16 : sizeof(T) * 4) Quad {
  T at[4];
};

template <class T>
__device__ void widen(double (&a)[8], const Quad<T> (&samples)[2]) {
#pragma unroll
  for (int j = 0; j < 8; ++j) a[j] = static_cast<double>(samples[j % 2].at[j / 2]);
}

template <class T>
__device__ T sample(double x) {
  if constexpr (sizeof(T) == 2)
    return __float2bfloat16_rn(static_cast<float>(x));
  else
    return static_cast<T>(x);
}

// A state before or after each chunk is a row of sixteen. These rows moved down by `by`, zeros in the first ones; the
// rows of two sequences each on their own.
template <int together, int tiles>
__device__ void move_down(double (&to)[tiles][4], const double (&from)[tiles][4], int by, int lane) {
#pragma unroll
  for (int q = 0; q < tiles; ++q)
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      if (by == 8) {
        to[q][e] = 0;
        to[q][2 + e] = from[q][e];
        continue;
      }
      const bool inside = lane / 4 >= by;
      const double low = __shfl_sync(~0u, from[q][e], (lane - 4 * by) & 31);
      const double high = __shfl_sync(~0u, from[q][2 + e], (lane - 4 * by) & 31);
      to[q][e] = inside ? low : 0.0;
      to[q][2 + e] = inside ? high : together == 1 ? low : 0.0;
    }
}

// Number j of the left factor of a product with the states x, in step `step` of the sum.
template <int tiles>
__device__ double left_factor(const double (&x)[tiles][4], int step, int j) {
  return x[2 * step + j / 4][j % 2 * 2 + j / 2 % 2];
}

// result += x M for the states x and the factors of M.
template <int order>
__device__ void multiply_states(double (&result)[order / 8][4], const double (&x)[order / 8][4], const double* factors,
                                int lane) {
  constexpr int depth = order < 16 ? order : 16, tiles = order / 8;
#pragma unroll
  for (int step = 0; step < order / depth; ++step) {
    double a[8];
#pragma unroll
    for (int j = 0; j < depth / 2; ++j) a[j] = left_factor(x, step, j);
#pragma unroll
    for (int q = 0; q < tiles; ++q) {
      double b[4];
      load_factor<depth>(b, factors + (step * tiles + q) * fragment, lane);
      multiply_add<depth>(result[q], a, b);
    }
  }
}

// M x for a state x that every row holds.
template <int order>
__device__ void multiply_state(double (&result)[order / 8][2], const double (&x)[order / 8][2], const double* factors,
                               int lane) {
  constexpr int depth = order < 16 ? order : 16, tiles = order / 8;
#pragma unroll
  for (int q = 0; q < tiles; ++q) {
    double sum = 0;
#pragma unroll
    for (int step = 0; step < order / depth; ++step) {
      double b[4];
      load_factor<depth>(b, factors + (step * tiles + q) * fragment, lane);
#pragma unroll
      for (int j = 0; j < depth / 4; ++j) sum += b[j] * x[2 * step + j / 2][j % 2];
    }
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
#pragma unroll
    for (int e = 0; e < 2; ++e) result[q][e] = __shfl_sync(~0u, sum, 4 * (2 * (lane % 4) + e));
  }
}

// The response of 16 samples, of every chunk, to the 16 samples `a`.
__device__ inline void add_direct(double (&result)[2][4], const double (&a)[8], const double (&factors)[2][fragment],
                                  int lane) {
#pragma unroll
  for (int tile = 0; tile < 2; ++tile) {
    double b[4];
    load_factor<16>(b, factors[tile], lane);
    multiply_add<16>(result[tile], a, b);
  }
}

// Where a sequence lies: the row, its first sample there, and how many there are. Whatever lengths and offsets hold, it
// stays inside the row.
struct Place {
  int64_t row, first, length;

  __device__ Place(const Filter& p, int64_t sequence) : row(sequence), first(0), length(p.length) {
    if (p.offsets != nullptr) {
      row = 0;
      first = min(max(p.offsets[sequence], int64_t{0}), p.length);
      length = min(max(p.offsets[sequence + 1] - first, int64_t{0}), p.length - first);
    } else if (p.lengths != nullptr) {
      length = min(max(p.lengths[sequence], int64_t{0}), p.length);
    }
  }
};

// Zeros after a padded sequence, by a warp; `row` is where it begins.
template <class T>
__device__ void clear_rest(const Filter& p, T* row, int64_t length, int lane) {
  if (p.offsets != nullptr) return;
  for (int64_t t = length + lane; t < p.length; t += 32) row[t] = T(0.0f);
}

// One sequence and channel; past the last sequence an empty one. Samples t ... t + 3, t a multiple of 4, are
// u[direction t] ... u[direction t + 3], and where the direction is backwards the last of them comes first.
template <class T, class R>
struct Stream {
  const T* u;
  R* y;
  int64_t length;
  const double* initial_state;
  double* final_state;
  bool exists;

  __device__ Stream(const Filter& p, int64_t sequence, int channel) : exists(sequence < p.sequences) {
    if (!exists) sequence = 0;
    const Place place(p, sequence);
    length = exists ? place.length : 0;
    const int64_t start = place.first + origin(p);
    u = static_cast<const T*>(p.u) + place.row * p.u_sequence_stride + channel * p.u_channel_stride + start;
    y = static_cast<R*>(p.y) + place.row * p.y_sequence_stride + channel * p.y_channel_stride + start;
    const int64_t state = (sequence * p.channels + channel) * p.order;
    initial_state = p.initial_state == nullptr ? nullptr : p.initial_state + state;
    final_state = p.final_state == nullptr || !exists ? nullptr : p.final_state + state;
  }

  // Of u[0] and y[0] in the sequence.
  __device__ int64_t origin(const Filter& p) const { return p.series == Series::adjoint ? length - 4 : 0; }

  // Samples from here to the end of a turn or of the sequence.
  __device__ int rest(int64_t from, int turn) const {
    return static_cast<int>(min(max(length - from, int64_t{0}), int64_t{turn}));
  }
  __device__ bool aligned() const {
    return reinterpret_cast<uintptr_t>(u) % alignof(Quad<T>) == 0 &&
           reinterpret_cast<uintptr_t>(y) % alignof(Quad<R>) == 0;
  }
};

// The state, which final_state holds, after the samples from `from` to the end, one after the other.
template <class T, class R, class Tables>
__device__ void finish_state(const Stream<T, R>& stream, int64_t from, const Tables& tables, Series series, int n,
                             int lane) {
  constexpr int order = Tables::order, each = (order + 31) / 32;
  double x[each], a[each], b[each];
#pragma unroll
  for (int i = 0; i < each; ++i) {
    const int k = lane + 32 * i;
    x[i] = k < n ? stream.final_state[k] : 0.0;
    a[i] = k < order ? tables.a[k] : 0.0;
    b[i] = k < order ? tables.b[k] : 0.0;
  }
#pragma unroll 1
  for (int64_t t = from; t < stream.length; ++t) {
    if (series == Series::adjoint) {
      multiply_companion<order>(x, a, lane);
      const double gradient = static_cast<double>(stream.u[3 - t]);
#pragma unroll
      for (int i = 0; i < each; ++i) x[i] += b[i] * gradient;
      continue;
    }
    double back = 0;
#pragma unroll
    for (int i = 0; i < each; ++i) back += a[i] * x[i];
#pragma unroll
    for (int half = 16; half > 0; half /= 2) back += __shfl_xor_sync(~0u, back, half);
#pragma unroll
    for (int i = each - 1; i >= 0; --i) {
      const double before = __shfl_up_sync(~0u, x[i], 1);
      const double across =
          i > 0 ? __shfl_sync(~0u, x[i > 0 ? i - 1 : 0], 31) : static_cast<double>(stream.u[t]) - back;
      x[i] = lane == 0 ? across : before;
    }
  }
#pragma unroll
  for (int i = 0; i < each; ++i)
    if (lane + 32 * i < n) stream.final_state[lane + 32 * i] = x[i];
}

}  // namespace rtf::cuda
