// What the published code computes where it is wrong, for comparisons with it.
#include <ATen/ATen.h>
#include <torch/library.h>

#include "rtf_torch/operators.h"

namespace rtf::ops {
namespace {

// (I - A^length) c = b for every channel: the correction without its transpose.
Tensor release_numerator_composite(const Tensor& a, const Tensor& b, int64_t length) {
  const int64_t order = a.size(1), each = b.size(0) / a.size(0);
  const Tensor unit = at::eye(order, a.options());
  const Tensor below = unit.slice(0, 0, -1).expand({a.size(0), order - 1, order});
  const Tensor companion = at::cat({-a.unsqueeze(1), below}, 1);
  const Tensor left = unit - at::linalg_matrix_power(companion, length);
  return at::linalg_solve(left.repeat_interleave(each, 0), b);
}

// u (batch, length, channels), kernel (2, channels, length), odd length: a point fewer on the way back.
Tensor release_convolve_composite(const Tensor& u, const Tensor& kernel) {
  const int64_t length = u.size(1), points = 2 * length;
  const Tensor circle = at::cat({kernel.select(0, 0), kernel.select(0, 1).flip(1)}, 1);
  // Along the last dimension: of any other one torch's compiler takes the strides of a transform for others.
  const Tensor rows = u.transpose(1, 2).contiguous();
  const Tensor y = at::fft_irfft(at::fft_rfft(rows, points) * at::fft_rfft(circle), points - 1);
  return y.slice(2, 0, length).transpose(1, 2);
}

}  // namespace

TORCH_LIBRARY_IMPL(rtf, CompositeImplicitAutograd, m) {
  m.impl("release_numerator", release_numerator_composite);
  m.impl("release_convolve", release_convolve_composite);
}

}  // namespace rtf::ops
