#include "cuda/cauchy.h"
#include "cuda/launch.h"
#include "cuda/pair_lanes.h"

namespace rtf::cuda {
namespace {

// A pair a +- ib with coefficient v is one quotient with real numbers: (i alpha s - beta) / (p - 2 i a s), alpha = 2 Re
// v, beta = 2 Re(v conj(l)), p = a^2 + b^2 - s^2. With r = p d and e = 2 a d, d = 1 / (p^2 + (2 a s)^2), it is
// -(beta r + s^2 alpha e) + i s (alpha r - beta e): sums of alpha r, beta r, alpha e and beta e make y, and s comes in
// at the end. 7 operations and one reciprocal a pair and point, and 4 more for every sum.
constexpr int threads = 128;
constexpr int each = 4;       // points of a thread
constexpr int chunk = 64;     // pairs in shared memory
constexpr int most_sums = 6;  // that share a reciprocal: all of a bidirectional S4 of rank 1
// Points in shared memory while the gradient is added up.
template <class T>
constexpr int back_tile = 1024 / sizeof(T);

// A number and what rounding took off it: near a pole a^2 + b^2 - s^2 keeps its digits in float32.
template <class T>
struct Split {
  T high, low;
};
// x^2 + more
template <class T>
__device__ __forceinline__ Split<T> square(double x, double more = 0) {
  const double product = x * x, rest = fma(x, x, -product) + more;
  if constexpr (sizeof(T) == sizeof(double)) {
    return {product, rest};
  } else {
    const double sum = product + rest;
    const T high = static_cast<T>(sum);
    return {high, static_cast<T>(sum - high)};
  }
}

__device__ __forceinline__ float reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));  // off by one unit in the last place
  return y;
}
__device__ __forceinline__ double reciprocal(double x) {
  double y;
  asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));  // 20 bits, and twice as many with each step
  y = fma(y, fma(-x, y, 1.0), y);
  return fma(y, fma(-x, y, 1.0), y);
}

// Read by all threads at one time, so in one load.
template <class T>
struct alignas(4 * sizeof(T) > 16 ? 16 : 4 * sizeof(T)) Pole {
  Split<T> size;      // a^2 + b^2
  T twice, fourfold;  // 2 a, 4 a^2
};
template <class T>
struct alignas(2 * sizeof(T)) Coefficient {
  T alpha, beta;
};

template <class T>
__device__ __forceinline__ Pole<T> pole_of(double a, double b) {
  return {square<T>(b, a * a), static_cast<T>(2 * a), static_cast<T>(4 * a * a)};
}
template <class T>
__device__ __forceinline__ Coefficient<T> coefficient_of(const double* v, double a, double b) {
  return {static_cast<T>(2 * v[0]), static_cast<T>(2 * (v[0] * a + v[1] * b))};
}

// d and r at the point whose square is `s`.
template <class T>
__device__ __forceinline__ void quotient(const Pole<T>& pole, const Split<T>& s, T& d, T& r) {
  const T p = (pole.size.high - s.high) + (pole.size.low - s.low);
  d = reciprocal(fma(p, p, pole.fourfold * s.high));
  r = p * d;
}

// A block has `threads * each` points of a row, and `sums` of its sums; blockIdx.x counts rows of `tiles` blocks.
template <class T, int sums>
__global__ void __launch_bounds__(threads) cauchy_kernel(CauchyArguments arguments, int first_sum, int tiles, T* y) {
  __shared__ Pole<T> poles[chunk];
  __shared__ Coefficient<T> coefficients[chunk][sums];
  const std::int64_t row = blockIdx.x / tiles, pairs = arguments.pairs, points = arguments.points;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x % tiles) * threads * each + threadIdx.x;
  const auto point = [&](int i) {
    const std::int64_t at = first + i * threads;
    return arguments.points_at[at < points ? at : points - 1];
  };
  Split<T> s[each];
  T with_r[each][sums][2] = {}, with_e[each][sums][2] = {};  // alpha, beta
