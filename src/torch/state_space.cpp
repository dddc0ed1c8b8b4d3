#include "torch/state_space.h"

#include <ATen/ATen.h>

#include <cmath>
#include <numbers>

#include "rtf/random.h"
#include "rtf_torch/operators.h"

namespace rtf::nn {

using at::Tensor;

namespace {

template <class Value>
Tensor filled(at::IntArrayRef shape, Value value) {
  const Tensor result = at::empty(shape, at::kDouble);
  double* to = result.data_ptr<double>();
  for (int64_t i = 0; i < result.numel(); ++i) to[i] = value(static_cast<uint64_t>(i));
  return result;
}

}  // namespace

uint64_t draw_seed(const LayerOptions& sizes, Draw draw) {
  const auto words = philox({static_cast<uint32_t>(sizes.index), static_cast<uint32_t>(draw), 0, 0},
                            {static_cast<uint32_t>(sizes.seed), static_cast<uint32_t>(sizes.seed >> 32)});
  return uint64_t{words[1]} << 32 | words[0];
}

Tensor draw_normal(const LayerOptions& sizes, Draw draw, at::IntArrayRef shape) {
  const Random random(draw_seed(sizes, draw));
  return filled(shape, [&](uint64_t i) { return random.normal(i); });
}

Tensor draw_uniform(const LayerOptions& sizes, Draw draw, at::IntArrayRef shape) {
  const Random random(draw_seed(sizes, draw));
  return filled(shape, [&](uint64_t i) { return random.uniform(i); });
}

Tensor draw_truncated(const LayerOptions& sizes, Draw draw, at::IntArrayRef shape) {
  const double below = 0.5 * std::erfc(std::numbers::sqrt2);  // of N(0, 1), under -2
  // The variance of what is left between -2 and 2 is 1 - 4 phi(2) / (1 - 2 below).
  const double density = std::exp(-2.0) / std::sqrt(2 * std::numbers::pi);
  const double deviation = std::sqrt(1 - 4 * density / (1 - 2 * below));
  return at::special_ndtri(draw_uniform(sizes, draw, shape) * (1 - 2 * below) + below) / deviation;
}

Tensor to_pairs(const Tensor& complex) { return at::view_as_real(complex.resolve_conj()); }
Tensor to_complex(const Tensor& pairs) { return at::view_as_complex(pairs.to(at::kDouble).contiguous()); }

Tensor to_real_state(const Tensor& complex) { return at::view_as_real(complex.resolve_conj()).flatten(-2); }
Tensor to_complex_state(const Tensor& real) { return at::view_as_complex(real.contiguous().unflatten(-1, {-1, 2})); }

Legs legs(int64_t order) {
  const Tensor i = at::arange(order, at::kDouble), p = (i + 0.5).sqrt(), b = (2 * i + 1).sqrt();
  // A + p p^T + 1/2 is skew-symmetric: sqrt((2i + 1)(2j + 1)) / 2, positive above the diagonal.
  const Tensor half = 0.5 * b.unsqueeze(1) * b.unsqueeze(0), skew = half.triu(1) - half.tril(-1);
  const c10::complex<double> minus_i(0, -1);
  auto [frequencies, vectors] = at::linalg_eigh(skew.to(at::kComplexDouble) * minus_i);
  const Tensor kept = vectors.narrow(1, 0, order / 2);
  const Tensor low_rank = at::matmul(kept.conj().t(), p.to(at::kComplexDouble));
  const Tensor phase = low_rank / low_rank.abs();
  Legs result;
  result.poles = at::complex(at::full({order / 2}, -0.5, at::kDouble), frequencies.narrow(0, 0, order / 2));
  result.vectors = kept * phase.unsqueeze(0);
  result.low_rank = low_rank.abs().to(at::kComplexDouble);
  // b is p times the root of 2, so real too: the release's limit of 2 on its imaginary part has nothing to cut off.
  result.input = at::matmul(result.vectors.conj().t(), b.to(at::kComplexDouble)).resolve_conj();
  return result;
}

Tensor initial_steps(const LayerOptions& sizes, const BaselineOptions& options, int64_t count) {
  const double low = std::log(options.dt_min), high = std::log(options.dt_max);
  const Tensor log_steps = low + (high - low) * draw_uniform(sizes, Draw::step, {count});
  const Tensor drawn = log_steps.exp();
  if (options.initial_step == InitialStep::release) return drawn;
  // softplus(x) = step: x = step + log(1 - exp(-step)).
  return options.dt_transform == StepTransform::exp ? log_steps : drawn + (-(-drawn).expm1()).log();
}

Tensor steps(const Tensor& dt, StepTransform transform) {
  const Tensor x = dt.to(at::kDouble);
  return transform == StepTransform::exp ? x.exp() : at::softplus(x);
}

Tensor for_channels(const Tensor& systems, int64_t channels) {
  return systems.repeat_interleave(channels / systems.size(0), 0);
}

Tensor scan(const Tensor& v, const Tensor& log_z) {
  Tensor x = v;
  const int64_t length = v.size(1);
  for (int64_t shift = 1; shift < length; shift *= 2) {
    const Tensor power = (static_cast<double>(shift) * log_z).exp();
    x = at::cat({x.narrow(1, 0, shift), x.narrow(1, shift, length - shift) + power * x.narrow(1, 0, length - shift)},
                1);
  }
  return x;
}

BaselineImpl::BaselineImpl(const char* name, const LayerOptions& sizes, const BaselineOptions& baseline)
    : options(baseline), name_(name), sizes_(sizes) {
  const auto at_least_1 = [&](const char* what, int64_t value) {
    TORCH_CHECK(value >= 1, "[rtf::", name, "] ", what, " is ", value, "; at least 1 is needed");
  };
  at_least_1("channels", sizes.channels);
  at_least_1("order", sizes.order);
  at_least_1("length", sizes.length);
  at_least_1("denominators", sizes.denominators);
  TORCH_CHECK(sizes.channels % sizes.denominators == 0, "[rtf::", name, "] ", sizes.denominators,
              " denominators do not divide ", sizes.channels, " channels");
  TORCH_CHECK(options.dt_min > 0 && options.dt_min <= options.dt_max, "[rtf::", name, "] dt_min is ", options.dt_min,
              " and dt_max ", options.dt_max, "; 0 < dt_min <= dt_max is needed");
  if (options.skip) d = add_parameter("d", draw_normal(sizes, Draw::skip, {sizes.channels}));
}

Tensor BaselineImpl::add_parameter(const char* name, const Tensor& values) {
  return register_parameter(name, values.to(at::kFloat).contiguous());
}

void BaselineImpl::check_length(int64_t length) const {
  TORCH_CHECK(length >= 1 && length <= sizes_.length, "[rtf::", name_, "] a sequence of ", length,
              " samples; the layer takes 1 to ", sizes_.length);
}

void BaselineImpl::check_input(const Tensor& u) const {
  TORCH_CHECK(u.dim() == 3 && u.size(2) == sizes_.channels, "[rtf::", name_, "] u has shape ", u.sizes(),
              "; (batch, length, ", sizes_.channels, ") is needed");
  check_length(u.size(1));
}

void BaselineImpl::check_causal() const {
  TORCH_CHECK(!sizes_.bidirectional, "[rtf::", name_,
              "] a bidirectional layer has no recurrence: it sees the whole sequence");
}

Tensor BaselineImpl::feedthrough() const {
  return d.defined() ? d.to(at::kDouble) : at::zeros({sizes_.channels}, parameters()[0].options().dtype(at::kDouble));
}

Tensor BaselineImpl::finish_kernel(Tensor k) const {
  // The skip term is a kernel of one sample: lag 0 of the forward kernel.
  if (d.defined()) k.narrow(0, 0, sizes_.channels).select(1, 0).add_(d);
  return sizes_.bidirectional ? k.unflatten(0, {2, sizes_.channels}) : k;
}

Tensor BaselineImpl::forward(const Tensor& u, const std::optional<Tensor>& lengths, const std::optional<Tensor>&) {
  check_input(u);
  return ops::convolve(u, kernel(u.size(1)), sizes_.bidirectional, lengths);
}

Tensor BaselineImpl::zero_state(int64_t batch) const {
  const auto options_of = parameters()[0].options().dtype(at::kDouble).requires_grad(false);
  return at::zeros({batch, sizes_.channels, sizes_.order}, options_of);
}

std::tuple<Tensor, Tensor> BaselineImpl::prefill(const Realization& at, const Tensor& u, const Tensor& state) const {
  if (u.size(1) == 0) return {u, state};
  Tensor x = state;
  std::vector<Tensor> samples;
  for (int64_t t = 0; t < u.size(1); ++t) {
    Tensor y;
    std::tie(y, x) = step(at, u.select(1, t), x);
    samples.push_back(y);
  }
  return {at::stack(samples, 1), x};
}

void BaselineImpl::set_length(int64_t length) {
  TORCH_CHECK(length >= 1, "[rtf::", name_, "] length is ", length, "; at least 1 is needed");
  sizes_.length = length;
}

}  // namespace rtf::nn
