#include "cuda/cauchy.h"
#include "cuda/launch.h"
#include "cuda/pair_lanes.h"

namespace rtf::cuda {
namespace {

// A pair a +- ib with coefficient v is one quotient with real numbers: (i alpha s - beta) / (p + i q), alpha = 2 Re v,
// beta = 2 Re(v conj(l)), p = a^2 + (b - s)(b + s), q = -2 a s. 14 operations and one reciprocal a pair and point, and
// 4 more for every sum.
constexpr int threads = 128;
constexpr int each = 4;         // points of a thread
constexpr int chunk = 64;       // pairs in shared memory
constexpr int most_sums = 4;    // that share a reciprocal
constexpr int back_tile = 256;  // points of a block of the gradient

// A number and what rounding took off it: near a pole b - s keeps its digits in float32.
template <class T>
struct Split {
  T high, low;
};
template <class T>
__device__ __forceinline__ Split<T> split(double x) {
  const T high = static_cast<T>(x);
  return {high, static_cast<T>(x - high)};
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

template <class T>
struct Pole {
  Split<T> b;
  T square, twice;  // a^2, 2 a
};

// 1 / (p + i q)
template <class T>
__device__ __forceinline__ void quotient(const Pole<T>& pole, const Split<T>& s, T& re, T& im) {
  const T difference = (pole.b.high - s.high) + (pole.b.low - s.low);
  const T p = fma(difference, pole.b.high + s.high, pole.square), q = pole.twice * s.high;
  const T inverse = reciprocal(fma(p, p, q * q));
  re = p * inverse;
  im = q * inverse;  // q has the other sign already
}

template <class T>
__device__ __forceinline__ Pole<T> pole_of(const double* at) {
  Pole<T> pole;
  pole.b = split<T>(at[1]);
  pole.square = static_cast<T>(at[0] * at[0]);
  pole.twice = static_cast<T>(2 * at[0]);
  return pole;
}

// A block has `threads * each` points of a row, and `sums` of its sums; blockIdx.x counts rows of `tiles` blocks.
template <class T, int sums>
__global__ void __launch_bounds__(threads) cauchy_kernel(CauchyArguments arguments, int first_sum, int tiles, T* y) {
  __shared__ Pole<T> poles[chunk];
  __shared__ T alpha[chunk][sums], beta[chunk][sums];
  const std::int64_t row = blockIdx.x / tiles, pairs = arguments.pairs, points = arguments.points;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x % tiles) * threads * each + threadIdx.x;
  Split<T> s[each];
  T re[each][sums] = {}, im[each][sums] = {};
#pragma unroll
  for (int i = 0; i < each; ++i) {
    const std::int64_t at = first + i * threads;
    s[i] = split<T>(arguments.points_at[at < points ? at : points - 1]);
  }
  for (std::int64_t begin = 0; begin < pairs; begin += chunk) {
    const int count = static_cast<int>(pairs - begin < chunk ? pairs - begin : chunk);
    __syncthreads();
    for (int j = threadIdx.x; j < count; j += threads) {
      const double* pole = arguments.poles + 2 * (row * pairs + begin + j);
      poles[j] = pole_of<T>(pole);
      for (int m = 0; m < sums; ++m) {
        const double* v = arguments.v + 2 * ((row * arguments.sums + first_sum + m) * pairs + begin + j);
        alpha[j][m] = static_cast<T>(2 * v[0]);
        beta[j][m] = static_cast<T>(2 * (v[0] * pole[0] + v[1] * pole[1]));
      }
    }
    __syncthreads();
    for (int j = 0; j < count; ++j) {
      const Pole<T> pole = poles[j];
#pragma unroll
      for (int i = 0; i < each; ++i) {
        T qr, qi;
        quotient(pole, s[i], qr, qi);
        const T sr = s[i].high * qr, si = s[i].high * qi;
#pragma unroll
        for (int m = 0; m < sums; ++m) {
          re[i][m] = fma(-beta[j][m], qr, fma(-alpha[j][m], si, re[i][m]));
          im[i][m] = fma(-beta[j][m], qi, fma(alpha[j][m], sr, im[i][m]));
        }
      }
    }
  }
#pragma unroll
  for (int i = 0; i < each; ++i) {
    const std::int64_t at = first + i * threads;
    if (at >= points) continue;
#pragma unroll
    for (int m = 0; m < sums; ++m) {
      T* to = y + 2 * ((row * arguments.sums + first_sum + m) * points + at);
      to[0] = re[i][m];
      to[1] = im[i][m];
    }
  }
}

// A lane a pair, so that sums over points need no exchange until the end. blockIdx.x counts rows of `shares` blocks,
// each of which has every `shares`-th tile of points; blockIdx.z counts 32 pairs.
template <class T, int sums>
__global__ void __launch_bounds__(threads)
    cauchy_backward_kernel(CauchyArguments arguments, int first_sum, int groups, int shares, const T* dy,
                           double* v_parts, double* pole_parts) {
  __shared__ Split<T> s[back_tile];
  __shared__ T gradient[back_tile][sums][2];
  const std::int64_t row = blockIdx.x / shares, pairs = arguments.pairs, points = arguments.points;
  const std::int64_t share = blockIdx.x % shares;
  const PairLanes lanes(pairs);
  double a = -1, b = 0, v[sums][2] = {};
  T alpha[sums], beta[sums];
  if (lanes.inside) {
    a = arguments.poles[2 * (row * pairs + lanes.pair)];
    b = arguments.poles[2 * (row * pairs + lanes.pair) + 1];
    for (int m = 0; m < sums; ++m) {
      const double* at = arguments.v + 2 * ((row * arguments.sums + first_sum + m) * pairs + lanes.pair);
      v[m][0] = at[0];
      v[m][1] = at[1];
    }
  }
  const double pole_at[2] = {a, b};
  const Pole<T> pole = pole_of<T>(pole_at);
#pragma unroll
  for (int m = 0; m < sums; ++m) {
    alpha[m] = static_cast<T>(2 * v[m][0]);
    beta[m] = static_cast<T>(2 * (v[m][0] * a + v[m][1] * b));
  }
  double all[2 * sums + 2] = {};  // to alpha and beta of every sum; to p, and to q times s
  for (std::int64_t first = share * back_tile; first < points; first += std::int64_t{shares} * back_tile) {
    const int count = static_cast<int>(points - first < back_tile ? points - first : back_tile);
    __syncthreads();
    for (int i = threadIdx.x; i < count; i += threads) {
      s[i] = split<T>(arguments.points_at[first + i]);
      for (int m = 0; m < sums; ++m) {
        const T* from = dy + 2 * ((row * arguments.sums + first_sum + m) * points + first + i);
        gradient[i][m][0] = from[0];
        gradient[i][m][1] = from[1];
      }
    }
    __syncthreads();
    T total[2 * sums + 2] = {};
    for (int i = lanes.stream; i < count; i += lanes.streams) {
      T qr, qi;
      quotient(pole, s[i], qr, qi);
      const T at = s[i].high;
      T to_p = 0, to_q = 0;
#pragma unroll
      for (int m = 0; m < sums; ++m) {
        const T gr = gradient[i][m][0], gi = gradient[i][m][1];
        const T x = fma(gi, qi, gr * qr), y = fma(-gi, qr, gr * qi);  // conj(g) r
        total[2 * m] = fma(-at, y, total[2 * m]);
        total[2 * m + 1] -= x;
        const T slope = alpha[m] * at, nr = -fma(slope, qi, beta[m] * qr), ni = fma(slope, qr, -beta[m] * qi);
        to_p += fma(y, ni, -x * nr);
        to_q += fma(x, ni, y * nr);
      }
      total[2 * sums] += to_p;
      total[2 * sums + 1] = fma(at, to_q, total[2 * sums + 1]);
    }
#pragma unroll
    for (int i = 0; i < 2 * sums + 2; ++i) all[i] += total[i];
  }
  double sum[2 * sums + 2];
  if (!lanes.add_streams<threads>(all, sum)) return;
  double to_a = 2 * a * sum[2 * sums] - 2 * sum[2 * sums + 1], to_b = 2 * b * sum[2 * sums];
  for (int m = 0; m < sums; ++m) {
    const double to_alpha = sum[2 * m], to_beta = sum[2 * m + 1];
    double* to = v_parts + 2 * (((share * arguments.rows + row) * arguments.sums + first_sum + m) * pairs + lanes.pair);
    to[0] = 2 * to_alpha + 2 * a * to_beta;
    to[1] = 2 * b * to_beta;
    to_a += 2 * v[m][0] * to_beta;
    to_b += 2 * v[m][1] * to_beta;
  }
  double* to =
      pole_parts + 2 * (((share * groups + first_sum / most_sums) * arguments.rows + row) * pairs + lanes.pair);
  to[0] = to_a;
  to[1] = to_b;
}

std::int64_t pieces(std::int64_t whole, std::int64_t part) { return (whole + part - 1) / part; }

// run(T(), number of sums as a constant, first of them) for at most `most_sums` sums after the other.
template <class Run>
void each_group(const CauchyArguments& arguments, Run run) {
  with_type(arguments.type, [&](auto zero) {
    using T = Arithmetic<decltype(zero)>;
    for (int first = 0; first < arguments.sums; first += most_sums) {
      switch (arguments.sums - first) {
        case 1:
          run(T(), std::integral_constant<int, 1>(), first);
          break;
        case 2:
          run(T(), std::integral_constant<int, 2>(), first);
          break;
        case 3:
          run(T(), std::integral_constant<int, 3>(), first);
          break;
        default:
          run(T(), std::integral_constant<int, most_sums>(), first);
      }
    }
  });
}

}  // namespace

void cauchy(const CauchyArguments& arguments, void* y) {
  const std::int64_t tiles = pieces(arguments.points, threads * each);
  const dim3 grid(static_cast<unsigned>(tiles * arguments.rows));
  each_group(arguments, [&](auto zero, auto sums, int first) {
    using T = decltype(zero);
    launch("cauchy", cauchy_kernel<T, sums>, grid, threads, 0, arguments.stream, arguments, first,
           static_cast<int>(tiles), static_cast<T*>(y));
  });
}

CauchyParts cauchy_parts(const CauchyArguments& arguments) {
  return {point_shares(pieces(arguments.points, back_tile), arguments.rows, arguments.pairs),
          pieces(arguments.sums, most_sums)};
}

void cauchy_backward(const CauchyArguments& arguments, const void* dy, double* v_parts, double* pole_parts) {
  const CauchyParts parts = cauchy_parts(arguments);
  const dim3 grid(static_cast<unsigned>(parts.shares * arguments.rows), 1,
                  static_cast<unsigned>(pieces(arguments.pairs, 32)));
  each_group(arguments, [&](auto zero, auto sums, int first) {
    using T = decltype(zero);
    launch("cauchy_backward", cauchy_backward_kernel<T, sums>, grid, threads, 0, arguments.stream, arguments, first,
           static_cast<int>(parts.groups), static_cast<int>(parts.shares), static_cast<const T*>(dy), v_parts,
           pole_parts);
  });
}

}  // namespace rtf::cuda
