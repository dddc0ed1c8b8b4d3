// What wrapped_convolve has in common on every device.
#pragma once

#include "torch/dispatch.h"

namespace rtf::ops {

// Denominators and numerators; those that share a tensor are its rows, the numerators last.
Pair denominators_and_numerators(const Tensor& a, const OptionalTensor& b, const Tensor& h0);

// Kernels (channels, samples), or of both directions (2, channels, samples).
Tensor taps(const Tensor& k, bool bidirectional);

}  // namespace rtf::ops
