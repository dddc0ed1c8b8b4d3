// Memory of the GPU, and the time of kernels inside a CUDA graph, as they run in training.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <vector>

#include "cuda/device.h"

namespace rtf::bench {

inline void require(cudaError_t result) { cuda::check("bench", result); }

template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t count) { require(cudaMalloc(&data_, std::max<std::size_t>(count, 1) * sizeof(T))); }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    require(cudaMemcpy(data_, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  }
  DeviceArray(const DeviceArray&) = delete;
  ~DeviceArray() { cudaFree(data_); }
  T* get() const { return data_; }

 private:
  T* data_ = nullptr;
};

// Median microseconds of one call of work(stream), ten to a graph.
template <class Work>
double microseconds(Work work) {
  constexpr int calls = 10, repeats = 15;
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t ready;
  cudaEvent_t begin, end;
  require(cudaStreamCreate(&stream));
  require(cudaEventCreate(&begin));
  require(cudaEventCreate(&end));
  work(stream);
  require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < calls; ++i) work(stream);
  require(cudaStreamEndCapture(stream, &graph));
  require(cudaGraphInstantiate(&ready, graph, 0));
  std::vector<float> times;
  for (int i = 0; i < repeats; ++i) {
    require(cudaEventRecord(begin, stream));
    require(cudaGraphLaunch(ready, stream));
    require(cudaEventRecord(end, stream));
    require(cudaEventSynchronize(end));
    float milliseconds = 0;
    require(cudaEventElapsedTime(&milliseconds, begin, end));
    times.push_back(milliseconds);
  }
  cudaGraphExecDestroy(ready);
  cudaGraphDestroy(graph);
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  cudaStreamDestroy(stream);
  std::sort(times.begin(), times.end());
  return 1e3 * times[repeats / 2] / calls;
}

}  // namespace rtf::bench
