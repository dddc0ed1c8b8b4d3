#include "cuda/batch_norm.h"

#include <cooperative_groups.h>

#include <algorithm>

#include "cuda/device.h"
#include "rtf/error.h"

namespace rtf::cuda {
namespace {

namespace groups = cooperative_groups;

// A cluster of blocks takes one channel: it sums all rows of the channel and then goes over them again. The first turn
// of its threads stays in registers and the others in the cache, so that every number comes from memory once. More
// blocks a channel mean fewer channels at a time, which fit the cache.
constexpr int threads = 256;
constexpr int most_blocks = 8;  // of a cluster, on every device that has them
constexpr int turn = 4;         // steps that a thread reads before it computes

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

// The sums over all threads of the cluster, in every thread.
__device__ Sums cluster_sum(double first, double second) {
  __shared__ double scratch[threads / 32];
  __shared__ Sums of_block, total;
  first = block_sum(first, scratch);
  second = block_sum(second, scratch);
  if (threadIdx.x == 0) of_block = {first, second};
#if __CUDA_ARCH__ >= 900
  const auto cluster = groups::this_cluster();
  cluster.sync();
  if (threadIdx.x == 0) {
    Sums sum{0, 0};
    for (unsigned rank = 0; rank < cluster.num_blocks(); ++rank) {
      const Sums* part = cluster.map_shared_rank(&of_block, rank);
      sum.first += part->first;
      sum.second += part->second;
    }
    total = sum;
  }
  cluster.sync();  // no block may leave while another reads its sums
#else
  if (threadIdx.x == 0) total = of_block;
  __syncthreads();
#endif
  return total;
}

// A channel's numbers, `width` of them a step, and which steps are this thread's.
template <int width>
class Share {
 public:
  __device__ Share(std::int64_t batch, std::int64_t length, std::int64_t channels)
      : row_(channels * length),
        first_(channel() * length),
        along_(static_cast<std::uint32_t>(length / width)),
        steps_(static_cast<std::uint32_t>(batch) * along_),
        stride_(cluster_size() * threads) {}

  __device__ static std::int64_t channel() { return blockIdx.x / cluster_size(); }
  __device__ std::uint32_t begin() const { return cluster_rank() * threads + threadIdx.x; }
  __device__ std::uint32_t next(std::uint32_t at) const { return at + turn * stride_; }
  __device__ bool ends(std::uint32_t at) const { return at >= steps_; }

  // values[j] of the steps of a turn that exist, and 0 for the others.
  template <class A, class T>
  __device__ void read(const T* from, std::uint32_t at, Values<A, width> (&values)[turn]) const {
#pragma unroll
    for (int j = 0; j < turn; ++j)
      values[j] = at + j * stride_ < steps_ ? load<A, width>(from + offset(at + j * stride_)) : Values<A, width>{};
  }
  template <class A, class T>
  __device__ void write(T* to, std::uint32_t at, const Values<A, width> (&values)[turn]) const {
#pragma unroll
    for (int j = 0; j < turn; ++j)
      if (at + j * stride_ < steps_) store<A, width>(to + offset(at + j * stride_), values[j]);
  }
  // How many of the steps of a turn exist.
  __device__ int count(std::uint32_t at) const {
    return at >= steps_ ? 0 : static_cast<int>(min(std::uint32_t{turn}, (steps_ - at + stride_ - 1) / stride_));
  }

 private:
  __device__ std::int64_t offset(std::uint32_t step) const {
    return first_ + row_ * (step / along_) + std::int64_t{step % along_} * width;
  }

