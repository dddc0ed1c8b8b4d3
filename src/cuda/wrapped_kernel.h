// Algorithm 1 and its gradient on the GPU, in double up to the quotient at least: kernels (channels, length) of a
// (groups, order), b (channels, order) and h0 (channels), all contiguous; channels / groups neighbouring channels share
// a denominator.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "cuda/elements.h"

namespace rtf::cuda {

// Numbers in device memory whose type is known at run time: one compiled kernel serves every type.
struct Numbers {
  void* data = nullptr;
  Type type = Type::float32;
};

struct KernelSizes {
  int64_t channels, groups, order, length;
  int64_t channels_per_group() const { return channels / groups; }
};

// Powers of two from 2^10 to 2^18; torch's transforms serve the others.
bool wrapped_kernel_serves(int64_t length);

// Bytes of scratch that a call wants, aligned to 256.
std::size_t wrapped_kernel_workspace(const KernelSizes& sizes);
std::size_t wrapped_kernel_vjp_workspace(const KernelSizes& sizes);

// Up to 2^14 samples, and where no sum over channels with one denominator follows, the last kernel of either lets the
// next start beside it. That of wrapped_kernel starts after all before it.
//
// kernel is float32 or float64. A denominator that vanishes at a point of the transform leaves values that are not
// finite: refusing them would need the host to wait.
void wrapped_kernel(const KernelSizes& sizes, Numbers a, Numbers b, Numbers h0, Numbers kernel, void* workspace,
                    cudaStream_t stream);

// dk = dLoss/dkernel to da, db, dh0 (overwritten); a shared denominator's is summed over its channels in a fixed order.
// `beside`: it may start while the kernel before it on the stream, which may use the workspace too, still writes dk.
// All else that it reads is there.
void wrapped_kernel_vjp(const KernelSizes& sizes, Numbers dk, Numbers a, Numbers b, Numbers da, Numbers db, Numbers dh0,
                        void* workspace, cudaStream_t stream, bool beside = false);

}  // namespace rtf::cuda
