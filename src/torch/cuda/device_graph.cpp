#include "torch/device_graph.h"

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

namespace rtf {
namespace {

class CudaGraph final : public DeviceGraph {
 public:
  void capture(const std::function<void()>& work) override {
    // The graph has memory of its own: what earlier work left cached is of no use to it.
    c10::cuda::device_synchronize();
    c10::cuda::CUDACachingAllocator::emptyCache();
    // Other threads prepare data meanwhile, and may ask the driver for memory.
    graph_.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
    try {
      work();
    } catch (...) {
      try {
        graph_.capture_end();
      } catch (const std::exception&) {  // the first failure is the one to tell
      }
      (void)cudaGetLastError();
      throw;
    }
    graph_.capture_end();
  }

  void replay() override { graph_.replay(); }

 private:
  at::cuda::CUDAGraph graph_;
};

}  // namespace
}  // namespace rtf

// The caller owns it.
extern "C" __attribute__((visibility("default"))) rtf::DeviceGraph* rtf_cuda_make_graph() {
  return new rtf::CudaGraph();
}
