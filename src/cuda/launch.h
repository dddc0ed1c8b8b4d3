// One way to launch: shared memory allowed, and the error of the launch checked.
#pragma once

#include <cuda_runtime.h>

#include <type_traits>
#include <utility>

#include "cuda/device.h"

namespace rtf::cuda {

// When a kernel may start: after all before it on the stream, or already when every block of the one before it has
// begun and called let_next_start(). Such a kernel calls wait_for_previous() before it reads what those that may still
// run write, or writes what they use: that one and, where it started early and did not wait first, the ones before it.
// At least one of its blocks waits before it ends: what comes next takes its end for the end of all before.
enum class Start { after, early };

// How many blocks run at one time and reach each other's shared memory.
struct Cluster {
  unsigned blocks;
};

template <class... Parameters, class... Arguments>
void launch(const char* operation, Start start, Cluster cluster, void (*kernel)(Parameters...), dim3 grid, dim3 block,
            std::size_t shared_bytes, cudaStream_t stream, Arguments&&... arguments) {
  allow_shared_memory(operation, reinterpret_cast<const void*>(kernel), shared_bytes);
  cudaLaunchAttribute attributes[2] = {};
  unsigned count = 0;
  if (start == Start::early && compiled_capability() >= 90) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (cluster.blocks > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count++].val.clusterDim = {cluster.blocks, 1, 1};
  }
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = count;
  check(operation, cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...));
}

template <class... Parameters, class... Arguments>
void launch(const char* operation, Start start, void (*kernel)(Parameters...), dim3 grid, dim3 block,
            std::size_t shared_bytes, cudaStream_t stream, Arguments&&... arguments) {
  launch(operation, start, Cluster{1}, kernel, grid, block, shared_bytes, stream,
         std::forward<Arguments>(arguments)...);
}

template <class... Parameters, class... Arguments>
void launch(const char* operation, void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
            cudaStream_t stream, Arguments&&... arguments) {
  launch(operation, Start::after, kernel, grid, block, shared_bytes, stream, std::forward<Arguments>(arguments)...);
}

// run(std::integral_constant<int, v>()) for the one of `values` that `value` is; the last stands for all others.
template <int first, int... values, class Run>
auto with_one_of(int value, Run&& run) {
  if constexpr (sizeof...(values) > 0)
    if (value != first) return with_one_of<values...>(value, run);
  return run(std::integral_constant<int, first>());
}

__device__ __forceinline__ void let_next_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}
__device__ __forceinline__ void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace rtf::cuda
