// Work on a GPU that is recorded once and then replayed. Free of CUDA: librtf_torch_cuda.so implements it, and who
// computes on the CPU does not load that.
#pragma once

#include <functional>

namespace rtf {

class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;

  // Records what `work` queues on the current stream, which must not be the default one, without running it. Throws
  // when `work` waits for the device. Tensors that `work` makes keep their memory for the life of the graph; where
  // graphs share it, what one of them made is lost as soon as another is replayed.
  virtual void capture(const std::function<void()>& work) = 0;
  // Queues it on the current stream.
  virtual void replay() = 0;
};

}  // namespace rtf

// The caller owns it. It shares the memory of `beside`, one that was captured, if that is not null: several graphs then
// take the memory of the largest. They are replayed on one stream.
extern "C" rtf::DeviceGraph* rtf_cuda_make_graph(const rtf::DeviceGraph* beside);
