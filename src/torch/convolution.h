// What the convolution refuses on every device, and its gradient.
#pragma once

#include "rtf_torch/operators.h"

namespace rtf::ops {

// Throws unless the kernel is (channels, samples), or (2, channels, samples) when bidirectional, for u of shape (batch,
// length, channels), and a batch is padded or packed, not both.
void check_convolution(const char* operation, const Tensor& u, const Tensor& kernel, bool bidirectional,
                       const OptionalTensor& lengths, const OptionalTensor& offsets);

// The operator of the gradients to u and the kernel.
std::tuple<Tensor, Tensor> convolve_backward(const Tensor& dy, const Tensor& u, const Tensor& kernel,
                                             bool bidirectional, const OptionalTensor& lengths = {},
                                             const OptionalTensor& offsets = {});

}  // namespace rtf::ops
