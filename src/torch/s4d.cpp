// S4D: diagonal state spaces.
#include <ATen/ATen.h>

#include <cmath>
#include <numbers>

#include "rtf_torch/operators.h"
#include "torch/state_space.h"

namespace rtf::nn {

using at::Tensor;

S4DImpl::S4DImpl(const LayerOptions& sizes, const BaselineOptions& baseline) : BaselineImpl("S4D", sizes, baseline) {
  const int64_t order = sizes.order, pairs = order / 2, systems = sizes.denominators;
  TORCH_CHECK(order % 2 == 0, "[rtf::S4D] order is ", order, "; it counts pairs of poles, so an even one is needed");
  const Tensor k = at::arange(pairs, at::kDouble);
  Tensor frequencies, input = at::ones({pairs}, at::kComplexDouble);
  switch (options.init) {
    case SystemInit::lin:
      frequencies = std::numbers::pi * k;
      break;
    case SystemInit::inv:
      frequencies = order / std::numbers::pi * (order / (2 * k + 1) - 1);
      break;
    case SystemInit::legs: {
      const Legs from = legs(order);
      frequencies = -at::imag(from.poles);
      input = from.input;
      break;
    }
    default:
      TORCH_CHECK(false, "[rtf::S4D] init must be lin, inv or legs");
  }
  const auto shared = [&](const Tensor& one) { return one.unsqueeze(0).expand({systems, -1}); };
  a_real = add_parameter("a_real", at::full({systems, pairs}, std::log(0.5), at::kDouble));
  a_imag = add_parameter("a_imag", shared(frequencies.clamp_min(1e-4)));
  b = add_parameter("b", to_pairs(shared(input).contiguous()));
  c = add_parameter("c", draw_normal(sizes, Draw::output, {directions(), sizes.channels, pairs, 2}) * std::sqrt(0.5));
  dt = add_parameter("dt", initial_steps(sizes, options, sizes.channels));
}

std::tuple<Tensor, Tensor> S4DImpl::discretize() const {
  const Tensor a = for_channels(at::complex(-a_real.to(at::kDouble).exp(), -a_imag.to(at::kDouble)), sizes_.channels);
  const Tensor in = for_channels(to_complex(b), sizes_.channels),
               step = nn::steps(dt, options.dt_transform).unsqueeze(1);
  const Tensor x = step * a;
  if (options.discretization == Discretization::zoh) return {x, in * (x.exp() - 1) / a};
  return {((1 + 0.5 * x) / (1 - 0.5 * x)).log(), in * step / (1 - 0.5 * x)};
}

Tensor S4DImpl::kernel(int64_t length) const {
  check_length(length);
  const auto [log_z, in] = discretize();
  const Tensor coefficients = (to_complex(c) * in).flatten(0, 1);
  const auto type = c.scalar_type() == at::kDouble ? at::kComplexDouble : at::kComplexFloat;
  return finish_kernel(ops::vandermonde(coefficients.to(type), log_z.repeat({directions(), 1}), length));
}

Realization S4DImpl::realize() const {
  check_causal();
  const auto [log_z, in] = discretize();
  return {log_z, in, to_complex(c).squeeze(0), feedthrough()};
}

std::tuple<Tensor, Tensor> S4DImpl::prefill(const Realization& at, const Tensor& u, const Tensor& state) const {
  if (u.size(1) == 0) return {u, state};
  const Tensor &log_z = at[0], z = log_z.exp(), samples = u.to(at::kDouble);
  Tensor x = to_complex_state(state);
  std::vector<Tensor> parts;
  for (int64_t first = 0; first < u.size(1); first += scan_chunk) {
    const Tensor part = samples.narrow(1, first, std::min(scan_chunk, u.size(1) - first));
    const Tensor driven = part.unsqueeze(3) * at[1];
    const Tensor states =
        scan(at::cat({driven.narrow(1, 0, 1) + (z * x).unsqueeze(1), driven.narrow(1, 1, part.size(1) - 1)}, 1), log_z);
    parts.push_back(2 * at::real(at[2] * states).sum(-1) + at[3] * part);
    x = states.select(1, part.size(1) - 1);
  }
  return {at::cat(parts, 1).to(u.scalar_type()), to_real_state(x)};
}

std::tuple<Tensor, Tensor> S4DImpl::step(const Realization& at, const Tensor& u, const Tensor& state) const {
  const Tensor sample = u.to(at::kDouble), x = at[0].exp() * to_complex_state(state) + at[1] * sample.unsqueeze(2);
  return {(2 * at::real(at[2] * x).sum(-1) + at[3] * sample).to(u.scalar_type()), to_real_state(x)};
}

}  // namespace rtf::nn
