// The steps of a convolution by either method. Spectra have one layout: for each channel `parts` = size / 1,024 runs of
// 1,024, frequency f at run f % parts and place f / parts.
#pragma once

#include "cuda/convolution_signal.h"

namespace rtf::cuda {

// Within one block, size 1,024 to 16,384.
namespace block {

constexpr int longest = 16384;
void spectrum(const KernelSource& kernel, float2* out, cudaStream_t stream);
void convolve(const Convolution& sizes, int size, Signal u, const float2* spectrum, Signal y, cudaStream_t stream);
// du, and for every `group` sequences the spectrum of their share of the kernel's gradient.
void backward(const Convolution& sizes, int size, int group, Signal dy, Signal u, const float2* spectrum, Signal du,
              float2* shares, cudaStream_t stream);
// What a block of it needs: not every device has it.
std::size_t backward_shared_bytes(int size);
void gradient(const float2* shares, int groups, const KernelSink& kernel, cudaStream_t stream);

}  // namespace block

// Within a cluster of two blocks, size 32,768.
namespace cluster {

constexpr int longest = 2 * block::longest;
void convolve(const Convolution& sizes, Signal u, const float2* spectrum, Signal y, cudaStream_t stream);

}  // namespace cluster

// Through `scratch`, size 32,768 to 262,144.
namespace columns {

std::size_t convolve_scratch_bytes(const Convolution& sizes, const KernelSource& kernel);
constexpr std::size_t backward_scratch_bytes = 32 << 20;  // half of it for u, half for dy

void spectrum(const KernelSource& kernel, float2* out, cudaStream_t stream);
// The spectrum is made on the way.
void convolve(const Convolution& sizes, Signal u, const KernelSource& kernel, float2* spectrum, Signal y,
              float2* scratch, cudaStream_t stream);
// du, and the spectrum of the kernel's gradient.
void backward(const Convolution& sizes, int size, Signal dy, Signal u, const float2* spectrum, Signal du, float2* sum,
              float2* scratch, cudaStream_t stream);
// In place of `sum`.
void gradient(float2* sum, const KernelSink& kernel, cudaStream_t stream);

}  // namespace columns

}  // namespace rtf::cuda
