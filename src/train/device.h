// Where a run computes.
#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <string>

#include "torch/device_graph.h"

namespace rtf::train {

// `name` is one that device_number() knows. For a GPU the CUDA backend is loaded, and this thread works on that device,
// on a stream of its own, from now on. Comes before every other use of torch on a GPU. What is missing is told in one
// line. `deterministic` makes the matrix products reproducible.
c10::Device use_device(const std::string& name, bool deterministic);

// On a device that use_device() gave; see rtf_cuda_make_graph().
std::unique_ptr<DeviceGraph> make_graph(const DeviceGraph* beside = nullptr);

// Waits until everything queued on the current stream is done; nothing to wait for on the CPU.
void synchronize(c10::Device device);

}  // namespace rtf::train
