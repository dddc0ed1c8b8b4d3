#include "cuda/layer_norm.h"

#include <algorithm>
#include <cstdlib>

#include "cuda/device.h"
#include "cuda/partial_sums.h"
#include "rtf/error.h"

namespace rtf::cuda {
namespace {

// A block takes `tile` neighbouring positions and all their channels. Its threads stand in rows of tile / width, a channel
// each. What they read first stays in registers and the rest in the cache, so that every number comes from memory once.
constexpr int most_threads = 512;
constexpr int forward_kept = 16, backward_kept = 8;  // channels of a thread
constexpr int most_blocks = 512;  // of the gradient, each with sums of its own for the parameters

template <int tile, int width>
struct Tile {
  static constexpr int lanes = tile / width;
  static constexpr int most_rows = most_threads / lanes;

  std::int64_t length, channels, first;  // first: offset of channel 0
  std::int64_t position;
  int row = static_cast<int>(threadIdx.x) / lanes, rows = static_cast<int>(blockDim.x) / lanes;
  int column = static_cast<int>(threadIdx.x) % lanes * width;  // position in the tile
  bool inside;                                                  // whether this thread's positions exist

  __device__ Tile(std::int64_t index, std::int64_t length_, std::int64_t channels_)
      : length(length_), channels(channels_) {
    const std::int64_t along = (length + tile - 1) / tile, b = index / along, l = index % along * tile + column;
    first = b * channels * length + l;
    position = b * length + l;
    inside = l < length;
  }
  __device__ std::int64_t offset(std::int64_t channel) const { return first + channel * length; }

  // Of a channel that exists, and zeros otherwise.
  template <class A, class T>
  __device__ Values<A, width> read(const T* from, std::int64_t channel) const {
    return inside && channel < channels ? load<A, width>(from + offset(channel)) : Values<A, width>{};
  }

  // The sum over the threads of this row, in each of them.
  template <class A>
  __device__ A row_sum(A value) const {
    const unsigned mine = lanes == 32 ? ~0u : ((1u << lanes) - 1) << (threadIdx.x % 32 / lanes * lanes);
#pragma unroll
    for (int step = lanes / 2; step > 0; step /= 2) value += __shfl_xor_sync(mine, value, step);
    return value;
  }

