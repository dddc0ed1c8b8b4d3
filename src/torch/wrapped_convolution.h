// What wrapped_convolve has in common on every device.
#pragma once

#include "torch/dispatch.h"

namespace rtf::ops {

// Kernels (channels, samples), or of both directions (2, channels, samples).
Tensor taps(const Tensor& k, bool bidirectional);

// The operator and its gradients by those that they are composed of, whose checks are theirs too.
Pair composed_wrapped_convolve(const Tensor& u, const Tensor& a, const OptionalTensor& b, const Tensor& h0,
                               c10::SymInt length, bool bidirectional, const OptionalTensor& lengths);
Triple composed_wrapped_convolve_rows(const Tensor& u, const Tensor& a, const OptionalTensor& b, const Tensor& h0,
                                      c10::SymInt length, bool bidirectional, const OptionalTensor& lengths);
Quadruple composed_wrapped_convolve_backward(const Tensor& dy, const Tensor& u, const Tensor& a,
                                             const OptionalTensor& b, const Tensor& h0, const Tensor& k,
                                             bool bidirectional, const OptionalTensor& lengths, bool contiguous);

}  // namespace rtf::ops
