// Complex transforms in the registers of a thread and in a warp.
//
// A thread transforms up to 32 numbers without leaving its registers, a warp 1,024 = 32 x 32 of them with one exchange
// through shared memory and no barrier. Longer transforms put one stage of 2 to 16 points in front
// (convolution_block.h).
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <type_traits>
#include <utility>

namespace rtf::cuda {

constexpr int forward = -1, inverse = 1;  // the sign of the exponent

// Complex numbers: float2 and double2.
template <class C>
concept ComplexNumber = std::is_same_v<C, float2> || std::is_same_v<C, double2>;
template <ComplexNumber C>
using Real = decltype(C::x);

template <ComplexNumber C>
__device__ __forceinline__ C operator+(C a, C b) {
  return {a.x + b.x, a.y + b.y};
}
template <ComplexNumber C>
__device__ __forceinline__ C operator-(C a, C b) {
  return {a.x - b.x, a.y - b.y};
}
template <ComplexNumber C>
__device__ __forceinline__ C operator*(C a, C b) {
  return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x};
}
template <ComplexNumber C>
__device__ __forceinline__ C operator*(Real<C> a, C b) {
  return {a * b.x, a * b.y};
}
template <ComplexNumber C>
__device__ __forceinline__ C conj(C a) {
  return {a.x, -a.y};
}
// The factor 1, which costs nothing.
struct One {};
template <ComplexNumber C>
__device__ __forceinline__ C operator*(C a, One) {
  return a;
}
__device__ __forceinline__ One conj(One) { return {}; }
// Re(conj(a) b): what is left of b when the weight a is undone.
__device__ __forceinline__ float real_dot(float2 a, float2 b) { return a.x * b.x + a.y * b.y; }
// f(std::integral_constant<int, i>) for i = 0 .. count-1: every index is a constant, so arrays stay in registers.
template <int count, class F>
__device__ __forceinline__ void unroll(F&& f) {
  [&]<int... i>(std::integer_sequence<int, i...>) { (f(std::integral_constant<int, i>()), ...); }
  (std::make_integer_sequence<int, count>());
}

namespace constant {

constexpr double pi = 3.14159265358979323846;

constexpr double sine(double x) {  // |x| <= pi / 4
  double term = x, sum = x;
  for (int k = 1; k < 12; ++k) sum += term *= -x * x / ((2 * k) * (2 * k + 1));
  return sum;
}
constexpr double cosine(double x) {
  double term = 1, sum = 1;
  for (int k = 1; k < 12; ++k) sum += term *= -x * x / ((2 * k - 1) * (2 * k));
  return sum;
}

struct Root {
  double re, im;
  template <class C>
  constexpr C as() const {
    return {static_cast<Real<C>>(re), static_cast<Real<C>>(im)};
  }
};

// e^{-2 pi i k / n}, n a multiple of 8 or a divisor of it.
constexpr Root root(long k, long n) {
  k = (k % n + n) % n;
  const long eighth = 8 * k / n;          // which octant
  const long quarter = (eighth + 1) / 2;  // the nearest multiple of a quarter turn
  const double rest = 2 * pi * static_cast<double>(4 * k - quarter * n) / static_cast<double>(4 * n);
  const double c = cosine(rest), s = sine(rest);
  switch (quarter % 4) {
    case 0:
      return {c, -s};
    case 1:
      return {-s, -c};
    case 2:
      return {-c, s};
    default:
      return {s, c};
  }
}

}  // namespace constant

