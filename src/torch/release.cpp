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
  const Tensor spectrum = at::fft_rfft(u, points, 1) * at::fft_rfft(circle).transpose(0, 1);
  return at::fft_irfft(spectrum, points - 1, 1).slice(1, 0, length);
}

}  // namespace

TORCH_LIBRARY_IMPL(rtf, CompositeImplicitAutograd, m) {
  m.impl("release_numerator", release_numerator_composite);
  m.impl("release_convolve", release_convolve_composite);
}

}  // namespace rtf::ops