  std::int64_t row_, first_;
  std::uint32_t along_, steps_, stride_;
};

struct Shape {
  std::int64_t batch, length, channels;
};

template <class T, class Outer, int width>
__global__ void __launch_bounds__(threads)
    batch_norm_kernel(const T* x, const Arithmetic<T>* weight, const Arithmetic<T>* bias, Outer* y, double* mean,
                      double* variance, double eps, Shape shape, Arithmetic<T>* running_mean,
                      Arithmetic<T>* running_variance, double momentum) {
  using A = Arithmetic<T>;
  const Share<width> share(shape.batch, shape.length, shape.channels);
  const std::int64_t channel = share.channel();
  // Around the first number the squares are small, whatever the mean is.
  const A origin = widen(x[channel * shape.length]);
  double sum = 0, squares = 0;
  Values<A, width> kept[turn], values[turn];
  const auto add = [&](const Values<A, width>(&some)[turn], int count) {
#pragma unroll
    for (int j = 0; j < turn; ++j) {
      A total = 0, square = 0;
#pragma unroll
      for (int i = 0; i < width; ++i) {
        const A value = some[j].at[i] - origin;
        total += value;
        square += value * value;
      }
      if (j >= count) continue;
      sum += total;
      squares += square;
    }
  };
  const std::uint32_t begin = share.begin(), second = share.next(begin);
  share.read(x, begin, kept);
  add(kept, share.count(begin));
  for (std::uint32_t at = second; !share.ends(at); at = share.next(at)) {
    share.read(x, at, values);
    add(values, share.count(at));
  }
  const Sums sums = cluster_sum(sum, squares);
  const auto n = static_cast<double>(shape.batch * shape.length);
  const double shift = sums.first / n, center = origin + shift;
  const double spread = max(0.0, sums.second / n - shift * shift);
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
  const auto normalize = [&](Values<A, width>(&some)[turn], std::uint32_t at) {
#pragma unroll
    for (int j = 0; j < turn; ++j)
#pragma unroll
      for (int i = 0; i < width; ++i) some[j].at[i] = (some[j].at[i] - middle) * scale + added;
    share.write(y, at, some);
  };
  normalize(kept, begin);
  for (std::uint32_t at = second; !share.ends(at); at = share.next(at)) {
    share.read(x, at, values);
    normalize(values, at);
  }
}

template <class T, class Outer, int width>
__global__ void __launch_bounds__(threads)
    batch_norm_backward_kernel(const T* x, const Arithmetic<T>* weight, const Outer* dy, const T* residual, T* dx,
                               Arithmetic<T>* weight_gradient, Arithmetic<T>* bias_gradient, const double* mean,
                               const double* variance, double eps, Shape shape) {
  using A = Arithmetic<T>;
  const Share<width> share(shape.batch, shape.length, shape.channels);
  const std::int64_t channel = share.channel();
  const A middle = static_cast<A>(mean[channel]);
  double sum = 0, products = 0;
  Values<A, width> kept_x[turn], kept_dy[turn], values[turn], gradients[turn];
  const auto add = [&](const Values<A, width>(&some)[turn], const Values<A, width>(&gradient)[turn]) {
#pragma unroll
    for (int j = 0; j < turn; ++j) {  // past the end the gradient is 0
      A total = 0, product = 0;
#pragma unroll
      for (int i = 0; i < width; ++i) {
        total += gradient[j].at[i];
        product += gradient[j].at[i] * (some[j].at[i] - middle);
      }
      sum += total;
      products += product;
    }
  };
  const std::uint32_t begin = share.begin(), second = share.next(begin);
  share.read(x, begin, kept_x);
  share.read(dy, begin, kept_dy);
  add(kept_x, kept_dy);
  for (std::uint32_t at = second; !share.ends(at); at = share.next(at)) {
    share.read(x, at, values);
    share.read(dy, at, gradients);
    add(values, gradients);
  }
  const Sums sums = cluster_sum(sum, products);
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
  const auto finish = [&](const Values<A, width>(&some)[turn], const Values<A, width>(&gradient)[turn],
                          std::uint32_t at) {
    Values<A, width> result[turn] = {};
    if (residual != nullptr) share.read(residual, at, result);
#pragma unroll
    for (int j = 0; j < turn; ++j)
#pragma unroll
      for (int i = 0; i < width; ++i)
        result[j].at[i] += scale * (gradient[j].at[i] - offset - (some[j].at[i] - middle) * slope);
    share.write(dx, at, result);
  };
  finish(kept_x, kept_dy, begin);
  for (std::uint32_t at = second; !share.ends(at); at = share.next(at)) {
    share.read(x, at, values);
    share.read(dy, at, gradients);
    finish(values, gradients, at);
  }
}

// Blocks of a cluster: each gets a few turns of its threads.
unsigned blocks_of_channel(std::int64_t count, int width) {
  if (compiled_capability() < 90) return 1;
  const std::int64_t turns = count / (std::int64_t{width} * threads * turn);
  unsigned blocks = 1;
  while (blocks < most_blocks && 2 * blocks <= turns) blocks *= 2;
  return blocks;
}

template <class Kernel, class... Arguments>
void launch(const char* operation, Kernel* kernel, const BatchNormArguments& at, int width, Arguments... arguments) {
  if (at.batch * at.length >= std::int64_t{1} << 31)
    throw Error(ErrorCode::unsupported, operation, "2^31 positions or more; a smaller batch is needed");
  const unsigned blocks = blocks_of_channel(at.batch * at.length, width);
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
    launch("batch_norm", vectors ? batch_norm_kernel<T, Outer, vector_width> : batch_norm_kernel<T, Outer, 1>, at, width,
           static_cast<const T*>(at.x), static_cast<const A*>(at.weight), static_cast<const A*>(bias),
           static_cast<Outer*>(y), at.mean, at.variance, at.eps, Shape{at.batch, at.length, at.channels}, static_cast<A*>(running.mean),
           static_cast<A*>(running.variance), running.momentum);
  });
}

void batch_norm_backward(const BatchNormArguments& at, const void* dy, const void* residual, void* dx,
                         void* weight_gradient, void* bias_gradient) {
  with_types("batch_norm_backward", at, [&](auto zero, auto outer_zero) {
    using T = decltype(zero);
    using Outer = decltype(outer_zero);
    using A = Arithmetic<T>;
    const bool vectors = vectorizable(at.length, sizeof(T), at.x, residual, dx) &&
                         vectorizable(at.length, sizeof(Outer), dy);
    const int width = vectors ? vector_width : 1;
    launch("batch_norm_backward",
           vectors ? batch_norm_backward_kernel<T, Outer, vector_width> : batch_norm_backward_kernel<T, Outer, 1>, at,
           width, static_cast<const T*>(at.x), static_cast<const A*>(at.weight), static_cast<const Outer*>(dy),
           static_cast<const T*>(residual), static_cast<T*>(dx), static_cast<A*>(weight_gradient),
           static_cast<A*>(bias_gradient), static_cast<const double*>(at.mean),
           static_cast<const double*>(at.variance), at.eps, Shape{at.batch, at.length, at.channels});
  });
}

}  // namespace rtf::cuda
