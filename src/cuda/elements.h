// Numbers as they lie in memory and as they are computed with; several neighbours in one access.
#pragma once

#include <cuda_bf16.h>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace rtf::cuda {

enum class Type { float32, float64, bfloat16 };

constexpr int64_t ceil_div(int64_t x, int64_t y) { return (x + y - 1) / y; }

constexpr std::size_t size_of(Type type) { return type == Type::float64 ? 8 : type == Type::float32 ? 4 : 2; }

// What numbers of T are computed in.
template <class T>
struct ArithmeticOf {
  using type = float;
};
template <>
struct ArithmeticOf<double> {
  using type = double;
};
template <class T>
using Arithmetic = typename ArithmeticOf<T>::type;

// compute(T()) for numbers of the type in memory.
template <class Compute>
void with_type(Type type, Compute&& compute) {
  if (type == Type::float64)
    compute(double());
  else if (type == Type::float32)
    compute(float());
  else
    compute(__nv_bfloat16());
}

// Neighbours read or written at once: 16 bytes of float.
inline constexpr int vector_width = 4;

template <class T, int count>
struct alignas(sizeof(T) * count) Pack {
  T values[count];
};

// Whether rows of `length` numbers that start at these addresses can be accessed `vector_width` at a time. Null
// pointers do not count.
template <class... Pointers>
bool vectorizable(std::int64_t length, std::size_t size, Pointers... pointers) {
  return length % vector_width == 0 &&
         (... && (reinterpret_cast<std::uintptr_t>(pointers) % (size * vector_width) == 0));
}

#ifdef __CUDACC__
__device__ inline float widen(float x) { return x; }
__device__ inline double widen(double x) { return x; }
__device__ inline float widen(__nv_bfloat16 x) { return __bfloat162float(x); }

template <class T>
__device__ T narrow(Arithmetic<T> x) {
  if constexpr (sizeof(T) == 2)
    return __float2bfloat16_rn(x);
  else
    return x;
}

// `count` neighbours, in the type of the arithmetic A.
template <class A, int count>
struct Values {
  A at[count];
};

template <class A, int count, class T>
__device__ Values<A, count> load(const T* from) {
  const auto pack = *reinterpret_cast<const Pack<T, count>*>(from);
  Values<A, count> values;
  if constexpr (sizeof(T) == 2 && count % 2 == 0) {  // bfloat16 two at a time
#pragma unroll
    for (int i = 0; i < count; i += 2) {
      const float2 two = __bfloat1622float2(__nv_bfloat162(pack.values[i], pack.values[i + 1]));
      values.at[i] = two.x;
      values.at[i + 1] = two.y;
    }
  } else {
#pragma unroll
    for (int i = 0; i < count; ++i) values.at[i] = widen(pack.values[i]);
  }
  return values;
}

template <class A, int count, class T>
__device__ void store(T* to, const Values<A, count>& values) {
  Pack<T, count> pack;
  if constexpr (sizeof(T) == 2 && count % 2 == 0) {
#pragma unroll
    for (int i = 0; i < count; i += 2) {
      const __nv_bfloat162 two = __floats2bfloat162_rn(values.at[i], values.at[i + 1]);
      pack.values[i] = two.x;
      pack.values[i + 1] = two.y;
    }
  } else {
#pragma unroll
    for (int i = 0; i < count; ++i) pack.values[i] = narrow<T>(values.at[i]);
  }
  *reinterpret_cast<Pack<T, count>*>(to) = pack;
}
#endif

}  // namespace rtf::cuda
