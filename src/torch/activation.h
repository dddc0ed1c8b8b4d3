// The operators of the gradients of gelu and glu.
#pragma once

#include "torch/dispatch.h"

namespace rtf::ops {

Tensor gelu_backward(const Tensor& dy, const Tensor& x, double p, const Tensor& generator, int64_t layer, bool tied);
Pair glu_backward(const Tensor& dy, const Tensor& z, double p, const Tensor& generator, int64_t layer, bool tied,
                  const OptionalTensor& bias);

}  // namespace rtf::ops
