#include <cooperative_groups.h>

#include <algorithm>

#include "cuda/batch_norm.h"
#include "cuda/device.h"
#include "rtf/error.h"

namespace rtf::cuda {
namespace {

namespace groups = cooperative_groups;

// A cluster of blocks takes one channel: it sums all rows of the channel and then goes over them again. The first turns
// of its threads stay in registers and the others in the cache, so that every number comes from memory once. More
// blocks a channel mean fewer channels at a time, which fit the cache.
constexpr int threads = 256, blocks_at_once = 2;
constexpr int most_blocks = 8;  // of a cluster, on every device that has them
constexpr int turn = 4;         // steps that a thread takes together
// Turns that it keeps: of x alone, and of x and the gradient.
constexpr int forward_kept = 4, backward_kept = 2;

__device__ std::uint32_t cluster_size() {
#if __CUDA_ARCH__ >= 900
  return groups::this_cluster().num_blocks();
#else
  return 1;
#endif
}
__device__ std::uint32_t cluster_rank() {
#if __CUDA_ARCH__ >= 900
  return groups::this_cluster().block_rank();
#else
  return 0;
#endif
}

struct Sums {
  double first, second;
};

// The sum over 32 lanes, in every lane.
__device__ Sums warp_sum(Sums sums) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    sums.first += __shfl_xor_sync(~0u, sums.first, offset);
    sums.second += __shfl_xor_sync(~0u, sums.second, offset);
  }
  return sums;
}

// The sums over all threads of the cluster, in every thread.
__device__ Sums cluster_sum(Sums sums) {
  __shared__ Sums of_warps[threads / 32], of_block;
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  sums = warp_sum(sums);
  if (lane == 0) of_warps[warp] = sums;
  __syncthreads();
  if (warp == 0) {
    sums = warp_sum(lane < threads / 32 ? of_warps[lane] : Sums{0, 0});
    if (lane == 0) of_block = sums;
  }
#if __CUDA_ARCH__ >= 900
  const auto cluster = groups::this_cluster();
  if (cluster.num_blocks() > 1) {
    __shared__ Sums of_cluster;
    cluster.sync();
    if (warp == 0) {
      sums = warp_sum(lane < cluster.num_blocks() ? *cluster.map_shared_rank(&of_block, lane) : Sums{0, 0});
      if (lane == 0) of_cluster = sums;
    }
    cluster.sync();  // no block may leave while another reads its sums
    return of_cluster;
  }
#endif
  __syncthreads();
  return of_block;
}

// A channel's numbers, `width` of them a step, and which steps are this thread's: `turn` of them at a time.
template <int width>
class Share {
 public:
  template <class A>
  using Steps = Values<A, width>[turn];

  __device__ Share(std::int64_t batch, std::int64_t length, std::int64_t channels)
      : row_(channels * length),
        first_(channel() * length),
        along_(static_cast<std::uint32_t>(length / width)),
        steps_(static_cast<std::uint32_t>(batch) * along_),
        stride_(cluster_size() * threads),
        stride_rows_(stride_ / along_),
        stride_along_(stride_ % along_) {}

  __device__ static std::int64_t channel() { return blockIdx.x / cluster_size(); }
  // The first step of turn k.
  __device__ std::uint32_t begin(int k) const { return cluster_rank() * threads + threadIdx.x + k * turn * stride_; }
  __device__ std::uint32_t next(std::uint32_t at) const { return at + turn * stride_; }
  __device__ bool ends(std::uint32_t at) const { return at >= steps_; }
  __device__ bool exists(std::uint32_t at, int j) const { return at + j * stride_ < steps_; }