  // Two sums for each position over all rows, in every thread of its column.
  template <class A>
  __device__ void column_sums(Values<A, width>& left, Values<A, width>& right) const {
    __shared__ A sums[2][most_rows][tile];
    __syncthreads();  // whoever read them before is done
#pragma unroll
    for (int i = 0; i < width; ++i) {
      sums[0][row][column + i] = left.at[i];
      sums[1][row][column + i] = right.at[i];
    }
    for (int half = rows / 2; half > 0; half /= 2) {
      __syncthreads();
      for (int j = static_cast<int>(threadIdx.x); j < 2 * half * tile; j += static_cast<int>(blockDim.x)) {
        const int which = j / (half * tile), r = j / tile % half, c = j % tile;
        sums[which][r][c] += sums[which][r + half][c];
      }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < width; ++i) {
      left.at[i] = sums[0][0][column + i];
      right.at[i] = sums[1][0][column + i];
    }
  }
};

__device__ float inverse_root(float x) { return 1 / sqrtf(x); }
__device__ double inverse_root(double x) { return 1 / sqrt(x); }

template <class T, class Outer, int tile, int width>
__global__ void __launch_bounds__(most_threads)
    layer_norm_kernel(const T* x, const Arithmetic<T>* weight, const Arithmetic<T>* bias, Outer* y, Arithmetic<T>* mean,
                      Arithmetic<T>* inverse, Arithmetic<T> eps, std::int64_t length, std::int64_t channels) {
  using A = Arithmetic<T>;
  const Tile<tile, width> at(blockIdx.x, length, channels);
  Values<A, width> kept[forward_kept], sum = {}, squares = {};
#pragma unroll
  for (int k = 0; k < forward_kept; ++k) kept[k] = at.template read<A>(x, at.row + k * at.rows);
  // Around the first channel the squares are small, whatever the mean is.
  const Values<A, width> origin = at.template read<A>(x, 0);
  const auto add = [&](const Values<A, width>& values) {
#pragma unroll
    for (int i = 0; i < width; ++i) {
      const A value = values.at[i] - origin.at[i];
      sum.at[i] += value;
      squares.at[i] += value * value;
    }
  };
#pragma unroll
  for (int k = 0; k < forward_kept; ++k)
    if (at.row + k * at.rows < channels) add(kept[k]);
#pragma unroll 4
  for (std::int64_t c = at.row + forward_kept * at.rows; c < channels; c += at.rows) add(at.template read<A>(x, c));
  at.column_sums(sum, squares);
  if (!at.inside) return;
  Values<A, width> middle, scale;
#pragma unroll
  for (int i = 0; i < width; ++i) {
    const A shift = sum.at[i] / static_cast<A>(channels);
    middle.at[i] = origin.at[i] + shift;
    scale.at[i] = inverse_root(max(A(0), squares.at[i] / static_cast<A>(channels) - shift * shift) + eps);
  }
  if (at.row == 0) {
    store<A, width>(mean + at.position, middle);
    store<A, width>(inverse + at.position, scale);
  }
  const auto finish = [&](Values<A, width> values, std::int64_t c) {
    const A w = weight[c], b = bias[c];
#pragma unroll
    for (int i = 0; i < width; ++i) values.at[i] = (values.at[i] - middle.at[i]) * scale.at[i] * w + b;
    store<A, width>(y + at.offset(c), values);
  };
#pragma unroll
  for (int k = 0; k < forward_kept; ++k)
    if (at.row + k * at.rows < channels) finish(kept[k], at.row + k * at.rows);
#pragma unroll 4
  for (std::int64_t c = at.row + forward_kept * at.rows; c < channels; c += at.rows)
    finish(at.template read<A>(x, c), c);
}

// partial: (blocks, 2, channels).
template <class T, class Outer, int tile, int width>
__global__ void __launch_bounds__(most_threads)
    layer_norm_backward_kernel(const T* x, const Arithmetic<T>* weight, const Outer* dy, const T* residual, T* dx,
                               const Arithmetic<T>* mean, const Arithmetic<T>* inverse, Arithmetic<T>* partial,
                               std::int64_t tiles, std::int64_t length, std::int64_t channels) {
  using A = Arithmetic<T>;
  A* weight_sums = partial + 2 * channels * blockIdx.x;
  A* bias_sums = weight_sums + channels;
  for (std::int64_t index = blockIdx.x; index < tiles; index += gridDim.x) {
    const Tile<tile, width> at(index, length, channels);
    Values<A, width> kept_x[backward_kept], kept_dy[backward_kept];
#pragma unroll
    for (int k = 0; k < backward_kept; ++k) {
      kept_x[k] = at.template read<A>(x, at.row + k * at.rows);
      kept_dy[k] = at.template read<A>(dy, at.row + k * at.rows);
    }
    Values<A, width> middle = {}, scale = {}, sum = {}, products = {};
    if (at.inside) {
      middle = load<A, width>(mean + at.position);
      scale = load<A, width>(inverse + at.position);
    }
    // All threads of a row come here together: they sum for their channel.
    const auto add = [&](const Values<A, width>& values, const Values<A, width>& gradients, std::int64_t c) {
      const A w = weight[c];
      A to_weight = 0, to_bias = 0;
#pragma unroll
      for (int i = 0; i < width; ++i) {
        const A product = gradients.at[i] * (values.at[i] - middle.at[i]) * scale.at[i];
        to_weight += product;
        to_bias += gradients.at[i];
        sum.at[i] += gradients.at[i] * w;
        products.at[i] += product * w;
      }
      to_weight = at.row_sum(to_weight);
      to_bias = at.row_sum(to_bias);
      if (at.column == 0) {
        const bool more = index >= gridDim.x;
        weight_sums[c] = more ? weight_sums[c] + to_weight : to_weight;
        bias_sums[c] = more ? bias_sums[c] + to_bias : to_bias;
      }
    };
#pragma unroll
    for (int k = 0; k < backward_kept; ++k)
      if (at.row + k * at.rows < channels) add(kept_x[k], kept_dy[k], at.row + k * at.rows);
#pragma unroll 2
    for (std::int64_t c = at.row + backward_kept * at.rows; c < channels; c += at.rows)
      add(at.template read<A>(x, c), at.template read<A>(dy, c), c);
    at.column_sums(sum, products);
    if (!at.inside) continue;
#pragma unroll
    for (int i = 0; i < width; ++i) {
      sum.at[i] /= static_cast<A>(channels);
      products.at[i] /= static_cast<A>(channels);
    }
    const auto finish = [&](const Values<A, width>& values, const Values<A, width>& gradients, std::int64_t c) {
      const A w = weight[c];
      Values<A, width> result = {};
      if (residual != nullptr) result = at.template read<A>(residual, c);
#pragma unroll
      for (int i = 0; i < width; ++i) {
        const A normalized = (values.at[i] - middle.at[i]) * scale.at[i];
        result.at[i] += scale.at[i] * (gradients.at[i] * w - sum.at[i] - normalized * products.at[i]);
      }
      store<A, width>(dx + at.offset(c), result);
    };
#pragma unroll
    for (int k = 0; k < backward_kept; ++k)
      if (at.row + k * at.rows < channels) finish(kept_x[k], kept_dy[k], at.row + k * at.rows);
#pragma unroll 2
    for (std::int64_t c = at.row + backward_kept * at.rows; c < channels; c += at.rows)
      finish(at.template read<A>(x, c), at.template read<A>(dy, c), c);
  }
}

// Threads of a block: as many as keep all channels in registers, where that is possible.
unsigned threads_of(std::int64_t channels, int lanes, int kept) {
  unsigned threads = 64;
  while (threads < most_threads && threads / lanes * static_cast<unsigned>(kept) < channels) threads *= 2;
  return threads;
}

std::int64_t tiles_of(const LayerNormArguments& at, int tile) { return at.batch * ((at.length + tile - 1) / tile); }

unsigned gradient_blocks(const LayerNormArguments& at, int tile) {
  return static_cast<unsigned>(std::min<std::int64_t>(tiles_of(at, tile), most_blocks));
}

// compute(T(), Outer()).
template <class Compute>
void with_types(const char* operation, const LayerNormArguments& at, Compute&& compute) {
  if (at.type == Type::float32 && at.outer == Type::bfloat16) return compute(float(), __nv_bfloat16());
  if (at.type != at.outer) throw Error(ErrorCode::argument, operation, "x and y have types that do not go together");
  with_type(at.type, [&](auto zero) { compute(zero, zero); });
}

}  // namespace

void layer_norm(const LayerNormArguments& at, const void* bias, double eps, void* y) {
  with_types("layer_norm", at, [&](auto zero, auto outer_zero) {
    using T = decltype(zero);
    using Outer = decltype(outer_zero);
    using A = Arithmetic<T>;
    const bool vectors = vectorizable(at.length, sizeof(T), at.x) && vectorizable(at.length, sizeof(Outer), y) &&
                         vectorizable(at.length, sizeof(A), at.mean, at.inverse);
    const int tile = getenv("TILE") && atoi(getenv("TILE")) == 16 && vectors ? 16 : 32;
    const auto kernel = !vectors ? layer_norm_kernel<T, Outer, 32, 1> : tile == 16 ? layer_norm_kernel<T, Outer, 16, vector_width> : layer_norm_kernel<T, Outer, 32, vector_width>;
    const unsigned threads = threads_of(at.channels, vectors ? tile / vector_width : tile, forward_kept);
    kernel<<<static_cast<unsigned>(tiles_of(at, tile)), threads, 0, at.stream>>>(
        static_cast<const T*>(at.x), static_cast<const A*>(at.weight), static_cast<const A*>(bias),
        static_cast<Outer*>(y), static_cast<A*>(at.mean), static_cast<A*>(at.inverse), static_cast<A>(eps), at.length,
        at.channels);
    check("layer_norm", cudaGetLastError());
  });
}

std::size_t layer_norm_backward_workspace_bytes(const LayerNormArguments& at) {
  return std::size_t{gradient_blocks(at, 16)} * 2 * static_cast<std::size_t>(at.channels) *
         (at.type == Type::float64 ? 8 : 4);
}

void layer_norm_backward(const LayerNormArguments& at, const void* dy, const void* residual, void* dx,
                         void* weight_gradient, void* bias_gradient, void* workspace) {
  with_types("layer_norm_backward", at, [&](auto zero, auto outer_zero) {
    using T = decltype(zero);
    using Outer = decltype(outer_zero);
    using A = Arithmetic<T>;
    const bool vectors = vectorizable(at.length, sizeof(T), at.x, residual, dx) &&
                         vectorizable(at.length, sizeof(Outer), dy) &&
                         vectorizable(at.length, sizeof(A), at.mean, at.inverse);
    const int tile = getenv("TILE") && atoi(getenv("TILE")) == 16 && vectors ? 16 : 32;
    const auto kernel = !vectors ? layer_norm_backward_kernel<T, Outer, 32, 1> : tile == 16 ? layer_norm_backward_kernel<T, Outer, 16, vector_width> : layer_norm_backward_kernel<T, Outer, 32, vector_width>;
    const unsigned blocks = gradient_blocks(at, tile);
    const unsigned threads = threads_of(at.channels, vectors ? tile / vector_width : tile, backward_kept);
    kernel<<<blocks, threads, 0, at.stream>>>(
        static_cast<const T*>(at.x), static_cast<const A*>(at.weight), static_cast<const Outer*>(dy),
        static_cast<const T*>(residual), static_cast<T*>(dx), static_cast<const A*>(at.mean),
        static_cast<const A*>(at.inverse), static_cast<A*>(workspace), tiles_of(at, tile), at.length, at.channels);
    check("layer_norm_backward", cudaGetLastError());
    const A* partial = static_cast<const A*>(workspace);
    sum_partials("layer_norm_backward", partial, blocks, 2 * at.channels, at.channels, static_cast<A*>(weight_gradient),
                 at.stream);
    sum_partials("layer_norm_backward", partial + at.channels, blocks, 2 * at.channels, at.channels,
                 static_cast<A*>(bias_gradient), at.stream);
  });
}

}  // namespace rtf::cuda