#pragma unroll
  for (int i = 0; i < each; ++i) s[i] = square<T>(point(i));
  for (std::int64_t begin = 0; begin < pairs; begin += chunk) {
    const int count = static_cast<int>(pairs - begin < chunk ? pairs - begin : chunk);
    __syncthreads();
    for (int j = threadIdx.x; j < count; j += threads) {
      const double* pole = arguments.poles + 2 * (row * pairs + begin + j);
      poles[j] = pole_of<T>(pole[0], pole[1]);
      for (int m = 0; m < sums; ++m) {
        const double* v = arguments.v + 2 * ((row * arguments.sums + first_sum + m) * pairs + begin + j);
        coefficients[j][m] = coefficient_of<T>(v, pole[0], pole[1]);
      }
    }
    __syncthreads();
    for (int j = 0; j < count; ++j) {
      const Pole<T> pole = poles[j];
      T r[each], e[each];
#pragma unroll
      for (int i = 0; i < each; ++i) {
        T d;
        quotient(pole, s[i], d, r[i]);
        e[i] = pole.twice * d;
      }
#pragma unroll
      for (int m = 0; m < sums; ++m) {
        const Coefficient<T> c = coefficients[j][m];
#pragma unroll
        for (int i = 0; i < each; ++i) {
          with_r[i][m][0] = fma(c.alpha, r[i], with_r[i][m][0]);
          with_r[i][m][1] = fma(c.beta, r[i], with_r[i][m][1]);
          with_e[i][m][0] = fma(c.alpha, e[i], with_e[i][m][0]);
          with_e[i][m][1] = fma(c.beta, e[i], with_e[i][m][1]);
        }
      }
    }
  }
#pragma unroll
  for (int i = 0; i < each; ++i) {
    const std::int64_t at = first + i * threads;
    if (at >= points) continue;
    const T here = static_cast<T>(point(i));
#pragma unroll
    for (int m = 0; m < sums; ++m) {
      const Coefficient<T> result = {-fma(s[i].high, with_e[i][m][0], with_r[i][m][1]),
                                     here * (with_r[i][m][0] - with_e[i][m][1])};
      reinterpret_cast<Coefficient<T>*>(y)[(row * arguments.sums + first_sum + m) * points + at] = result;
    }
  }
}

// The gradient (g, h) of one sum at a point as g and s h.
template <class T>
struct alignas(2 * sizeof(T)) Gradient {
  T real, imaginary;
};

// A lane a pair, so that sums over points need no exchange until the end. blockIdx.x counts rows of `shares` blocks,
// each of which has every `shares`-th tile of points; blockIdx.z counts 32 pairs. A point adds W = U r - 2 a (G s^2 +
// H) d to the product of y and its gradient, where U = sum alpha s h - beta g, G = sum alpha g and H = sum beta s h
// over the sums. The slope of W is U d - 2 r W along p, and -s^2 d W along 4 a^2.
template <class T, int sums>
__global__ void __launch_bounds__(threads)
    cauchy_backward_kernel(CauchyArguments arguments, int first_sum, CauchyParts parts, const T* dy, double* v_parts,
                           double* pole_parts) {
  constexpr int tile = back_tile<T>;
  __shared__ Split<T> s[tile];
  __shared__ Gradient<T> gradients[tile][sums];
  const int shares = static_cast<int>(parts.shares);
  const std::int64_t row = blockIdx.x / shares, share = blockIdx.x % shares;
  const std::int64_t pairs = arguments.pairs, points = arguments.points;
  const PairLanes lanes(pairs);
  double a = -1, b = 0, v[sums][2] = {};
  if (lanes.inside) {
    a = arguments.poles[2 * (row * pairs + lanes.pair)];
    b = arguments.poles[2 * (row * pairs + lanes.pair) + 1];
    for (int m = 0; m < sums; ++m) {
      const double* at = arguments.v + 2 * ((row * arguments.sums + first_sum + m) * pairs + lanes.pair);
      v[m][0] = at[0];
      v[m][1] = at[1];
    }
  }
  const Pole<T> pole = pole_of<T>(a, b);
  Coefficient<T> c[sums];
#pragma unroll
  for (int m = 0; m < sums; ++m) c[m] = coefficient_of<T>(v[m], a, b);
  // Of every sum s h r, g r, s^2 g d and s h d; then U d, r W and s^2 d W.
  double all[4 * sums + 3] = {};
  for (std::int64_t first = share * tile; first < points; first += std::int64_t{shares} * tile) {
    const int count = static_cast<int>(points - first < tile ? points - first : tile);
    __syncthreads();
    for (int i = threadIdx.x; i < count; i += threads) {
      const double at = arguments.points_at[first + i];
      s[i] = square<T>(at);
      for (int m = 0; m < sums; ++m) {
        const T* from = dy + 2 * ((row * arguments.sums + first_sum + m) * points + first + i);
        gradients[i][m] = {from[0], static_cast<T>(at) * from[1]};
      }
    }
    __syncthreads();
    T total[4 * sums + 3] = {};  // as `all`, of this tile: the rounding of float32 does not grow with the points
#pragma unroll 2
    for (int i = lanes.stream; i < count; i += lanes.streams) {
      T d, r, u = 0, alpha_g = 0, beta_h = 0;
      const Split<T> at = s[i];
      quotient(pole, at, d, r);
      const T sd = at.high * d;
#pragma unroll
      for (int m = 0; m < sums; ++m) {
        const Gradient<T> g = gradients[i][m];
        total[4 * m] = fma(g.imaginary, r, total[4 * m]);
        total[4 * m + 1] = fma(g.real, r, total[4 * m + 1]);
        total[4 * m + 2] = fma(g.real, sd, total[4 * m + 2]);
        total[4 * m + 3] = fma(g.imaginary, d, total[4 * m + 3]);
        u = fma(c[m].alpha, g.imaginary, fma(-c[m].beta, g.real, u));
        alpha_g = fma(c[m].alpha, g.real, alpha_g);
        beta_h = fma(c[m].beta, g.imaginary, beta_h);
      }
      const T product = fma(u, r, -pole.twice * fma(alpha_g, sd, beta_h * d));
      total[4 * sums] = fma(u, d, total[4 * sums]);
      total[4 * sums + 1] = fma(r, product, total[4 * sums + 1]);
      total[4 * sums + 2] = fma(sd, product, total[4 * sums + 2]);
    }
#pragma unroll
    for (int i = 0; i < 4 * sums + 3; ++i) all[i] += total[i];
  }
  double sum[4 * sums + 3];
  if (!lanes.add_streams<threads>(all, sum)) return;
  const double to_p = sum[4 * sums] - 2 * sum[4 * sums + 1];
  double to_a = 2 * a * to_p - 8 * a * sum[4 * sums + 2], to_b = 2 * b * to_p;
  for (int m = 0; m < sums; ++m) {
    const double to_alpha = sum[4 * m] - 2 * a * sum[4 * m + 2], to_beta = -sum[4 * m + 1] - 2 * a * sum[4 * m + 3];
    const double alpha = 2 * v[m][0], beta = 2 * (v[m][0] * a + v[m][1] * b);
    double* to = v_parts + 2 * (((share * arguments.rows + row) * arguments.sums + first_sum + m) * pairs + lanes.pair);
    to[0] = 2 * to_alpha + 2 * a * to_beta;
    to[1] = 2 * b * to_beta;
    // Through beta, and through the 2 a of e.
    to_a += 2 * v[m][0] * to_beta - 2 * (alpha * sum[4 * m + 2] + beta * sum[4 * m + 3]);
    to_b += 2 * v[m][1] * to_beta;
  }
  double* to =
      pole_parts + 2 * (((share * parts.groups + first_sum / most_sums) * arguments.rows + row) * pairs + lanes.pair);
  to[0] = to_a;
  to[1] = to_b;
}