  // The steps of a turn that exist, and `otherwise` for the others.
  template <class A, class T>
  __device__ void read(const T* from, std::uint32_t at, Steps<A>& values, A otherwise = 0) const {
    each(at, [&](int j, std::int64_t offset) {
      if (offset >= 0) {
        values[j] = load<A, width>(from + offset);
      } else {
#pragma unroll
        for (int i = 0; i < width; ++i) values[j].at[i] = otherwise;
      }
    });
  }
  template <class A, class T>
  __device__ void write(T* to, std::uint32_t at, const Steps<A>& values) const {
    each(at, [&](int j, std::int64_t offset) {
      if (offset >= 0) store<A, width>(to + offset, values[j]);
    });
  }

 private:
  // body(j, where step j of the turn lies), -1 where there is none. One division a turn.
  template <class Body>
  __device__ void each(std::uint32_t at, Body&& body) const {
    std::uint32_t b = at / along_, l = at % along_;
#pragma unroll
    for (int j = 0; j < turn; ++j) {
      body(j, exists(at, j) ? first_ + row_ * b + std::int64_t{l} * width : -1);
      b += stride_rows_;
      l += stride_along_;
      if (l >= along_) {
        l -= along_;
        ++b;
      }
    }
  }

  std::int64_t row_, first_;
  std::uint32_t along_, steps_, stride_, stride_rows_, stride_along_;
};

struct Shape {
  std::int64_t batch, length, channels;
};

template <class T, class Outer, int width>
__global__ void __launch_bounds__(threads, blocks_at_once)
    batch_norm_kernel(const T* x, const Arithmetic<T>* weight, const Arithmetic<T>* bias, Outer* y, double* mean,
                      double* variance, double eps, Shape shape, Arithmetic<T>* running_mean,
                      Arithmetic<T>* running_variance, double momentum) {
  using A = Arithmetic<T>;
  const Share<width> share(shape.batch, shape.length, shape.channels);
  const std::int64_t channel = share.channel();
  // Around the first number the squares are small, whatever the mean is.
  const A origin = widen(x[channel * shape.length]);
  Sums sums{0, 0};
  using Steps = Values<A, width>[turn];
  Steps kept[forward_kept], values;
  const auto add = [&](const Steps& some) {  // past the end they are the origin
#pragma unroll
    for (int j = 0; j < turn; ++j) {
      A total = 0, square = 0;
#pragma unroll
      for (int i = 0; i < width; ++i) {
        const A value = some[j].at[i] - origin;
        total += value;
        square += value * value;
      }
      sums.first += total;
      sums.second += square;
    }
  };
#pragma unroll
  for (int k = 0; k < forward_kept; ++k) share.read(x, share.begin(k), kept[k], origin);
#pragma unroll
  for (int k = 0; k < forward_kept; ++k) add(kept[k]);
  for (std::uint32_t at = share.begin(forward_kept); !share.ends(at); at = share.next(at)) {
    share.read(x, at, values, origin);
    add(values);
  }
  sums = cluster_sum(sums);
  const auto n = static_cast<double>(shape.batch * shape.length);
  const double shift = sums.first / n, center = origin + shift;
  const double rounded = sums.second / n - shift * shift, spread = rounded < 0 ? 0 : rounded;  // nan stays nan
  if (cluster_rank() == 0 && threadIdx.x == 0) {
    mean[channel] = center;
    variance[channel] = spread;
    if (running_mean != nullptr) {
      const auto move = [&](A& average, double value) { average += static_cast<A>(momentum * (value - average)); };
      move(running_mean[channel], center);
      move(running_variance[channel], n > 1 ? spread * (n / (n - 1)) : spread);
    }
  }
  const A middle = static_cast<A>(center), scale = static_cast<A>(weight[channel] / sqrt(spread + eps));
  const A added = bias[channel];
  const auto normalize = [&](Steps& some, std::uint32_t at) {
#pragma unroll
    for (int j = 0; j < turn; ++j)
#pragma unroll
      for (int i = 0; i < width; ++i) some[j].at[i] = (some[j].at[i] - middle) * scale + added;
    share.write(y, at, some);
  };
#pragma unroll
  for (int k = 0; k < forward_kept; ++k) normalize(kept[k], share.begin(k));
  for (std::uint32_t at = share.begin(forward_kept); !share.ends(at); at = share.next(at)) {
    share.read(x, at, values);
    normalize(values, at);
  }
}

