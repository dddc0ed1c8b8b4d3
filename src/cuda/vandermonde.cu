#include "cuda/launch.h"
#include "cuda/pair_lanes.h"
#include "cuda/vandermonde.h"

namespace rtf::cuda {
namespace {

constexpr int threads = 128, warps = threads / 32;
constexpr int columns = 4;                      // lags of a thread in a stretch, `threads` apart
constexpr int stretch = threads * columns;      // consecutive lags
constexpr int chunk = 32;                       // pairs in shared memory
constexpr int digits = 5;                       // of a lane
constexpr int back_tile = 2048, back_rows = 8;  // lags of a block of the gradient, and how many a thread has at once

template <class T>
struct Complex {
  T re, im;
};

template <class T>
__device__ __forceinline__ Complex<T> multiply(const Complex<T>& x, const Complex<T>& y) {
  return {fma(x.re, y.re, -x.im * y.im), fma(x.re, y.im, x.im * y.re)};
}

// z^t in double: large powers come from the logarithm.
__device__ Complex<double> power(const double* log_z, double t) {
  const double size = exp(t * log_z[0]);
  double sine, cosine;
  sincos(t * log_z[1], &sine, &cosine);
  return {size * cosine, size * sine};
}

template <class T>
__device__ Complex<T> narrow(const Complex<double>& x) {
  return {static_cast<T>(x.re), static_cast<T>(x.im)};
}

// A block has `stretches` stretches of a row: lag = first + stretch i + threads q + thread. The powers of a pair are
// products of z^(threads q + thread), which a thread keeps for all i, and 2 c z^(first + stretch i), which all threads
// share: two operations a lag and pair. Few powers are made in double, one warp for each kind, and the others of them.
// blockIdx.x counts rows of `tiles` blocks.
template <class T, int stretches>
__global__ void __launch_bounds__(threads) vandermonde_kernel(VandermondeArguments arguments, int tiles, T* k) {
  __shared__ Complex<T> start[chunk][stretches], small[chunk][32], large[chunk][warps], step[chunk];
  __shared__ Complex<T> digit[chunk][digits];  // z^1, z^2, z^4, ...
  static_assert(threads / chunk == 4 && warps == 4, "a warp for each kind of powers");
  const std::int64_t row = blockIdx.x / tiles, pairs = arguments.pairs;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x % tiles) * stretch * stretches;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  T sum[stretches][columns] = {};
  for (std::int64_t begin = 0; begin < pairs; begin += chunk) {
    const int count = static_cast<int>(pairs - begin < chunk ? pairs - begin : chunk);
    __syncthreads();
    if (lane < count) {
      const std::int64_t at = 2 * (row * pairs + begin + lane);
      const double* log_z = arguments.log_z + at;
      if (warp == 0) {
        Complex<double> z = power(log_z, 1);
        for (int i = 0; i < digits; ++i) {
          digit[lane][i] = narrow<T>(z);
          z = multiply(z, z);
        }
      } else if (warp == 1) {
        const Complex<double> on = power(log_z, 32);
        Complex<double> z = {1, 0};
        for (int i = 0; i < warps; ++i) {
          large[lane][i] = narrow<T>(z);
          z = multiply(z, on);
        }
        step[lane] = narrow<T>(z);
      } else {
        const int from = warp == 2 ? 0 : stretches / 2;
        const double lag = static_cast<double>(first + stretch * from);
        const Complex<double> c = {2 * arguments.c[at], 2 * arguments.c[at + 1]}, on = power(log_z, stretch);
        Complex<double> z = multiply(c, power(log_z, lag));
        for (int i = from; i < from + stretches / 2; ++i) {
          start[lane][i] = narrow<T>(z);
          z = multiply(z, on);
        }
      }
    }
    __syncthreads();
    for (int j = warp; j < count; j += warps) {
      Complex<T> z = {1, 0};
#pragma unroll
      for (int i = 0; i < digits; ++i)
        if (lane >> i & 1) z = multiply(z, digit[j][i]);
      small[j][lane] = z;
    }
    __syncthreads();
    for (int j = 0; j < count; ++j) {
      Complex<T> w[columns] = {multiply(large[j][warp], small[j][lane])};
      const Complex<T> on = step[j];
#pragma unroll
      for (int q = 1; q < columns; ++q) w[q] = multiply(w[q - 1], on);
#pragma unroll
      for (int i = 0; i < stretches; ++i) {
        const Complex<T> c = start[j][i];
#pragma unroll
        for (int q = 0; q < columns; ++q) sum[i][q] = fma(c.re, w[q].re, fma(-c.im, w[q].im, sum[i][q]));
      }
    }
  }
#pragma unroll
  for (int i = 0; i < stretches; ++i)
#pragma unroll
    for (int q = 0; q < columns; ++q) {
      const std::int64_t lag = first + stretch * i + threads * q + threadIdx.x;
      if (lag < arguments.length) k[row * arguments.length + lag] = sum[i][q];
    }
}

// A lane a pair. blockIdx.x counts rows of `shares` blocks, each of which has every `shares`-th tile of lags;
// blockIdx.z counts 32 pairs. Each stream has a part of the tile, and goes through `back_rows` pieces of it at once,
// which share their powers of z but for a factor.
template <class T>
__global__ void __launch_bounds__(threads)
    vandermonde_backward_kernel(VandermondeArguments arguments, int shares, const T* dk, double* c_parts,
                                double* log_z_parts) {
  __shared__ T gradient[back_tile];
  const std::int64_t row = blockIdx.x / shares, share = blockIdx.x % shares;
  const std::int64_t pairs = arguments.pairs, length = arguments.length;
  const PairLanes lanes(pairs);
  const std::int64_t at = 2 * (row * pairs + (lanes.inside ? lanes.pair : 0));
  const double* log_z = arguments.log_z + at;
  const int piece = back_tile / lanes.streams / back_rows, begin = lanes.stream * piece * back_rows;  // 2 to 64 lags
  const Complex<T> z = narrow<T>(power(log_z, 1));
  const Complex<double> on = power(log_z, piece);
  double all[4] = {};  // of g z^t, then of t g z^t
  for (std::int64_t first = share * back_tile; first < length; first += std::int64_t{shares} * back_tile) {
    __syncthreads();
    for (int i = threadIdx.x; i < back_tile; i += threads)
      gradient[i] = first + i < length ? dk[row * length + first + i] : T(0);
    __syncthreads();
    Complex<T> w = {1, 0}, sums[back_rows] = {},
               moments[back_rows] = {};  // of g z^j and of j g z^j, j inside the piece
    for (int j = 0; j < piece; ++j) {
      const Complex<T> weighted = {static_cast<T>(j) * w.re, static_cast<T>(j) * w.im};
#pragma unroll
      for (int i = 0; i < back_rows; ++i) {
        const T g = gradient[begin + i * piece + j];
        sums[i] = {fma(g, w.re, sums[i].re), fma(g, w.im, sums[i].im)};
        moments[i] = {fma(g, weighted.re, moments[i].re), fma(g, weighted.im, moments[i].im)};
      }
      w = multiply(w, z);
    }
    T total[4] = {};  // as `all`, t counted from the tile's first lag
    Complex<double> before = power(log_z, static_cast<double>(first + begin));
#pragma unroll
    for (int i = 0; i < back_rows; ++i) {
      const Complex<T> factor = narrow<T>(before), s = multiply(factor, sums[i]), m = multiply(factor, moments[i]);
      const T lag = static_cast<T>(begin + i * piece);
      total[0] += s.re;
      total[1] += s.im;
      total[2] += fma(lag, s.re, m.re);
      total[3] += fma(lag, s.im, m.im);
      before = multiply(before, on);
    }
    const double lag = static_cast<double>(first);
    all[0] += total[0];
    all[1] += total[1];
    all[2] += fma(lag, static_cast<double>(total[0]), static_cast<double>(total[2]));
    all[3] += fma(lag, static_cast<double>(total[1]), static_cast<double>(total[3]));
  }
  double sum[4];
  if (!lanes.add_streams<threads>(all, sum)) return;
  // k = 2 Re(c z^t): its gradients are 2 conj(z^t) and 2 t conj(c z^t).
  const Complex<double> to =
      multiply(Complex<double>{arguments.c[at], arguments.c[at + 1]}, Complex<double>{sum[2], sum[3]});
  const std::int64_t part = share * arguments.rows * pairs * 2 + at;
  c_parts[part] = 2 * sum[0];
  c_parts[part + 1] = -2 * sum[1];
  log_z_parts[part] = 2 * to.re;
  log_z_parts[part + 1] = -2 * to.im;
}

}  // namespace

