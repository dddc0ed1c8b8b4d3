// The convolution on the GPU beside a copy of the same bytes: convolution_cuda_bench [batch channels]
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "cuda/convolution.h"
#include "cuda/device.h"

namespace {

using rtf::cuda::check;

template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t count) { check("bench", cudaMalloc(&data_, count * sizeof(T))); }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  operator T*() const { return data_; }

 private:
  T* data_ = nullptr;
};

// Uniform in [-1, 1), by a hash of the index.
__global__ void fill(float* to, std::size_t count, unsigned seed) {
  const std::size_t stride = std::size_t(gridDim.x) * blockDim.x;
  for (std::size_t i = std::size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
    unsigned h = static_cast<unsigned>(i) * 2654435761u + seed;
    h = (h ^ (h >> 15)) * 2246822519u;
    to[i] = static_cast<float>((h ^ (h >> 13)) >> 8) / 8388608.f - 1.f;
  }
}

// The median of `count` calls, which follow each other without a pause.
double median_ms(int count, const std::function<void(int)>& run) {
  std::vector<cudaEvent_t> events(count + 1);
  for (auto& event : events) cudaEventCreate(&event);
  for (int i = 0; i < 3; ++i) run(i);
  cudaEventRecord(events[0]);
  for (int i = 0; i < count; ++i) {
    run(i);
    cudaEventRecord(events[i + 1]);
  }
  check("bench", cudaDeviceSynchronize());
  std::vector<float> times(count);
  for (int i = 0; i < count; ++i) cudaEventElapsedTime(&times[i], events[i], events[i + 1]);
  for (auto& event : events) cudaEventDestroy(event);
  std::sort(times.begin(), times.end());
  return times[count / 2];
}

void measure(int batch, int length, int channels, rtf::cuda::Storage storage) {
  const std::size_t row_bytes = storage == rtf::cuda::Storage::float32 ? 4 : 2;
  const std::size_t count = std::size_t(batch) * length * channels, floats = count * row_bytes / 4;
  // Enough arrays in turn that none is found in the L2 cache.
  const int sets = static_cast<int>(std::clamp<std::size_t>((256 << 20) / (8 * floats), 1, 8));
  DeviceArray<float> u(sets * floats), y(sets * floats), dy(floats), kernel(std::size_t(channels) * length),
      dk(std::size_t(channels) * length);
  for (auto [array, size] :
       {std::pair<float*, std::size_t>{u, sets * floats}, {dy, floats}, {kernel, std::size_t(channels) * length}})
    fill<<<1024, 256>>>(array, size, 7);
  rtf::cuda::Convolution sizes{batch, length, channels, length, false, storage, nullptr, nullptr};
  DeviceArray<std::byte> space(
      std::max(rtf::cuda::convolve_workspace_bytes(sizes), rtf::cuda::convolve_backward_workspace_bytes(sizes)));
  const auto rows = [&](float* array, int set) {
    return rtf::cuda::Signal{array + set % sets * floats, std::int64_t(channels) * length, length};
  };
  const int repeats = length > 100000 ? 11 : 31;
  const double copy = median_ms(repeats, [&](int i) {
    cudaMemcpyAsync(y + i % sets * floats, u + i % sets * floats, 4 * floats, cudaMemcpyDeviceToDevice);
  });
  const double forward =
      median_ms(repeats, [&](int i) { rtf::cuda::convolve(sizes, rows(u, i), kernel, rows(y, i), space, nullptr); });
  const double backward = median_ms(repeats, [&](int i) {
    rtf::cuda::convolve_backward(sizes, rows(dy, 0), rows(u, i), kernel, rows(y, i), dk, space, nullptr);
  });
  std::printf("%8d %4s %9.4f %9.4f %6.2f %9.4f %6.2f\n", length, row_bytes == 4 ? "fp32" : "bf16", copy, forward,
              forward / copy, backward, backward / copy);
}

}  // namespace

int main(int count, char** arguments) {
  const int batch = count > 1 ? std::atoi(arguments[1]) : 16, channels = count > 2 ? std::atoi(arguments[2]) : 128;
  std::printf("batch %d, %d channels; ms, and in copies of u to y\n", batch, channels);
  std::printf("%8s %4s %9s %9s %6s %9s %6s\n", "length", "", "copy", "forward", "", "backward", "");
  for (auto storage : {rtf::cuda::Storage::float32, rtf::cuda::Storage::bfloat16})
    for (int length = 1 << 10; length <= 1 << 17; length *= 2) measure(batch, length, channels, storage);
}