template <class T, class Outer, int width>
__global__ void __launch_bounds__(threads, blocks_at_once)
    batch_norm_backward_kernel(const T* x, const Arithmetic<T>* weight, const Outer* dy, const T* more_dy,
                               const T* more_dx, T* dx, Arithmetic<T>* weight_gradient, Arithmetic<T>* bias_gradient,
                               const double* mean, const double* variance, double eps, Shape shape) {
  using A = Arithmetic<T>;
  const Share<width> share(shape.batch, shape.length, shape.channels);
  const std::int64_t channel = share.channel();
  const A middle = static_cast<A>(mean[channel]);
  Sums sums{0, 0};
  using Steps = Values<A, width>[turn];
  Steps kept_x[backward_kept], kept_dy[backward_kept], values, gradients;
  const auto add = [&](const Steps& some, const Steps& gradient) {
#pragma unroll
    for (int j = 0; j < turn; ++j) {  // past the end the gradient is 0
      A total = 0, product = 0;
#pragma unroll
      for (int i = 0; i < width; ++i) {
        total += gradient[j].at[i];
        product += gradient[j].at[i] * (some[j].at[i] - middle);
      }
      sums.first += total;
      sums.second += product;
    }
  };
  const auto read_gradient = [&](std::uint32_t at, Steps& gradient) {
    share.read(dy, at, gradient);
    if (more_dy == nullptr) return;
    Steps more;
    share.read(more_dy, at, more);
#pragma unroll
    for (int j = 0; j < turn; ++j)
#pragma unroll
      for (int i = 0; i < width; ++i) gradient[j].at[i] += more[j].at[i];
  };
#pragma unroll
  for (int k = 0; k < backward_kept; ++k) {
    share.read(x, share.begin(k), kept_x[k]);
    read_gradient(share.begin(k), kept_dy[k]);
  }
#pragma unroll
  for (int k = 0; k < backward_kept; ++k) add(kept_x[k], kept_dy[k]);
  for (std::uint32_t at = share.begin(backward_kept); !share.ends(at); at = share.next(at)) {
    share.read(x, at, values);
    read_gradient(at, gradients);
    add(values, gradients);
  }
  sums = cluster_sum(sums);
  const auto n = static_cast<double>(shape.batch * shape.length);
  const double inverse = 1 / sqrt(variance[channel] + eps);
  // `middle` is the mean rounded to A; the sums were taken around it.
  const double product = sums.second + (static_cast<double>(middle) - mean[channel]) * sums.first;
  if (cluster_rank() == 0 && threadIdx.x == 0) {
    bias_gradient[channel] = static_cast<A>(sums.first);
    weight_gradient[channel] = static_cast<A>(product * inverse);
  }
  const A scale = static_cast<A>(weight[channel] * inverse), offset = static_cast<A>(sums.first / n);
  const A slope = static_cast<A>(product * inverse * inverse / n);
  const auto finish = [&](const Steps& some, const Steps& gradient, std::uint32_t at) {
    Steps result = {};
    if (more_dx != nullptr) share.read(more_dx, at, result);
#pragma unroll
    for (int j = 0; j < turn; ++j)
#pragma unroll
      for (int i = 0; i < width; ++i)
        result[j].at[i] += scale * (gradient[j].at[i] - offset - (some[j].at[i] - middle) * slope);
    share.write(dx, at, result);
  };
#pragma unroll
  for (int k = 0; k < backward_kept; ++k) finish(kept_x[k], kept_dy[k], share.begin(k));
  for (std::uint32_t at = share.begin(backward_kept); !share.ends(at); at = share.next(at)) {
    share.read(x, at, values);
    read_gradient(at, gradients);
    finish(values, gradients, at);
  }
}

