#include "cuda/launch.h"
#include "cuda/pair_lanes.h"
#include "cuda/vandermonde.h"

namespace rtf::cuda {
namespace {

constexpr int threads = 128, warps = threads / 32;
constexpr int each = 16;              // lags of a thread, `threads` apart
constexpr int tile = threads * each;  // of a block
constexpr int chunk = 16;             // pairs in shared memory
constexpr int restart = 64;           // lags after which a running power of the gradient is made anew

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

// A block has `tile` lags of a row. Of every pair it makes z^lane, 2 c z^(first lag of each warp) and z^threads; a
// thread's first power is the product of two of them, and it goes on by the third. blockIdx.x counts rows of `tiles`
// blocks.
template <class T>
__global__ void __launch_bounds__(threads) vandermonde_kernel(VandermondeArguments arguments, int tiles, T* k) {
  __shared__ Complex<T> small[chunk][32], large[chunk][warps], step[chunk];
  const std::int64_t row = blockIdx.x / tiles, pairs = arguments.pairs;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x % tiles) * tile;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  T sum[each] = {};
  for (std::int64_t begin = 0; begin < pairs; begin += chunk) {
    const int count = static_cast<int>(pairs - begin < chunk ? pairs - begin : chunk);
    __syncthreads();
    constexpr int entries = 32 + warps + 1;
    for (int i = threadIdx.x; i < count * entries; i += threads) {
      const int j = i / entries, which = i % entries;
      const std::int64_t at = 2 * (row * pairs + begin + j);
      const double* log_z = arguments.log_z + at;
      if (which < 32) {
        small[j][which] = narrow<T>(power(log_z, which));
      } else if (which < 32 + warps) {
        const Complex<double> c = {2 * arguments.c[at], 2 * arguments.c[at + 1]};
        const double lag = static_cast<double>(first + 32 * (which - 32));
        large[j][which - 32] = narrow<T>(multiply(c, power(log_z, lag)));
      } else {
        step[j] = narrow<T>(power(log_z, threads));
      }
    }
    __syncthreads();
    for (int j = 0; j < count; ++j) {
      Complex<T> w = multiply(large[j][warp], small[j][lane]);
      const Complex<T> on = step[j];
#pragma unroll
      for (int i = 0; i < each; ++i) {
        sum[i] += w.re;
        w = multiply(w, on);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < each; ++i) {
    const std::int64_t lag = first + threadIdx.x + i * threads;
    if (lag < arguments.length) k[row * arguments.length + lag] = sum[i];
  }
}

// A lane a pair. blockIdx.x counts rows of `shares` blocks, each of which has every `shares`-th tile of lags;
// blockIdx.z counts 32 pairs. Each stream has a stretch of the tile.
template <class T>
__global__ void __launch_bounds__(threads)
    vandermonde_backward_kernel(VandermondeArguments arguments, int shares, const T* dk, double* c_parts,
                                double* log_z_parts) {
  __shared__ T gradient[tile];
  const std::int64_t row = blockIdx.x / shares, pairs = arguments.pairs, length = arguments.length;
  const std::int64_t share = blockIdx.x % shares;
  const PairLanes lanes(pairs);
  const std::int64_t at = 2 * (row * pairs + (lanes.inside ? lanes.pair : 0));
  const double* log_z = arguments.log_z + at;
  const int stretch = tile / lanes.streams, begin = lanes.stream * stretch;
  const Complex<T> z = narrow<T>(power(log_z, 1));
  double all[4] = {};  // of g z^t, then of t g z^t
  for (std::int64_t first = share * tile; first < length; first += std::int64_t{shares} * tile) {
    __syncthreads();
    for (int i = threadIdx.x; i < tile; i += threads)
      gradient[i] = first + i < length ? dk[row * length + first + i] : T(0);
    __syncthreads();
    T total[4] = {};  // the same, t counted from the tile's first lag
    for (int start = begin; start < begin + stretch; start += restart) {
      Complex<T> w = narrow<T>(power(log_z, static_cast<double>(first + start)));
      const int end = min(start + restart, begin + stretch);
      for (int i = start; i < end; ++i) {
        const T g = gradient[i], weighted = g * static_cast<T>(i);
        total[0] = fma(g, w.re, total[0]);
        total[1] = fma(g, w.im, total[1]);
        total[2] = fma(weighted, w.re, total[2]);
        total[3] = fma(weighted, w.im, total[3]);
        w = multiply(w, z);
      }
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

std::int64_t tiles_of(const VandermondeArguments& arguments) { return (arguments.length + tile - 1) / tile; }

}  // namespace

std::int64_t vandermonde_shares(const VandermondeArguments& arguments) {
  return point_shares(tiles_of(arguments), arguments.rows, arguments.pairs);
}

void vandermonde(const VandermondeArguments& arguments, void* k) {
  const std::int64_t tiles = tiles_of(arguments);
  const dim3 grid(static_cast<unsigned>(tiles * arguments.rows));
  with_type(arguments.type, [&](auto zero) {
    using T = Arithmetic<decltype(zero)>;
    launch("vandermonde", vandermonde_kernel<T>, grid, threads, 0, arguments.stream, arguments, static_cast<int>(tiles),
           static_cast<T*>(k));
  });
}

void vandermonde_backward(const VandermondeArguments& arguments, const void* dk, double* c_parts, double* log_z_parts) {
  const std::int64_t shares = vandermonde_shares(arguments);
  const dim3 grid(static_cast<unsigned>(shares * arguments.rows), 1,
                  static_cast<unsigned>((arguments.pairs + 31) / 32));
  with_type(arguments.type, [&](auto zero) {
    using T = Arithmetic<decltype(zero)>;
    launch("vandermonde_backward", vandermonde_backward_kernel<T>, grid, threads, 0, arguments.stream, arguments,
           static_cast<int>(shares), static_cast<const T*>(dk), c_parts, log_z_parts);
  });
}

}  // namespace rtf::cuda
