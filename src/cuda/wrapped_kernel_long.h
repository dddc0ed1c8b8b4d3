// Algorithm 1 for rows that do not fit on chip: a transform in two levels, a tile of channels at a time.
#pragma once

#include "cuda/wrapped_kernel.h"

namespace rtf::cuda {

constexpr int64_t longest_long_row = 1 << 18;

std::size_t long_workspace(const KernelSizes& sizes);
std::size_t long_vjp_workspace(const KernelSizes& sizes);
void long_kernel(const KernelSizes& sizes, Numbers a, Numbers b, Numbers h0, Numbers kernel, void* workspace,
                 cudaStream_t stream);
void long_kernel_vjp(const KernelSizes& sizes, Numbers dk, Numbers a, Numbers b, Numbers da, Numbers db, Numbers dh0,
                     void* workspace, cudaStream_t stream);

}  // namespace rtf::cuda
