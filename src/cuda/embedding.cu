#include <algorithm>

#include "cuda/device.h"
#include "cuda/embedding.h"
#include "cuda/partial_sums.h"

namespace rtf::cuda {
namespace {

constexpr int threads = 256;
constexpr int group = 32;  // channels a thread copies

// A thread takes `width` positions, and of their rows `width` channels at a time, which it turns.
template <class T, int width>
__global__ void __launch_bounds__(threads)
    embedding_kernel(const std::int64_t* tokens, const T* weight, T* y, std::int64_t batch, std::int64_t length,
                     std::int64_t channels, std::int64_t vocabulary) {
  using A = Arithmetic<T>;
  const std::int64_t position = (std::int64_t{blockIdx.x} * threads + threadIdx.x) * width;
  if (position >= batch * length) return;
  const std::int64_t first = std::int64_t{blockIdx.y} * group;
  T* to = y + position / length * channels * length + position % length;
  const T* rows[width];
#pragma unroll
  for (int i = 0; i < width; ++i) {
    const std::int64_t token = tokens[position + i];
    rows[i] = token >= 0 && token < vocabulary ? weight + token * channels : nullptr;
  }
#pragma unroll 2
  for (std::int64_t c = first; c < min(first + group, channels); c += width) {
    Values<A, width> columns[width];
#pragma unroll
    for (int i = 0; i < width; ++i) {
      const auto row = rows[i] == nullptr ? Values<A, width>{} : load<A, width>(rows[i] + c);
#pragma unroll
      for (int k = 0; k < width; ++k)
        columns[k].at[i] = rows[i] == nullptr ? static_cast<A>(__int_as_float(0x7FC00000)) : row.at[k];
    }
#pragma unroll
    for (int k = 0; k < width; ++k) store<A, width>(to + (c + k) * length, columns[k]);
  }
}

template <class T, int width>
__global__ void __launch_bounds__(threads)
    spread_kernel(const T* x, const T* weight, const T* bias, T* y, std::int64_t batch, std::int64_t length,
                  std::int64_t channels) {
  using A = Arithmetic<T>;
  const std::int64_t position = (std::int64_t{blockIdx.x} * threads + threadIdx.x) * width;
  if (position >= batch * length) return;
  const std::int64_t first = std::int64_t{blockIdx.y} * group;
  T* to = y + position / length * channels * length + position % length;
  const auto values = load<A, width>(x + position);
#pragma unroll 8
  for (std::int64_t c = first; c < min(first + group, channels); ++c) {
    const A w = widen(weight[c]), b = widen(bias[c]);
    Values<A, width> result;
#pragma unroll
    for (int i = 0; i < width; ++i) result.at[i] = values.at[i] * w + b;
    store<A, width>(to + c * length, result);
  }
}

// A block keeps to these many channels: partial (splits, 2, channels), the sums of dy x and of dy.
constexpr int sums_group = 8;

template <class T, int width>
__global__ void __launch_bounds__(threads)
    spread_backward_kernel(const T* x, const T* dy, Arithmetic<T>* partial, std::int64_t batch, std::int64_t length,
                           std::int64_t channels) {
  using A = Arithmetic<T>;
  const std::int64_t channel = std::int64_t{blockIdx.x} * sums_group;
  A sums[2 * sums_group] = {};
  for (std::int64_t step = std::int64_t{blockIdx.y} * threads + threadIdx.x; step < batch * length / width;
       step += std::int64_t{gridDim.y} * threads) {
    const std::int64_t position = step * width;
    const T* from = dy + (position / length * channels + channel) * length + position % length;
    const auto values = load<A, width>(x + position);
    Values<A, width> gradients[sums_group];
#pragma unroll
    for (int k = 0; k < sums_group; ++k)
      gradients[k] = channel + k < channels ? load<A, width>(from + k * length) : Values<A, width>{};
#pragma unroll
    for (int k = 0; k < sums_group; ++k)
#pragma unroll
      for (int i = 0; i < width; ++i) {
        sums[k] += gradients[k].at[i] * values.at[i];
        sums[sums_group + k] += gradients[k].at[i];
      }
  }
  A* to = partial + 2 * channels * blockIdx.y;
  block_sums<threads>(sums, [&](int j, A total) {
    const std::int64_t c = channel + j % sums_group;
    if (c < channels) to[j / sums_group * channels + c] = total;
  });
}

// Enough blocks to fill a GPU; it depends on the sizes alone, so that sums are the same everywhere.
std::int64_t splits_of(const SpreadArguments& at, int width) {
  const std::int64_t groups = (at.channels + sums_group - 1) / sums_group;
  return std::clamp<std::int64_t>(2048 / groups, 1, (at.batch * at.length / width + threads - 1) / threads);
}

}  // namespace

void embedding(const EmbeddingArguments& at) {
  with_type(at.type, [&](auto zero) {
    using T = decltype(zero);
    const bool vectors = vectorizable(at.length, sizeof(T), at.y) && vectorizable(at.channels, sizeof(T), at.weight);
    const std::int64_t pieces = at.batch * at.length / (vectors ? vector_width : 1);
    const dim3 grid(static_cast<unsigned>((pieces + threads - 1) / threads),
                    static_cast<unsigned>((at.channels + group - 1) / group));
    const auto kernel = vectors ? embedding_kernel<T, vector_width> : embedding_kernel<T, 1>;
    kernel<<<grid, threads, 0, at.stream>>>(at.tokens, static_cast<const T*>(at.weight), static_cast<T*>(at.y),
                                            at.batch, at.length, at.channels, at.vocabulary);
    check("embedding", cudaGetLastError());
  });
}

void spread(const SpreadArguments& at, const void* weight, const void* bias, void* y) {
  with_type(at.type, [&](auto zero) {
    using T = decltype(zero);
    const bool vectors = vectorizable(at.length, sizeof(T), at.x, y);
    const std::int64_t pieces = at.batch * at.length / (vectors ? vector_width : 1);
    const dim3 grid(static_cast<unsigned>((pieces + threads - 1) / threads),
                    static_cast<unsigned>((at.channels + group - 1) / group));
    const auto kernel = vectors ? spread_kernel<T, vector_width> : spread_kernel<T, 1>;
    kernel<<<grid, threads, 0, at.stream>>>(static_cast<const T*>(at.x), static_cast<const T*>(weight),
                                            static_cast<const T*>(bias), static_cast<T*>(y), at.batch, at.length,
                                            at.channels);
    check("spread", cudaGetLastError());
  });
}

std::size_t spread_backward_workspace_bytes(const SpreadArguments& at) {
  return static_cast<std::size_t>(splits_of(at, 1) * 2 * at.channels) * (at.type == Type::float64 ? 8 : 4);
}

void spread_backward(const SpreadArguments& at, const void* dy, void* weight_gradient, void* bias_gradient,
                     void* workspace) {
  with_type(at.type, [&](auto zero) {
    using T = decltype(zero);
    using A = Arithmetic<T>;
    const bool vectors = vectorizable(at.length, sizeof(T), at.x, dy);
    const std::int64_t splits = splits_of(at, vectors ? vector_width : 1);
    const dim3 grid(static_cast<unsigned>((at.channels + sums_group - 1) / sums_group), static_cast<unsigned>(splits));
    const auto kernel = vectors ? spread_backward_kernel<T, vector_width> : spread_backward_kernel<T, 1>;
    A* partial = static_cast<A*>(workspace);
    kernel<<<grid, threads, 0, at.stream>>>(static_cast<const T*>(at.x), static_cast<const T*>(dy), partial, at.batch,
                                            at.length, at.channels);
    check("spread_backward", cudaGetLastError());
    sum_partials("spread_backward", partial, splits, 2 * at.channels, at.channels, static_cast<A*>(weight_gradient),
                 at.stream);
    sum_partials("spread_backward", partial + at.channels, splits, 2 * at.channels, at.channels,
                 static_cast<A*>(bias_gradient), at.stream);
  });
}

}  // namespace rtf::cuda
