// The Montel constraint in torch's own operations: a few of them, on every device and differentiable as often as wanted.
#include <ATen/ATen.h>
#include <torch/library.h>

#include "torch/dispatch.h"

namespace rtf::ops {
namespace {

// The release's margin; rtf/constraint.h has the same map on plain numbers.
constexpr double margin = 1e-6;

Tensor montel_composite(const Tensor& alpha, const Tensor& sigma) {
  TORCH_CHECK_VALUE(alpha.dim() == 2 && sigma.dim() == 1 && sigma.sym_size(0) == alpha.sym_size(0),
                    "[rtf::montel] alpha and sigma have shapes ", alpha.sizes(), " and ", sigma.sizes(),
                    "; (denominators, order) and (denominators) are needed");
  return alpha / (alpha.abs().sum(-1, true) + sigma.abs().unsqueeze(-1) + margin);
}

Tensor montel_paper_composite(const Tensor& alpha) {
  TORCH_CHECK_VALUE(alpha.dim() == 2 && alpha.sym_size(1) > 0, "[rtf::montel_paper] alpha has shape ", alpha.sizes(),
                    "; (denominators, order + 1) is needed");
  return alpha.slice(1, 0, -1) / alpha.abs().sum(-1, true);
}

}  // namespace

TORCH_LIBRARY_IMPL(rtf, CompositeImplicitAutograd, m) {
  m.impl("montel", montel_composite);
  m.impl("montel_paper", montel_paper_composite);
}

}  // namespace rtf::ops
