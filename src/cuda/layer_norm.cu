#include <algorithm>

#include "cuda/device.h"
#include "cuda/layer_norm.h"
#include "cuda/partial_sums.h"
#include "rtf/error.h"

namespace rtf::cuda {
namespace {

// A block takes `tile` neighbouring positions and all their channels, twice: for the sums out of memory, then out of
// the cache. Its threads stand in rows of tile / width, a channel each.
constexpr int threads = 512;
constexpr int tile = 32;
constexpr int most_blocks = 512;  // of the gradient, each with sums of its own for the parameters

template <int width>
struct Tile {
  static constexpr int lanes = tile / width;
  static constexpr int rows = threads / lanes;

  std::int64_t b, l, length, channels;
  int row = static_cast<int>(threadIdx.x) / lanes;
  int first = static_cast<int>(threadIdx.x) % lanes * width;  // position in the tile
  bool inside;                                                // whether this thread's positions exist

  __device__ Tile(std::int64_t index, std::int64_t length_, std::int64_t channels_)
      : length(length_), channels(channels_) {
    const std::int64_t along = (length + tile - 1) / tile;
    b = index / along;
    l = index % along * tile + first;
    inside = l < length;
  }
  __device__ std::int64_t offset(std::int64_t channel) const { return (b * channels + channel) * length + l; }
  __device__ std::int64_t position() const { return b * length + l; }
};

// Two sums for each position of the tile over all rows of threads, in every thread of its column.
template <class A, int width>
__device__ void sum_over_rows(const Tile<width>& at, Values<A, width>& first, Values<A, width>& second) {
  constexpr int rows = Tile<width>::rows;
  __shared__ A sums[2][rows][tile];
  __syncthreads();  // whoever read them before is done
#pragma unroll
  for (int i = 0; i < width; ++i) {
    sums[0][at.row][at.first + i] = first.at[i];
    sums[1][at.row][at.first + i] = second.at[i];
  }
#pragma unroll
  for (int half = rows / 2; half > 0; half /= 2) {
    __syncthreads();
    for (int j = static_cast<int>(threadIdx.x); j < 2 * half * tile; j += threads) {
      const int which = j / (half * tile), row = j / tile % half, column = j % tile;
      sums[which][row][column] += sums[which][row + half][column];
    }
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < width; ++i) {
    first.at[i] = sums[0][0][at.first + i];
    second.at[i] = sums[1][0][at.first + i];
  }
}

__device__ float inverse_root(float x) { return 1 / sqrtf(x); }
__device__ double inverse_root(double x) { return 1 / sqrt(x); }

template <class T, class Outer, int width>
__global__ void __launch_bounds__(threads)
    layer_norm_kernel(const T* x, const Arithmetic<T>* weight, const Arithmetic<T>* bias, Outer* y, Arithmetic<T>* mean,
                      Arithmetic<T>* inverse, Arithmetic<T> eps, std::int64_t length, std::int64_t channels) {
  using A = Arithmetic<T>;
  const Tile<width> at(blockIdx.x, length, channels);
  Values<double, width> origin = {}, sum = {}, squares = {};
  if (at.inside && at.row < channels) {
    // Around a number among them the squares are small, whatever the mean is. Each thread takes its own first: one that
    // lies far from the others then costs the digits of no other thread's. They come together in double.
    const auto own = load<A, width>(x + at.offset(at.row));
    Values<A, width> own_sum = {}, own_squares = {};
#pragma unroll 8
    for (std::int64_t c = at.row; c < channels; c += at.rows) {
      const auto values = load<A, width>(x + at.offset(c));
#pragma unroll
      for (int i = 0; i < width; ++i) {
        const A value = values.at[i] - own.at[i];
        own_sum.at[i] += value;
        own_squares.at[i] += value * value;
      }
    }
    origin = load<double, width>(x + at.offset(0));
    const auto count = static_cast<double>((channels - at.row + at.rows - 1) / at.rows);
#pragma unroll
    for (int i = 0; i < width; ++i) {
      const double apart = own.at[i] - origin.at[i], total = own_sum.at[i];
      sum.at[i] = total + count * apart;
      squares.at[i] = own_squares.at[i] + apart * (2 * total + count * apart);
    }
  }
  sum_over_rows(at, sum, squares);
  if (!at.inside || at.row >= channels) return;
  Values<A, width> middle, scale;
  const double share = 1 / static_cast<double>(channels);
#pragma unroll
  for (int i = 0; i < width; ++i) {
    const double shift = sum.at[i] * share, variance = squares.at[i] * share - shift * shift;
    middle.at[i] = static_cast<A>(origin.at[i] + shift);
    scale.at[i] = inverse_root(static_cast<A>(variance < 0 ? 0 : variance) + eps);  // nan stays nan
  }
  if (at.row == 0) {
    store<A, width>(mean + at.position(), middle);
    store<A, width>(inverse + at.position(), scale);
  }
#pragma unroll 4
  for (std::int64_t c = at.row; c < channels; c += at.rows) {
    auto values = load<A, width>(x + at.offset(c));
#pragma unroll
    for (int i = 0; i < width; ++i) values.at[i] = (values.at[i] - middle.at[i]) * scale.at[i] * weight[c] + bias[c];
    store<A, width>(y + at.offset(c), values);
  }
}

// partial: (blocks, 2, channels).
template <class T, class Outer, int width>
__global__ void __launch_bounds__(threads)
    layer_norm_backward_kernel(const T* x, const Arithmetic<T>* weight, const Outer* dy, const T* more_dx, T* dx,
                               const Arithmetic<T>* mean, const Arithmetic<T>* inverse, Arithmetic<T>* partial,
                               std::int64_t tiles, std::int64_t length, std::int64_t channels) {
  using A = Arithmetic<T>;
  A* weight_sums = partial + 2 * channels * blockIdx.x;
  A* bias_sums = weight_sums + channels;
  for (std::int64_t index = blockIdx.x; index < tiles; index += gridDim.x) {
    const Tile<width> at(index, length, channels);
    Values<A, width> middle = {}, scale = {}, sum = {}, products = {};
    if (at.inside) {
      middle = load<A, width>(mean + at.position());
      scale = load<A, width>(inverse + at.position());
    }
    // All threads of a row go round together: they sum for their channel.
#pragma unroll 4
    for (std::int64_t c = at.row; c < channels; c += at.rows) {
      Values<A, width> values = {}, gradients = {};
      if (at.inside) {
        values = load<A, width>(x + at.offset(c));
        gradients = load<A, width>(dy + at.offset(c));
      }
      A to_weight = 0, to_bias = 0;
#pragma unroll
      for (int i = 0; i < width; ++i) {
        const A normalized = (values.at[i] - middle.at[i]) * scale.at[i];
        to_weight += gradients.at[i] * normalized;
        to_bias += gradients.at[i];
        sum.at[i] += gradients.at[i] * weight[c];
        products.at[i] += gradients.at[i] * weight[c] * normalized;
      }
#pragma unroll
      for (int offset = at.lanes / 2; offset > 0; offset /= 2) {
        const unsigned row_lanes = width == 1 ? ~0u : 0xFFu << (threadIdx.x % 32 / 8 * 8);
        to_weight += __shfl_xor_sync(row_lanes, to_weight, offset);
        to_bias += __shfl_xor_sync(row_lanes, to_bias, offset);
      }
      if (at.first == 0) {
        const bool more = index >= gridDim.x;
        weight_sums[c] = more ? weight_sums[c] + to_weight : to_weight;
        bias_sums[c] = more ? bias_sums[c] + to_bias : to_bias;
      }
    }
    sum_over_rows(at, sum, products);
    if (!at.inside) continue;
#pragma unroll
    for (int i = 0; i < width; ++i) {
      sum.at[i] /= static_cast<A>(channels);
      products.at[i] /= static_cast<A>(channels);
    }
#pragma unroll 4
    for (std::int64_t c = at.row; c < channels; c += at.rows) {
      const auto values = load<A, width>(x + at.offset(c)), gradients = load<A, width>(dy + at.offset(c));
      Values<A, width> result = {};
      if (more_dx != nullptr) result = load<A, width>(more_dx + at.offset(c));
#pragma unroll
      for (int i = 0; i < width; ++i) {
        const A normalized = (values.at[i] - middle.at[i]) * scale.at[i];
        result.at[i] += scale.at[i] * (gradients.at[i] * weight[c] - sum.at[i] - normalized * products.at[i]);
      }
      store<A, width>(dx + at.offset(c), result);
    }
  }
}

std::int64_t tiles_of(const LayerNormArguments& at) { return at.batch * ((at.length + tile - 1) / tile); }

unsigned gradient_blocks(const LayerNormArguments& at) {
  return static_cast<unsigned>(std::min<std::int64_t>(tiles_of(at), most_blocks));
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
    const auto kernel = vectors ? layer_norm_kernel<T, Outer, vector_width> : layer_norm_kernel<T, Outer, 1>;
    kernel<<<static_cast<unsigned>(tiles_of(at)), threads, 0, at.stream>>>(
        static_cast<const T*>(at.x), static_cast<const A*>(at.weight), static_cast<const A*>(bias),
        static_cast<Outer*>(y), static_cast<A*>(at.mean), static_cast<A*>(at.inverse), static_cast<A>(eps), at.length,
        at.channels);
    check("layer_norm", cudaGetLastError());
  });
}

