// What the chunked filter costs on the GPU by order and length, beside a copy of the same bytes and beside the
// convolution by FFT, which costs the same at every order: 16 sequences of 128 channels, float32.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <utility>
#include <vector>

#include "cuda/convolution.h"
#include "cuda/device.h"
#include "cuda/filter.h"

namespace {

using rtf::cuda::check;

constexpr int64_t sequences = 16, channels = 128, rows = sequences * channels, longest = int64_t{1} << 17;

template <class T>
T* on_device(const std::vector<T>& values) {
  T* to = nullptr;
  check("bench", cudaMalloc(&to, values.size() * sizeof(T)));
  check("bench", cudaMemcpy(to, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  return to;
}

// Median microseconds; call(i) works on the i-th of several signals, so that none stays in the cache.
template <class Call>
float microseconds(Call&& call) {
  constexpr int rounds = 15, calls = 4;
  cudaEvent_t start, stop;
  cudaEventCreate(&start);
  cudaEventCreate(&stop);
  std::vector<float> times;
  for (int round = 0; round < rounds + 1; ++round) {
    cudaEventRecord(start);
    for (int i = 0; i < calls; ++i) call(round * calls + i);
    cudaEventRecord(stop);
    check("bench", cudaEventSynchronize(stop));
    float milliseconds = 0;
    cudaEventElapsedTime(&milliseconds, start, stop);
    if (round > 0) times.push_back(1000 * milliseconds / calls);
  }
  std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
  return times[rounds / 2];
}

}  // namespace

int main() {
  std::vector<float> samples(1 << 24);
  uint32_t seed = 1;
  for (float& x : samples) x = static_cast<float>((seed = seed * 1664525u + 1013904223u) >> 8) / (1 << 23) - 1;
  float *u = nullptr, *y = nullptr;
  check("bench", cudaMalloc(&u, rows * longest * sizeof(float)));
  check("bench", cudaMalloc(&y, rows * longest * sizeof(float)));
  for (int64_t at = 0; at < rows * longest; at += static_cast<int64_t>(samples.size()))
    check("bench", cudaMemcpy(u + at, samples.data(), samples.size() * sizeof(float), cudaMemcpyHostToDevice));

  const std::vector<int64_t> orders = {8, 16, 32, 64};
  std::printf("%8s %9s %16s", "length", "copy us", "FFT us, x copy");
  for (const int64_t order : orders)
    if (order <= rtf::cuda::largest_chunked_order()) std::printf("   n = %-3ld us, x copy", static_cast<long>(order));
  std::printf("\n");
  for (int64_t length = 1 << 11; length <= longest; length *= 2) {
    const int64_t total = rows * length, slots = std::max<int64_t>(1, longest / length / 2);
    const float copy = microseconds([&](int i) {
      const int64_t at = i % slots * total;
      cudaMemcpyAsync(y + at, u + at, total * sizeof(float), cudaMemcpyDeviceToDevice);
    });
    std::printf("%8ld %9.1f", static_cast<long>(length), copy);
    const rtf::cuda::Convolution sizes{sequences, static_cast<int>(length),    channels, static_cast<int>(length),
                                       false,     rtf::cuda::Storage::float32, nullptr,  nullptr};
    void* workspace = nullptr;
    check("bench", cudaMalloc(&workspace, rtf::cuda::convolve_workspace_bytes(sizes)));
    const float fft = microseconds([&](int i) {
      const int64_t at = i % slots * total;
      const auto rows = [&](float* x) { return rtf::cuda::Signal{x + at, channels * length, length}; };
      rtf::cuda::convolve(sizes, rows(u), u, rows(y), workspace, nullptr);
    });
    cudaFree(workspace);
    std::printf(" %10.1f %5.2f", fft, fft / copy);
    for (const int64_t order : orders) {
      if (order > rtf::cuda::largest_chunked_order()) continue;
      const std::vector<double> ones(channels, 1.0), small(channels * order, 0.9 / static_cast<double>(order));
      double *h0 = on_device(ones), *a = on_device(small), *b = on_device(small), *end = nullptr;
      check("bench", cudaMalloc(&end, rows * order * sizeof(double)));
      constexpr auto type = rtf::cuda::Type::float32;
      rtf::cuda::Filter filter{rtf::cuda::Series::response,
                               sequences,
                               channels,
                               channels,
                               order,
                               length,
                               type,
                               nullptr,
                               channels * length,
                               length,
                               type,
                               nullptr,
                               channels * length,
                               length,
                               rtf::cuda::Type::float64,
                               a,
                               b,
                               h0,
                               nullptr,
                               end,
                               nullptr,
                               nullptr};
      const float time = microseconds([&](int i) {
        filter.u = u + i % slots * total;
        filter.y = y + i % slots * total;
        rtf::cuda::filter(filter, nullptr);
      });
      std::printf(" %14.1f %7.2f", time, time / copy);
      for (double* pointer : {h0, a, b, end}) cudaFree(pointer);
    }
    std::printf("\n");
  }
}
