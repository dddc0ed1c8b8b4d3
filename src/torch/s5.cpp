// S5: one diagonal system with as many inputs and outputs as channels, run by a scan.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>

#include "rtf_torch/operators.h"
#include "torch/state_space.h"

namespace rtf::nn {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

// x with `more` added at the first position.
Tensor add_first(const Tensor& x, const Tensor& more) {
  const Tensor y = x.clone();
  y.select(1, 0).add_(more);
  return y;
}

// States of samples [first, first + count): from x, the one before.
Tensor states_of(const Tensor& u, const Tensor& b, const Tensor& log_z, const Tensor& x) {
  return scan(add_first(to_complex_state(at::matmul(u, b.t())), log_z.exp() * x), log_z);
}

// y = 2 Re(C x) and the last state, chunk after chunk: the states of one chunk alone are in memory. Kept for the
// gradient is the state ahead of each; the others are made again.
// u (batch, length, channels), x (batch, pairs), log_z (pairs), b and c (2 pairs, channels) real.
struct ScanFunction : torch::autograd::Function<ScanFunction> {
  static variable_list forward(AutogradContext* context, const Tensor& u, const Tensor& x0, const Tensor& log_z,
                               const Tensor& b, const Tensor& c) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    std::vector<Tensor> parts, ahead;
    Tensor x = x0;
    for (int64_t first = 0; first < u.size(1); first += scan_chunk) {
      const Tensor part = u.narrow(1, first, std::min(scan_chunk, u.size(1) - first));
      ahead.push_back(x);
      const Tensor states = states_of(part, b, log_z, x);
      parts.push_back(at::matmul(to_real_state(states), c));
      x = states.select(1, part.size(1) - 1).clone();
    }
    context->save_for_backward({u, log_z, b, c, at::stack(ahead, 0)});
    return {at::cat(parts, 1), x};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::NoGradGuard no_grad;
    const auto saved = context->get_saved_variables();
    const Tensor &u = saved[0], &log_z = saved[1], &b = saved[2], &c = saved[3], &ahead = saved[4];
    const Tensor conjugate = log_z.conj().resolve_conj(), back = conjugate.exp();
    // The gradient that reaches the last state of a chunk from behind.
    Tensor carried = gradients[1].defined() ? gradients[1] : at::zeros_like(ahead[0]);
    Tensor db = at::zeros_like(b), dc = at::zeros_like(c), dz = at::zeros_like(log_z);
    std::vector<Tensor> parts(ahead.size(0));
    for (int64_t i = ahead.size(0) - 1; i >= 0; --i) {
      const int64_t first = i * scan_chunk, count = std::min(scan_chunk, u.size(1) - first);
      const Tensor part = u.narrow(1, first, count), states = states_of(part, b, log_z, ahead[i]);
      const Tensor dy = gradients[0].defined() ? gradients[0].narrow(1, first, count) : at::zeros_like(part);
      const Tensor reversed = add_first(to_complex_state(at::matmul(dy, c.t())).flip(1), carried);
      const Tensor dx = scan(reversed, conjugate).flip(1);
      parts[i] = at::matmul(to_real_state(dx), b);
      db += at::matmul(to_real_state(dx).flatten(0, 1).t(), part.flatten(0, 1));
      dc += at::matmul(to_real_state(states).flatten(0, 1).t(), dy.flatten(0, 1));
      const Tensor before = at::cat({ahead[i].unsqueeze(1), states.narrow(1, 0, count - 1)}, 1);
      dz += (dx * before.conj()).flatten(0, 1).sum(0);
      carried = back * dx.select(1, 0);
    }
    return {at::cat(parts, 1), carried, back * dz, db, dc};
  }
};

}  // namespace

