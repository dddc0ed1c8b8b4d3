// What kernel lends to wrapped_convolve.
#pragma once

#include <cstddef>
#include <optional>

#include "cuda/wrapped_kernel.h"
#include "torch/cuda/elements.h"

namespace rtf::ops {

constexpr int64_t largest_order = int64_t{1} << 30;

// a, b and h0 of kernels, contiguous and checked, as the CUDA kernels take them; of h0 gradients read the size alone.
// Without b the rows of both are those of a, denominators first: of a small layer the host makes views for as long as
// the GPU computes.
struct KernelNumbers {
  cuda::Numbers a, b, h0;
  int64_t denominators, channels, order;

  KernelNumbers(const at::Tensor& a_, const std::optional<at::Tensor>& b_, const at::Tensor& h0_)
      : a(numbers(a_)), h0(numbers(h0_)), channels(h0_.size(0)), order(a_.size(1)) {
    denominators = b_ ? a_.size(0) : a_.size(0) - channels;
    b = b_ ? numbers(*b_) : a;
    if (!b_) b.data = static_cast<std::byte*>(a.data) + denominators * order * a_.element_size();
  }

  cuda::KernelSizes sizes(int64_t length) const { return {channels, denominators, order, length}; }
};

}  // namespace rtf::ops
