// What every CUDA source needs: the stream, errors as rtf::Error, and which device it runs on.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace rtf::cuda {

// The compute capability that the code which the current device runs was compiled for, as 10 * major + minor.
int compiled_capability();

// Throws rtf::Error when there is no device, no driver new enough, or a device that none of the kernels were compiled
// for; the message says what to change.
void require_device(int device);

// Of the H200. Where blocks are counted: other devices run them in more waves.
constexpr int multiprocessors = 132;

// Throws when a CUDA call failed: `check("convolve", cudaGetLastError())` after every launch.
void check(const char* operation, cudaError_t result);

// The most shared memory that a block can have on the current device.
std::size_t largest_shared_memory(const char* operation);

// Lets `kernel` use this much shared memory on the current device.
void allow_shared_memory(const char* operation, const void* kernel, std::size_t bytes);

}  // namespace rtf::cuda
