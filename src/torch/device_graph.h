// Work on a GPU that is recorded once and then replayed. Free of CUDA: librtf_torch_cuda.so implements it, and who
// computes on the CPU does not load that.
#pragma once

#include <functional>

namespace rtf {

class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;

  // Records what `work` queues on the current stream, which must not be the default one, without running it. Tensors
  // that `work` makes keep their memory for the life of the graph. Throws when `work` waits for the device.
  virtual void capture(const std::function<void()>& work) = 0;
  // Queues it on the current stream.
  virtual void replay() = 0;
};

}  // namespace rtf
