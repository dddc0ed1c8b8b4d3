#include "cuda/embedding.h"

#include "cuda/device.h"

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

}  // namespace

void embedding(const EmbeddingArguments& at) {
  with_type(at.type, [&](auto zero) {
    using T = decltype(zero);
    const bool vectors = vectorizable(at.length, sizeof(T), at.y) && vectorizable(at.channels, sizeof(T), at.weight);
    const std::int64_t pieces = at.batch * at.length / (vectors ? vector_width : 1);
    const dim3 grid(static_cast<unsigned>((pieces + threads - 1) / threads),
                    static_cast<unsigned>((at.channels + group - 1) / group));
    const auto kernel = vectors ? embedding_kernel<T, vector_width> : embedding_kernel<T, 1>;
    kernel<<<grid, threads, 0, at.stream>>>(at.tokens, static_cast<const T*>(at.weight), static_cast<T*>(at.y), at.batch,
                                            at.length, at.channels, at.vocabulary);
    check("embedding", cudaGetLastError());
  });
}

}  // namespace rtf::cuda