// Blocks of a cluster: as many as it takes to keep a channel in registers.
unsigned blocks_of_channel(std::int64_t count, int width, int kept) {
  if (compiled_capability() < 90) return 1;
  const std::int64_t of_block = std::int64_t{width} * threads * turn * kept;
  unsigned blocks = 1;
  while (blocks < most_blocks && blocks * of_block < count) blocks *= 2;
  return blocks;
}

template <class Kernel, class... Arguments>
void launch(const char* operation, Kernel* kernel, const BatchNormArguments& at, int width, int kept,
            Arguments... arguments) {
  if (at.batch * at.length >= std::int64_t{1} << 31)
    throw Error(ErrorCode::unsupported, operation, "2^31 positions or more; a smaller batch is needed");
  const unsigned blocks = blocks_of_channel(at.batch * at.length, width, kept);
  cudaLaunchConfig_t config = {};
  config.gridDim = blocks * static_cast<unsigned>(at.channels);
  config.blockDim = threads;
  config.stream = at.stream;
  cudaLaunchAttribute cluster;
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {blocks, 1, 1};
  config.attrs = &cluster;
  config.numAttrs = blocks > 1 ? 1 : 0;
  check(operation, cudaLaunchKernelEx(&config, kernel, arguments...));
}

// compute(T(), Outer()).
template <class Compute>
void with_types(const char* operation, const BatchNormArguments& at, Compute&& compute) {
  if (at.type == Type::float32 && at.outer == Type::bfloat16) return compute(float(), __nv_bfloat16());
  if (at.type != at.outer) throw Error(ErrorCode::argument, operation, "x and y have types that do not go together");
  with_type(at.type, [&](auto zero) { compute(zero, zero); });
}

}  // namespace

void batch_norm(const BatchNormArguments& at, const void* bias, void* y, const RunningStatistics& running) {
  with_types("batch_norm", at, [&](auto zero, auto outer_zero) {
    using T = decltype(zero);
    using Outer = decltype(outer_zero);
    using A = Arithmetic<T>;
    const bool vectors = vectorizable(at.length, sizeof(T), at.x) && vectorizable(at.length, sizeof(Outer), y);
    const int width = vectors ? vector_width : 1;
    launch("batch_norm", vectors ? batch_norm_kernel<T, Outer, vector_width> : batch_norm_kernel<T, Outer, 1>, at,
           width, forward_kept, static_cast<const T*>(at.x), static_cast<const A*>(at.weight),
           static_cast<const A*>(bias), static_cast<Outer*>(y), at.mean, at.variance, at.eps,
           Shape{at.batch, at.length, at.channels}, static_cast<A*>(running.mean), static_cast<A*>(running.variance),
           running.momentum);
  });
}

void batch_norm_backward(const BatchNormArguments& at, const void* dy, const BatchNormSums& added, void* dx,
                         void* weight_gradient, void* bias_gradient) {
  with_types("batch_norm_backward", at, [&](auto zero, auto outer_zero) {
    using T = decltype(zero);
    using Outer = decltype(outer_zero);
    using A = Arithmetic<T>;
    const bool vectors =
        vectorizable(at.length, sizeof(T), at.x, added.dy, added.dx, dx) && vectorizable(at.length, sizeof(Outer), dy);
    const int width = vectors ? vector_width : 1;
    launch("batch_norm_backward",
           vectors ? batch_norm_backward_kernel<T, Outer, vector_width> : batch_norm_backward_kernel<T, Outer, 1>, at,
           width, backward_kept, static_cast<const T*>(at.x), static_cast<const A*>(at.weight),
           static_cast<const Outer*>(dy), static_cast<const T*>(added.dy), static_cast<const T*>(added.dx),
           static_cast<T*>(dx), static_cast<A*>(weight_gradient), static_cast<A*>(bias_gradient),
           static_cast<const double*>(at.mean), static_cast<const double*>(at.variance), at.eps,
           Shape{at.batch, at.length, at.channels});
  });
}

}  // namespace rtf::cuda
