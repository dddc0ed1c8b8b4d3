#include "cuda/embedding.h"

#include "cuda/device.h"

namespace rtf::cuda {
namespace {

constexpr int threads = 256;
constexpr int group = 32;  // channels a thread copies of its row

template <class T>
__global__ void __launch_bounds__(threads)
    embedding_kernel(const std::int64_t* tokens, const T* weight, T* y, std::int64_t batch, std::int64_t length,
                     std::int64_t channels, std::int64_t vocabulary) {
  const std::int64_t position = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (position >= batch * length) return;
  const std::int64_t b = position / length, l = position % length, first = std::int64_t{blockIdx.y} * group;
  const std::int64_t token = tokens[position];
  const bool known = token >= 0 && token < vocabulary;
  const T* row = weight + (known ? token : 0) * channels;
  const T unknown = narrow<T>(Arithmetic<T>(__int_as_float(0x7FC00000)));
  for (std::int64_t c = first; c < min(first + group, channels); ++c)
    y[(b * channels + c) * length + l] = known ? row[c] : unknown;
}

}  // namespace

void embedding(const EmbeddingArguments& at) {
  with_type(at.type, [&](auto zero) {
    using T = decltype(zero);
    const dim3 grid(static_cast<unsigned>((at.batch * at.length + threads - 1) / threads),
                    static_cast<unsigned>((at.channels + group - 1) / group));
    embedding_kernel<<<grid, threads, 0, at.stream>>>(at.tokens, static_cast<const T*>(at.weight), static_cast<T*>(at.y),
                                                      at.batch, at.length, at.channels, at.vocabulary);
    check("embedding", cudaGetLastError());
  });
}

}  // namespace rtf::cuda