S5Impl::S5Impl(const LayerOptions& sizes, const BaselineOptions& baseline) : BaselineImpl("S5", sizes, baseline) {
  const int64_t order = sizes.order, channels = sizes.channels, blocks = options.blocks;
  TORCH_CHECK(blocks >= 1 && order % (2 * blocks) == 0, "[rtf::S5] order is ", order, " and blocks is ", blocks,
              "; a block is a whole number of pairs of poles");
  TORCH_CHECK(sizes.denominators == 1, "[rtf::S5] denominators is ", sizes.denominators,
              "; all channels are one system, so 1 is needed");
  const Legs block = legs(order / blocks);
  const Tensor poles = block.poles.repeat({blocks});
  const std::vector<Tensor> copies(blocks, block.vectors);
  const Tensor vectors = at::block_diag(copies);  // (order, order / 2)
  a_real = add_parameter("a_real", at::real(poles));
  a_imag = add_parameter("a_imag", at::imag(poles));
  const double deviation = 1 / std::sqrt(static_cast<double>(order));
  const Tensor plain_b = deviation * draw_truncated(sizes, Draw::input, {order, channels});
  b = add_parameter("b", to_pairs(at::matmul(vectors.conj().t().resolve_conj(), plain_b.to(at::kComplexDouble))));
  const int64_t outputs = directions();
  Tensor plain_c;
  switch (options.init) {
    case SystemInit::complex_normal:
      plain_c = to_complex(draw_normal(sizes, Draw::output, {outputs, channels, order / 2, 2}) * std::sqrt(0.5));
      break;
    case SystemInit::trunc_standard_normal:
    case SystemInit::lecun_normal: {
      const double rows = options.init == SystemInit::lecun_normal ? static_cast<double>(channels) : 1.0;
      const Tensor numbers =
          draw_truncated(sizes, Draw::output, {outputs, channels, order, 2}) * (deviation / std::sqrt(rows));
      plain_c = at::matmul(to_complex(numbers), vectors);
      break;
    }
    default:
      TORCH_CHECK(false, "[rtf::S5] init must be trunc_standard_normal, lecun_normal or complex_normal");
  }
  c = add_parameter("c", to_pairs(plain_c));
  BaselineOptions logarithms = options;
  logarithms.dt_transform = StepTransform::exp;
  dt = add_parameter("dt", initial_steps(sizes, logarithms, order / 2));
}

std::tuple<Tensor, Tensor> S5Impl::discretize() const {
  Tensor real = a_real.to(at::kDouble);
  if (options.clip) real = real.clamp_max(-1e-4);
  const Tensor a = at::complex(real, a_imag.to(at::kDouble)), log_z = a * steps(dt, StepTransform::exp);
  return {log_z, to_complex(b) * ((log_z.exp() - 1) / a).unsqueeze(1)};
}

Realization S5Impl::realize() const {
  const auto [log_z, in] = discretize();
  const Tensor out = to_complex(c);
  // As the scan reads them: rows re, im of b, and 2 re, -2 im of c.
  const Tensor real_b = at::stack({at::real(in), at::imag(in)}, 1).flatten(0, 1);
  const Tensor real_c = at::stack({2 * at::real(out), -2 * at::imag(out)}, -1).flatten(-2).transpose(1, 2);
  return {log_z, real_b, real_c, feedthrough()};
}

std::tuple<Tensor, Tensor> S5Impl::run(const Tensor& u, const Tensor& state, const Realization& at,
                                       int64_t direction) const {
  const auto real = u.scalar_type(), complex = c10::toComplexType(real);
  const auto result =
      ScanFunction::apply(u, state.to(complex), at[0].to(complex), at[1].to(real), at[2].select(0, direction).to(real));
  return {result[0], result[1]};
}

Tensor S5Impl::forward(const Tensor& u, const std::optional<Tensor>& lengths, const std::optional<Tensor>&) {
  check_input(u);
  const Realization at = realize();
  const Tensor in = (lengths ? cut(u, *lengths) : u).to(c.scalar_type());
  const Tensor zeros = at::zeros({u.size(0), sizes_.order / 2}, at[0].options().requires_grad(false));
  Tensor y = std::get<0>(run(in, zeros, at, 0));
  if (sizes_.bidirectional) y = y + std::get<0>(run(in.flip(1), zeros, at, 1)).flip(1);
  if (d.defined()) y = y + d * in;
  return y.to(u.scalar_type());
}

Tensor S5Impl::kernel(int64_t length) const {
  check_length(length);
  check_causal();
  const int64_t channels = sizes_.channels;
  const auto [log_z, in] = discretize();
  const Tensor pairs = (to_complex(c).squeeze(0).unsqueeze(1) * in.t().unsqueeze(0)).flatten(0, 1);
  const auto type = c10::toComplexType(c.scalar_type());
  Tensor k = ops::vandermonde(pairs.to(type), log_z.expand({channels * channels, -1}), length)
                 .unflatten(0, {channels, channels});
  if (d.defined()) k = k + at::diag_embed(d).unsqueeze(2) * (at::arange(length, d.options().dtype(at::kLong)) == 0);
  return k;
}

Tensor S5Impl::zero_state(int64_t batch) const {
  return at::zeros({batch, sizes_.order}, c.options().dtype(at::kDouble).requires_grad(false));
}

std::tuple<Tensor, Tensor> S5Impl::prefill(const Realization& at, const Tensor& u, const Tensor& state) const {
  check_causal();
  if (u.size(1) == 0) return {u, state};
  const Tensor samples = u.to(at::kDouble);
  const auto [y, x] = run(samples, to_complex_state(state), at, 0);
  return {(y + at[3] * samples).to(u.scalar_type()), to_real_state(x)};
}

std::tuple<Tensor, Tensor> S5Impl::step(const Realization& at, const Tensor& u, const Tensor& state) const {
  const auto [y, x] = prefill(at, u.unsqueeze(1), state);
  return {y.squeeze(1), x};
}

}  // namespace rtf::nn