// run(T(), number of sums as a constant, first of them) for at most `most_sums` sums after the other.
template <class Run>
void each_group(const CauchyArguments& arguments, Run run) {
  with_type(arguments.type, [&](auto zero) {
    using T = Arithmetic<decltype(zero)>;
    for (int first = 0; first < arguments.sums; first += most_sums)
      with_one_of<1, 2, 3, 4, 5, most_sums>(static_cast<int>(arguments.sums) - first,
                                            [&](auto sums) { run(T(), sums, first); });
  });
}

}  // namespace

void cauchy(const CauchyArguments& arguments, void* y) {
  const std::int64_t tiles = ceil_div(arguments.points, threads * each);
  const dim3 grid(static_cast<unsigned>(tiles * arguments.rows));
  each_group(arguments, [&](auto zero, auto sums, int first) {
    using T = decltype(zero);
    launch("cauchy", cauchy_kernel<T, sums>, grid, threads, 0, arguments.stream, arguments, first,
           static_cast<int>(tiles), static_cast<T*>(y));
  });
}

CauchyParts cauchy_parts(const CauchyArguments& arguments) {
  const bool wide = arguments.type == Type::float64;
  const std::int64_t tiles = ceil_div(arguments.points, wide ? back_tile<double> : back_tile<float>);
  return {point_shares(tiles, arguments.rows, arguments.pairs), ceil_div(arguments.sums, most_sums)};
}

void cauchy_backward(const CauchyArguments& arguments, const void* dy, double* v_parts, double* pole_parts) {
  const CauchyParts parts = cauchy_parts(arguments);
  const dim3 grid(static_cast<unsigned>(parts.shares * arguments.rows), 1,
                  static_cast<unsigned>(ceil_div(arguments.pairs, 32)));
  each_group(arguments, [&](auto zero, auto sums, int first) {
    using T = decltype(zero);
    launch("cauchy_backward", cauchy_backward_kernel<T, sums>, grid, threads, 0, arguments.stream, arguments, first,
           parts, static_cast<const T*>(dy), v_parts, pole_parts);
  });
}

}  // namespace rtf::cuda