// x e^{sign 2 pi i k / n}; quarters of a turn cost nothing, eighths two multiplications.
template <int sign, int k, int n, ComplexNumber C>
__device__ __forceinline__ C turn(C x) {
  constexpr int at = (k % n + n) % n;
  if constexpr (at == 0) {
    return x;
  } else if constexpr (8 * at % n == 0) {
    constexpr int eighths = sign == forward ? (8 - 8 * at / n) % 8 : 8 * at / n;  // counterclockwise
    constexpr auto half = static_cast<Real<C>>(0.70710678118654752440);
    if constexpr (eighths == 2) return {-x.y, x.x};
    if constexpr (eighths == 4) return {-x.x, -x.y};
    if constexpr (eighths == 6) return {x.y, -x.x};
    if constexpr (eighths == 1) return {half * (x.x - x.y), half * (x.x + x.y)};
    if constexpr (eighths == 3) return {-half * (x.x + x.y), half * (x.x - x.y)};
    if constexpr (eighths == 5) return {half * (x.y - x.x), -half * (x.x + x.y)};
    return {half * (x.x + x.y), half * (x.y - x.x)};
  } else {
    constexpr C w = constant::root(-sign * at, n).template as<C>();
    return x * w;
  }
}

// The transform of x[0], x[stride], ..., in natural order both before and after, unnormalised.
template <int size, int sign, int stride = 1, ComplexNumber C>
__device__ __forceinline__ void fft(C* x) {
  if constexpr (size == 2) {
    const C a = x[0], b = x[stride];
    x[0] = a + b;
    x[stride] = a - b;
  } else if constexpr (size == 4) {
    const C a = x[0] + x[2 * stride], b = x[0] - x[2 * stride];
    const C c = x[stride] + x[3 * stride], d = turn<sign, 1, 4>(x[stride] - x[3 * stride]);
    x[0] = a + c;
    x[stride] = b + d;
    x[2 * stride] = a - c;
    x[3 * stride] = b - d;
  } else if constexpr (size > 4) {
    constexpr int rest = size / 4;
    unroll<rest>([&](auto t) {
      fft<4, sign, stride * rest>(x + stride * t);
      unroll<4>([&](auto k) {
        C& at = x[stride * (t + rest * k)];
        at = turn<sign, t * k, size>(at);
      });
    });
    unroll<4>([&](auto k) { fft<rest, sign, stride>(x + stride * rest * k); });
    C y[size];
    unroll<size>([&](auto i) { y[i] = x[stride * i]; });
    unroll<size>([&](auto i) { x[stride * (i / rest + 4 * (i % rest))] = y[i]; });
  }
}

// Loads at its place. The compiler would load what it knows to be constant once, early, and keep it or what it computes
// from it for later, in registers that the transforms need, or in local memory.
template <ComplexNumber C>
__device__ __forceinline__ C load_here(const C* at) {
#ifdef __CUDA_ARCH__
  C value;
  if constexpr (std::is_same_v<C, float2>)
    asm volatile("ld.global.v2.f32 {%0, %1}, [%2];" : "=f"(value.x), "=f"(value.y) : "l"(at) : "memory");
  else
    asm volatile("ld.global.v2.f64 {%0, %1}, [%2];" : "=d"(value.x), "=d"(value.y) : "l"(at) : "memory");
  return value;
#else
  return *at;
#endif
}

constexpr int log2_of(int n) { return n <= 1 ? 0 : 1 + log2_of(n / 2); }

// f(k, first * g^k) for k = 0 .. count-1, where power[j] = g^{2^j}: each a product of at most log2(count) + 1 of them.
template <int count, int k = 0, ComplexNumber C, class F>
__device__ __forceinline__ void for_powers(C first, const C* power, F&& f) {
  if constexpr (count == 1) {
    f(std::integral_constant<int, k>(), first);
  } else {
    for_powers<count / 2, k>(first, power, f);
    for_powers<count / 2, k + count / 2>(first * power[log2_of(count / 2)], power, f);
  }
}

// f(k, g^k) for k = 1 .. count-1.
template <int count, ComplexNumber C, class F>
__device__ __forceinline__ void for_powers(const C* power, F&& f) {
  if constexpr (count > 1) {
    for_powers<count / 2>(power, f);
    for_powers<count / 2, count / 2>(power[log2_of(count / 2)], power, f);
  }
}

