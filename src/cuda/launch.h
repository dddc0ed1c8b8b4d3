// One way to launch: shared memory allowed, and the error of the launch checked.
#pragma once

#include <cuda_runtime.h>

#include "cuda/device.h"

namespace rtf::cuda {

template <class... Parameters, class... Arguments>
void launch(const char* operation, void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
            cudaStream_t stream, Arguments&&... arguments) {
  allow_shared_memory(operation, kernel, shared_bytes);
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  check(operation, cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...));
}

}  // namespace rtf::cuda
