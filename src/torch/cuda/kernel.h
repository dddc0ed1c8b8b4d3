// What kernel lends to wrapped_convolve.
#pragma once

#include <ATen/ATen.h>

namespace rtf::ops {

// The gradients of kernel, written to da, db and dh0, contiguous, of the types of a, b and h0.
void kernel_backward_into(const at::Tensor& dk, const at::Tensor& a, const at::Tensor& b, const at::Tensor& h0,
                          const at::Tensor& da, const at::Tensor& db, const at::Tensor& dh0);

}  // namespace rtf::ops