// e^{-2 pi i k / 1024}.
constexpr int root_count = 1024;
struct Roots {
  float2 at[root_count];
};
constexpr Roots make_roots() {
  Roots roots = {};
  for (int k = 0; k < root_count; ++k) {
    roots.at[k] = constant::root(k, root_count).as<float2>();
  }
  return roots;
}
__device__ const Roots roots = make_roots();

// e^{-2 pi i k / n} for a power of two n: from the table, and of the rest of the angle, which is below 2 pi / 1024, the
// terms that count in float32.
template <int n>
__device__ __forceinline__ float2 root(int k) {
  static_assert(n >= root_count && (n & (n - 1)) == 0);
  constexpr int steps = n / root_count;
  const float2 coarse = load_here(roots.at + ((k >> log2_of(steps)) & (root_count - 1)));
  const float angle = static_cast<float>(k & (steps - 1)) * static_cast<float>(2 * constant::pi / n);
  const float square = angle * angle;
  return coarse * float2{1.f - 0.5f * square, angle * (square * (1.f / 6.f) - 1.f)};
}

// 1,024 points in a warp. Between transforms lane l holds points l + 32 i, i < 32, in time and in frequency alike.
namespace warp {

constexpr int size = 1024, each = 32;
constexpr int row = 34;             // of the exchange: 32, and 2 so that 16-byte accesses hit every bank once
constexpr int buffer = each * row;  // complex numbers of shared memory a warp needs

// f(k, e^{-2 pi i lane k / 1024}) for k = 1 .. 31, between the two stages: computed, ...
struct Twiddles {
  template <class F>
  __device__ __forceinline__ void operator()(int lane, F&& f) const {
    float2 power[5];
    unroll<5>([&](auto j) { power[j] = load_here(roots.at + ((lane << j) & (root_count - 1))); });
    for_powers<32>(power, f);
  }
};
// ... or from a table in shared memory, which the warps of a block share.
struct TwiddleTable {
  const float2* table;

  // By all threads of the block, which have to meet before they use it.
  static __device__ __forceinline__ TwiddleTable make(float2* memory) {
    for (int i = threadIdx.x; i < size; i += blockDim.x) memory[i] = roots.at[(i / 32) * (i % 32)];
    return {memory};
  }
  template <class F>
  __device__ __forceinline__ void operator()(int lane, F&& f) const {
    unroll<31>([&](auto k) { f(std::integral_constant<int, k + 1>(), table[32 * (k + 1) + lane]); });
  }
};

// The exchange buffer may hold anything before and after; the warp has it for itself.
template <class T = Twiddles>
__device__ __forceinline__ void fft_forward(float2* x, float2* exchange, int lane, const T& twiddles = {}) {
  fft<32, forward>(x);
  twiddles(lane, [&](auto k, float2 w) { x[k] = x[k] * w; });
  __syncwarp();
  unroll<32>([&](auto k) { exchange[k * row + lane] = x[k]; });
  __syncwarp();
  const float4* from = reinterpret_cast<const float4*>(exchange + lane * row);
  unroll<16>([&](auto i) {
    const float4 pair = from[i];
    x[2 * i] = {pair.x, pair.y};
    x[2 * i + 1] = {pair.z, pair.w};
  });
  fft<32, forward>(x);
}

template <class T = Twiddles>
__device__ __forceinline__ void fft_inverse(float2* x, float2* exchange, int lane, const T& twiddles = {}) {
  fft<32, inverse>(x);
  twiddles(lane, [&](auto k, float2 w) { x[k] = x[k] * conj(w); });
  __syncwarp();
  float4* to = reinterpret_cast<float4*>(exchange + lane * row);
  unroll<16>([&](auto i) { to[i] = {x[2 * i].x, x[2 * i].y, x[2 * i + 1].x, x[2 * i + 1].y}; });
  __syncwarp();
  unroll<32>([&](auto k) { x[k] = exchange[k * row + lane]; });
  fft<32, inverse>(x);
}

}  // namespace warp

}  // namespace rtf::cuda
