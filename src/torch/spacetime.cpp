// SpaceTime: companion systems whose input and output vectors are both trained.
#include <ATen/ATen.h>

#include "rtf_torch/operators.h"
#include "torch/state_space.h"

namespace rtf::nn {

using at::Tensor;

namespace {

// The first n coefficients of the product of two polynomials of n, row by row.
Tensor product(const Tensor& x, const Tensor& y) {
  const int64_t n = x.size(1);
  return at::fft_irfft(at::fft_rfft(x, 2 * n) * at::fft_rfft(y, 2 * n), 2 * n).narrow(1, 0, n);
}

// sum_j x[j + m] y[j] for m < n.
Tensor correlation(const Tensor& x, const Tensor& y) {
  const int64_t n = x.size(1);
  return at::fft_irfft(at::fft_rfft(x, 2 * n) * at::fft_rfft(y, 2 * n).conj(), 2 * n).narrow(1, 0, n);
}

}  // namespace

SpaceTimeImpl::SpaceTimeImpl(const LayerOptions& sizes, const BaselineOptions& baseline)
    : BaselineImpl("SpaceTime", sizes, baseline) {
  const std::vector<int64_t> shape = {directions() * sizes.denominators, sizes.order};
  a = add_parameter("a", draw_normal(sizes, Draw::denominator, shape));
  b = add_parameter("b", draw_normal(sizes, Draw::input, shape));
  c = add_parameter("c", draw_normal(sizes, Draw::output, shape));
}

// c^T (1 - w A)^-1 b, A = S + a e_n^T with S the lower shift: by Sherman and Morrison, with <x, y> = x^T (1 - w S)^-1
// y,
//   <c, b> + w <c, a> <e_n, b> / (1 - w <e_n, a>),
// and these are polynomials: correlations, and for e_n the reversed vector. Over the common denominator the numerator
// has degree n - 1, so its first n coefficients are all of it.
Realization SpaceTimeImpl::rational() const {
  const Tensor raw = a.to(at::kDouble), in = b.to(at::kDouble), out = c.to(at::kDouble);
  const Tensor norm = raw.abs().sum(1, /*keepdim=*/true);
  const Tensor last = raw / at::where(norm.mean() > 1e-4, norm, at::ones_like(norm));
  const Tensor denominator = -last.flip(1);  // of w, w^2, ...
  const int64_t n = sizes_.order;
  const auto later = [n](const Tensor& x) { return at::constant_pad_nd(x.narrow(1, 0, n - 1), {1, 0}); };
  const Tensor head = correlation(out, in);
  const Tensor numerator = head + later(product(head, denominator) + product(correlation(out, last), in.flip(1)));
  // N / D = N_0 + (N - N_0 D) / D, the numerator of which begins at w.
  const Tensor gain = numerator.narrow(1, 0, 1);
  const Tensor rest = at::constant_pad_nd(numerator.narrow(1, 1, n - 1), {0, 1}) - gain * denominator;
  return {denominator, rest, gain.squeeze(1)};
}

Tensor SpaceTimeImpl::kernel(int64_t length) const {
  check_length(length);
  const Realization at = rational();
  const Tensor k = ops::exact_kernel(at[0], at[1], at[2], length).unflatten(0, {directions(), -1});
  return finish_kernel(k.repeat_interleave(sizes_.channels / sizes_.denominators, 1).flatten(0, 1).to(c.scalar_type()));
}

Realization SpaceTimeImpl::realize() const {
  check_causal();
  const Realization at = rational();
  return {at[0], for_channels(at[1], sizes_.channels), for_channels(at[2], sizes_.channels) + feedthrough()};
}

std::tuple<Tensor, Tensor> SpaceTimeImpl::prefill(const Realization& at, const Tensor& u, const Tensor& state) const {
  return ops::prefill(u, at[0], at[1], at[2], state);
}

std::tuple<Tensor, Tensor> SpaceTimeImpl::step(const Realization& at, const Tensor& u, const Tensor& state) const {
  return ops::step(u, at[0], at[1], at[2], state);
}

std::optional<PoleReport> SpaceTimeImpl::poles(int64_t most) const {
  return report_poles(rational()[0], sizes_.length, most);
}

}  // namespace rtf::nn
