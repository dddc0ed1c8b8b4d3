// freqz and group_delay in differentiable operations.
#include <ATen/ATen.h>
#include <torch/library.h>

#include <limits>

#include "torch/rational.h"

namespace rtf::ops {
namespace {

// Coefficients (rows, order + 1) of polynomials in w = e^{-i angle}, and the powers of w (order + 1, angles).
struct Polynomials {
  Tensor denominator, numerator, phase, powers;

  Polynomials(const char* operation, const Rational& r, const Tensor& angles) {
    TORCH_CHECK_VALUE(angles.dim() == 1 && angles.is_floating_point(), "[rtf::", operation, "] the angles are ",
                      angles.scalar_type(), " numbers of shape ", angles.sym_sizes(),
                      "; real numbers (angles) are needed");
    check_finite(operation, "the angles", angles);
    denominator = at::constant_pad_nd(for_channels(r.a, r.b.sym_size(0)), {1, 0}, 1);
    numerator = at::constant_pad_nd(r.b, {1, 0}) + r.h0.unsqueeze(1) * denominator;
    phase = -degrees().unsqueeze(1) * angles.to(at::kDouble);
    powers = at::polar(at::ones_like(phase), phase);
  }

  Tensor degrees() const { return at::arange(denominator.sym_size(1), denominator.options().requires_grad(false)); }
  Tensor at_angles(const Tensor& c) const { return at::matmul(c.to(at::kComplexDouble), powers); }
  // Where a value is no more than the rounding of its terms and their angles: it may be 0.
  Tensor vanishes(const Tensor& c, const Tensor& value) const {
    const at::NoGradGuard no_grad;
    return value.abs() <= std::numeric_limits<double>::epsilon() * at::matmul(c.abs(), phase.abs() + 4);
  }
};

// The channels of a filter for everything are not shown.
Tensor shown(const Tensor& rows, bool each_channel) { return each_channel ? rows : rows.squeeze(0); }

Tensor freqz_composite(const Tensor& a, const Tensor& b, const OptionalTensor& h0, const Tensor& angles) {
  const Rational r = rational("freqz", a, b, h0);
  const Polynomials p("freqz", r, angles);
  const Tensor N = p.at_angles(p.numerator), A = p.at_angles(p.denominator), poles = p.vanishes(p.denominator, A);
  // Divided by 1 there, so that the other angles keep their gradient; nan where zeros lie too.
  const Tensor found = (N / A.masked_fill(poles, 1)).masked_fill(poles, std::numeric_limits<double>::infinity());
  return shown(found.masked_fill(poles & p.vanishes(p.numerator, N), std::numeric_limits<double>::quiet_NaN()),
               has_channels(a, b, h0));
}

Tensor group_delay_composite(const Tensor& a, const Tensor& b, const OptionalTensor& h0, const Tensor& angles) {
  const Rational r = rational("group_delay", a, b, h0);
  const Polynomials p("group_delay", r, angles);
  const auto delay = [&](const Tensor& c) {
    const Tensor value = p.at_angles(c), jumps = p.vanishes(c, value);
    // Divided by 1 there, so that the other angles keep their gradient.
    const Tensor found = at::real(p.at_angles(c * p.degrees()) / value.masked_fill(jumps, 1));
    return found.masked_fill(jumps, std::numeric_limits<double>::quiet_NaN());
  };
  return shown(delay(p.numerator) - delay(p.denominator), has_channels(a, b, h0));
}

}  // namespace

TORCH_LIBRARY_IMPL(rtf, CompositeImplicitAutograd, m) {
  m.impl("freqz", freqz_composite);
  m.impl("group_delay", group_delay_composite);
}

}  // namespace rtf::ops