std::size_t layer_norm_backward_workspace_bytes(const LayerNormArguments& at) {
  return std::size_t{gradient_blocks(at)} * 2 * static_cast<std::size_t>(at.channels) *
         (at.type == Type::float64 ? 8 : 4);
}

void layer_norm_backward(const LayerNormArguments& at, const void* dy, const void* more_dx, void* dx,
                         void* weight_gradient, void* bias_gradient, void* workspace) {
  with_types("layer_norm_backward", at, [&](auto zero, auto outer_zero) {
    using T = decltype(zero);
    using Outer = decltype(outer_zero);
    using A = Arithmetic<T>;
    const bool vectors = vectorizable(at.length, sizeof(T), at.x, more_dx, dx) &&
                         vectorizable(at.length, sizeof(Outer), dy) &&
                         vectorizable(at.length, sizeof(A), at.mean, at.inverse);
    const auto kernel =
        vectors ? layer_norm_backward_kernel<T, Outer, vector_width> : layer_norm_backward_kernel<T, Outer, 1>;
    const unsigned blocks = gradient_blocks(at);
    kernel<<<blocks, threads, 0, at.stream>>>(
        static_cast<const T*>(at.x), static_cast<const A*>(at.weight), static_cast<const Outer*>(dy),
        static_cast<const T*>(more_dx), static_cast<T*>(dx), static_cast<const A*>(at.mean),
        static_cast<const A*>(at.inverse), static_cast<A*>(workspace), tiles_of(at), at.length, at.channels);
    check("layer_norm_backward", cudaGetLastError());
    const A* partial = static_cast<const A*>(workspace);
    sum_partials("layer_norm_backward", partial, blocks, 2 * at.channels, at.channels, static_cast<A*>(weight_gradient),
                 at.stream);
    sum_partials("layer_norm_backward", partial + at.channels, blocks, 2 * at.channels, at.channels,
                 static_cast<A*>(bias_gradient), at.stream);
  });
}

}  // namespace rtf::cuda
