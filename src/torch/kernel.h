// The operators of the gradients of kernel and exact_kernel, to a, b and h0.
#pragma once

#include "torch/dispatch.h"

namespace rtf::ops {

Triple kernel_backward(const Tensor& dk, const Tensor& a, const Tensor& b, const Tensor& h0);
Triple exact_kernel_backward(const Tensor& dk, const Tensor& a, const Tensor& b, const Tensor& h0);

}  // namespace rtf::ops
