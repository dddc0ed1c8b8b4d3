// wrapped_convolve_backward on the GPU: the gradients of coefficients that share a tensor are written where they
// belong.
#include "torch/wrapped_convolution.h"

#include <torch/library.h>

#include "torch/convolution.h"
#include "torch/cuda/kernel.h"

namespace rtf::ops {
namespace {

Quadruple wrapped_convolve_backward_cuda(const Tensor& dy, const Tensor& u, const Tensor& a, const OptionalTensor& b,
                                         const Tensor& h0, const Tensor& k, bool bidirectional,
                                         const OptionalTensor& lengths) {
  const auto empty = [](const Tensor& x) { return at::empty(x.sizes(), x.options()); };
  const auto [du, dk] = convolve_backward(dy, u, taps(k, bidirectional), bidirectional, lengths);
  const Tensor da = empty(a), db = b ? empty(*b) : at::empty({0}, a.options()), dh0 = empty(h0);
  const auto [below, above] = denominators_and_numerators(a, b, h0);
  const auto [to_below, to_above] = denominators_and_numerators(da, b ? OptionalTensor(db) : b, dh0);
  kernel_backward_into(bidirectional ? dk.flatten(0, 1) : dk, below, above, h0, to_below, to_above, dh0);
  return {du, da, db, dh0};
}

}  // namespace

TORCH_LIBRARY_IMPL(rtf, CUDA, m) { m.impl("wrapped_convolve_backward", wrapped_convolve_backward_cuda); }

}  // namespace rtf::ops
