// Algorithm 1 and its gradient on the GPU: microseconds a call over lengths and orders, beside a copy of (16, channels,
// length) floats. Calls run inside a CUDA graph, as they do in training.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "cuda/wrapped_kernel.h"
#include "graph_timing.h"
#include "rtf/error.h"

namespace {

using namespace rtf::cuda;
using namespace rtf::bench;

std::vector<float> random_numbers(std::size_t count, float size) {
  static const std::vector<float> drawn = [] {  // drawn once and repeated: drawing takes longer than measuring
    std::mt19937 engine(1);
    std::uniform_real_distribution<float> draw(-1, 1);
    std::vector<float> values(65537);
    for (float& value : values) value = draw(engine);
    return values;
  }();
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = size * drawn[i % drawn.size()];
  return values;
}

Numbers numbers(const DeviceArray<float>& array) { return {array.get(), Type::float32}; }

void measure(const KernelSizes& sizes) {
  const std::size_t samples = sizes.channels * sizes.length, coefficients = sizes.channels * sizes.order;
  const float bound = 1.0f / static_cast<float>(sizes.order);  // keeps |A| away from 0
  const DeviceArray<float> a(random_numbers(sizes.groups * sizes.order, bound)), b(random_numbers(coefficients, 1));
  const DeviceArray<float> h0(random_numbers(sizes.channels, 1)), dk(random_numbers(samples, 1)), kernel(samples);
  const DeviceArray<float> da(sizes.groups * sizes.order), db(coefficients), dh0(sizes.channels);
  const DeviceArray<char> space(std::max(wrapped_kernel_workspace(sizes), wrapped_kernel_vjp_workspace(sizes)));
  const double forward = microseconds([&](cudaStream_t stream) {
    wrapped_kernel(sizes, numbers(a), numbers(b), numbers(h0), numbers(kernel), space.get(), stream);
  });
  const double gradient = microseconds([&](cudaStream_t stream) {
    wrapped_kernel_vjp(sizes, numbers(dk), numbers(a), numbers(b), numbers(da), numbers(db), numbers(dh0), space.get(),
                       stream);
  });
  std::printf("  n=%-6lld %8.1f %8.1f", static_cast<long long>(sizes.order), forward, gradient);
}

void measure_length(int64_t channels, int64_t groups, int64_t length) {
  const std::size_t floats = 16 * channels * length;
  DeviceArray<float> from(floats), to(floats);
  const double copy = microseconds([&](cudaStream_t stream) {
    require(cudaMemcpyAsync(to.get(), from.get(), floats * sizeof(float), cudaMemcpyDeviceToDevice, stream));
  });
  std::printf("%5lld %5lld %7lld %8.1f", static_cast<long long>(channels), static_cast<long long>(groups),
              static_cast<long long>(length), copy);
  for (const int64_t order : {int64_t{8}, int64_t{64}, length / 2}) measure({channels, groups, order, length});
  std::printf("\n");
  std::fflush(stdout);
}

}  // namespace

// wrapped_kernel_cuda_bench [SHORTEST [LONGEST]]
int main(int count, char** arguments) try {
  const int64_t shortest = count > 1 ? std::atoll(arguments[1]) : 1 << 10;
  const int64_t longest = count > 2 ? std::atoll(arguments[2]) : 1 << 17;
  std::printf("microseconds\nchan. den.   length  copy x16  order    kernel  gradient ...\n");
  for (const int64_t channels : {128, 1024})
    for (int64_t length = shortest; length <= std::min<int64_t>(longest, channels == 128 ? longest : 1 << 14);
         length *= 2)
      for (const int64_t groups : {int64_t{1}, channels}) measure_length(channels, groups, length);
  return 0;
} catch (const rtf::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
