#include "torch/device_graph.h"

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

namespace rtf {
namespace {

using c10::cuda::CUDACachingAllocator::endAllocateToPool;
using c10::cuda::CUDACachingAllocator::releasePool;

class CudaGraph final : public DeviceGraph {
 public:
  explicit CudaGraph(const CudaGraph* beside) : pool_(beside ? beside->pool_ : at::cuda::graph_pool_handle()) {}

  void capture(const std::function<void()>& work) override {
    // The graph has memory of its own: what earlier work left cached is of no use to it.
    c10::cuda::device_synchronize();
    c10::cuda::CUDACachingAllocator::emptyCache();
    // Other threads prepare data meanwhile, and may ask the driver for memory.
    graph_.capture_begin(pool_, cudaStreamCaptureModeThreadLocal);
    try {
      work();
    } catch (...) {
      abandon();
      throw;
    }
    graph_.capture_end();
  }

  void replay() override { graph_.replay(); }

 private:
  // After a failure, which is the one to tell.
  void abandon() {
    try {
      graph_.capture_end();
    } catch (const std::exception&) {
      // A capture that the device ended leaves the allocator asking this graph, which is about to go, whose memory it
      // is.
      try {
        const c10::DeviceIndex device = c10::cuda::current_device();
        endAllocateToPool(device, pool_);
        releasePool(device, pool_);
      } catch (const std::exception&) {
      }
    }
    (void)cudaGetLastError();
  }

  at::cuda::MempoolId_t pool_;
  at::cuda::CUDAGraph graph_;
};

}  // namespace
}  // namespace rtf

extern "C" __attribute__((visibility("default"))) rtf::DeviceGraph* rtf_cuda_make_graph(
    const rtf::DeviceGraph* beside) {
  return new rtf::CudaGraph(static_cast<const rtf::CudaGraph*>(beside));
}
