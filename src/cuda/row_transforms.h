// Transforms by a block, in double or, where that is exact enough, in float. An exchange of doubles hits each bank of
// shared memory once (of floats, one of a transform's exchanges does so twice), and factors come from tables in double,
// for a sine in double costs as much as a transform of eight points.
#pragma once

#include "cuda/fft.h"

namespace rtf::cuda {

constexpr int finest_root = 1 << 18, root_split = 512;
struct DoubleRoots {
  double2 coarse[root_split], fine[root_split];  // e^{-2 pi i k / 512}, e^{-2 pi i k / 2^18}
};
constexpr DoubleRoots make_double_roots() {
  DoubleRoots made = {};
  for (int k = 0; k < root_split; ++k) {
    made.coarse[k] = constant::root(k, root_split).as<double2>();
    made.fine[k] = constant::root(k, finest_root).as<double2>();
  }
  return made;
}
__device__ const DoubleRoots double_roots = make_double_roots();

// e^{sign 2 pi i k / n} for a power of two n up to 2^18.
template <int sign>
__device__ __forceinline__ double2 double_root(int k, int n) {
  const int at = k * (finest_root / n);
  const double2 root = load_here(double_roots.coarse + ((at / root_split) & (root_split - 1))) *
                       load_here(double_roots.fine + (at & (root_split - 1)));
  return sign == forward ? root : conj(root);
}

template <ComplexNumber C>
__device__ __forceinline__ C round_to(double2 x) {
  return {static_cast<Real<C>>(x.x), static_cast<Real<C>>(x.y)};
}

// points[i] *= w g^i
template <int count, ComplexNumber C>
__device__ __forceinline__ void multiply_by_powers(C* points, C w, C g) {
  unroll<count>([&](auto i) {
    points[i] = points[i] * w;
    if constexpr (i + 1 < count) w = w * g;
  });
}

// e^{sign 2 pi i line (x + i stride) / n} for i = 0, 1, ...; loaded before they are needed, for that takes long.
struct Twist {
  double2 first, step;

  template <int sign>
  static __device__ __forceinline__ Twist load(int line, int x, int stride, int n) {
    return {double_root<sign>(line * x, n), double_root<sign>(line * stride, n)};
  }
  template <int count, ComplexNumber C>
  __device__ __forceinline__ void apply(C (&points)[count]) const {
    multiply_by_powers<count>(points, round_to<C>(first), round_to<C>(step));
  }
};

// `count` transforms of `points` numbers side by side in a block, unnormalised: thread (x, y) holds of row y the
// numbers x + i * stride, i < each, before and after. Stockham's order: a stage over the factor of `points` that
// `each`s leave, then stages of `each` points, and between two stages an exchange. Halves exchanged one after the
// other, first the real parts, need half of the shared memory and twice the barriers.
template <ComplexNumber C, int points, int count, int each = 8, bool halves = false>
struct RowFft {
  static constexpr int stride = points / each, threads = stride * count;
  static constexpr int rest = log2_of(points) % log2_of(each), first = rest == 0 ? each : 1 << rest;
  using Element = std::conditional_t<halves, Real<C>, C>;
  static constexpr int pad_every = 128 / sizeof(Element);  // what a phase of an access reaches
  static constexpr int row = points + points / pad_every;  // of the exchange
  static constexpr std::size_t exchange_bytes = count * row * sizeof(Element);
  static constexpr std::size_t table_bytes = (stride + stride / 8) * sizeof(double2);

  // The factors of all stages, by every thread before the first transform.
  __device__ static void fill(double2* table) {
    if (threadIdx.y == 0) table[thread() + thread() / 8] = double_root<forward>(thread(), points);
  }

  // `shared` may be in use until here; it is free again after the next barrier.
  template <int sign>
  __device__ static void execute(C (&z)[each], void* shared, const double2* table) {
    unroll<each / first>([&](auto i) { fft<first, sign, each / first>(z + i); });
    // Butterfly t + i stride of `first` points goes to neighbouring places.
    exchange(z, shared, first * thread(),
             [](int i) { return first * (i % (each / first) * stride) + i / (each / first); });
    stages<sign, first>(z, shared, table);
  }

 private:
  __device__ static int thread() { return static_cast<int>(threadIdx.x); }

  template <int sign, int done>
  __device__ static void stages(C (&z)[each], void* shared, const double2* table) {
    const int t = thread(), at = t % done * (stride / done);
    const C root = round_to<C>(table[at + at / 8]), g = sign == forward ? root : conj(root);
    multiply_by_powers<each - 1>(z + 1, g, g);
    fft<each, sign>(z);
    if constexpr (each * done < points) {
      exchange(z, shared, t / done * (each * done) + t % done, [](int i) { return i * done; });
      stages<sign, each * done>(z, shared, table);
    }
  }

  // Number i to place base + offset(i), and what stands at x + i * stride instead. No offset carries the base over a
  // multiple of pad_every, so that both can be padded apart and every address is a register and a constant.
  template <class Offset>
  __device__ static void exchange(C (&z)[each], void* shared, int base, Offset) {
    constexpr auto padded = [](int at) { return at + at / pad_every; };
    auto* const all = static_cast<Element*>(shared) + threadIdx.y * row;
    Element *const to = all + padded(base), *const from = all + padded(thread());
    const auto turn_over = [&](auto part) {
      __syncthreads();
      unroll<each>([&](auto i) { to[std::integral_constant<int, padded(Offset()(i))>()] = part(z[i]); });
      __syncthreads();
      unroll<each>([&](auto i) { part(z[i]) = from[std::integral_constant<int, padded(i * stride)>()]; });
    };
    if constexpr (halves) {
      turn_over([](C& x) -> Element& { return x.x; });
      turn_over([](C& x) -> Element& { return x.y; });
    } else {
      turn_over([](C& x) -> Element& { return x; });
    }
  }
};

__device__ inline double2 times_i(double2 x) { return {-x.y, x.x}; }
__device__ inline double2 reciprocal(double2 x) { return 1.0 / fma(x.x, x.x, x.y * x.y) * conj(x); }

}  // namespace rtf::cuda
