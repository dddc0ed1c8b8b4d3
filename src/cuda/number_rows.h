// Rows of numbers, read as the points of a transform and written back: coefficient k belongs to point k modulo the
// length.
#pragma once

#include <type_traits>

#include "cuda/wrapped_kernel.h"

namespace rtf::cuda {

// The numbers from `start` on belong to the points offset, offset + 1, ...; a denominator's point 0 holds its
// leading 1.
struct NumberRow {
  Numbers numbers;
  int64_t start = 0;
  int count = 0, offset = 0;
  double leading = 0;
};

// body(pointer) with the pointer's type; the switch stands outside of loops, so that their loads overlap.
template <class Body>
__device__ void with_pointer(const Numbers& numbers, Body body) {
  switch (numbers.type) {
    case Type::float32:
      return body(static_cast<float*>(numbers.data));
    case Type::float64:
      return body(static_cast<double*>(numbers.data));
    case Type::bfloat16:
      return body(static_cast<__nv_bfloat16*>(numbers.data));
  }
}

// A number whose neighbours other blocks are about to read: the second-level cache fetches 256 bytes at once. (Pieces
// of 64 bytes, which a block reads of many rows, take the memory a fifth longer.)
template <class T>
__device__ __forceinline__ T load_with_neighbours(const T* at) {
  T value;
  if constexpr (std::is_same_v<T, double>) {
    asm("ld.global.nc.L2::256B.f64 %0, [%1];" : "=d"(value) : "l"(at));
  } else if constexpr (std::is_same_v<T, float>) {
    asm("ld.global.nc.L2::256B.f32 %0, [%1];" : "=f"(value) : "l"(at));
  } else {
    unsigned short bits;
    asm("ld.global.nc.L2::256B.u16 %0, [%1];" : "=h"(bits) : "l"(at));
    value = __ushort_as_bfloat16(bits);
  }
  return value;
}

// at(i) = point position(i) of a transform of `length` points, i < count.
template <int count, class Position, class At>
__device__ void load_points(const NumberRow& row, int length, Position position, At at) {
  with_pointer(row.numbers, [&](const auto* data) {
    data += row.start;
    std::remove_cvref_t<decltype(*data)> near[count];  // all are asked for before the first is waited for
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const int k = position(i) - row.offset;
      near[i] = 0;
      if (k >= 0 && k < row.count) near[i] = data[k];
    }
#pragma unroll
    for (int i = 0; i < count; ++i) at(i) = position(i) < row.offset ? row.leading : static_cast<double>(near[i]);
    if (row.count + row.offset <= length) return;
#pragma unroll
    for (int i = 0; i < count; ++i)
#pragma unroll 1
      for (int k = position(i) - row.offset + length; k < row.count; k += length) at(i) += static_cast<double>(data[k]);
  });
}

template <int count, class Position, class At>
__device__ void store_points(const NumberRow& row, int length, Position position, At at) {
  with_pointer(row.numbers, [&](auto* data) {
    using T = std::remove_pointer_t<decltype(data)>;
    data += row.start;
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const int k = position(i) - row.offset;
      if (k >= 0 && k < row.count) data[k] = static_cast<T>(at(i));
    }
    if (row.count + row.offset <= length) return;
#pragma unroll
    for (int i = 0; i < count; ++i)
#pragma unroll 1
      for (int k = position(i) - row.offset + length; k < row.count; k += length) data[k] = static_cast<T>(at(i));
  });
}

// Begins to bring a row into the second-level cache, by all threads of a block.
__device__ inline void prefetch(const NumberRow& row) {
  constexpr int line = 128;
  const int64_t bytes = row.count * size_of(row.numbers.type);
  const char* const from = static_cast<const char*>(row.numbers.data) + row.start * size_of(row.numbers.type);
  for (int64_t at = threadIdx.x * line; at < bytes; at += blockDim.x * line)
    asm volatile("prefetch.global.L2 [%0];" : : "l"(from + at));
}

__device__ inline double load_number(const Numbers& numbers, int64_t index) {
  double result = 0;
  with_pointer(numbers, [&](const auto* data) { result = static_cast<double>(data[index]); });
  return result;
}

__device__ inline void store_number(const Numbers& numbers, int64_t index, double value) {
  with_pointer(numbers, [&](auto* data) { data[index] = static_cast<std::remove_pointer_t<decltype(data)>>(value); });
}

}  // namespace rtf::cuda