std::int64_t vandermonde_shares(const VandermondeArguments& arguments) {
  return point_shares(ceil_div(arguments.length, back_tile), arguments.rows, arguments.pairs);
}

void vandermonde(const VandermondeArguments& arguments, void* k) {
  // The more of them share a thread's powers the better, as long as there are lags for all.
  const int wanted = arguments.length > 4 * stretch ? 8 : arguments.length > 2 * stretch ? 4 : 2;
  with_type(arguments.type, [&](auto zero) {
    using T = Arithmetic<decltype(zero)>;
    with_one_of<2, 4, 8>(wanted, [&](auto stretches) {
      constexpr int tile = stretch * stretches;
      const std::int64_t tiles = ceil_div(arguments.length, tile);
      const dim3 grid(static_cast<unsigned>(tiles * arguments.rows));
      launch("vandermonde", vandermonde_kernel<T, stretches>, grid, threads, 0, arguments.stream, arguments,
             static_cast<int>(tiles), static_cast<T*>(k));
    });
  });
}

void vandermonde_backward(const VandermondeArguments& arguments, const void* dk, double* c_parts, double* log_z_parts) {
  const std::int64_t shares = vandermonde_shares(arguments);
  const dim3 grid(static_cast<unsigned>(shares * arguments.rows), 1,
                  static_cast<unsigned>(ceil_div(arguments.pairs, 32)));
  with_type(arguments.type, [&](auto zero) {
    using T = Arithmetic<decltype(zero)>;
    launch("vandermonde_backward", vandermonde_backward_kernel<T>, grid, threads, 0, arguments.stream, arguments,
           static_cast<int>(shares), static_cast<const T*>(dk), c_parts, log_z_parts);
  });
}

}  // namespace rtf::cuda
