// S4: diagonal plus low rank, its kernel by the Cauchy kernel at the roots of unity.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "rtf_torch/operators.h"
#include "torch/state_space.h"

namespace rtf::nn {

using at::Tensor;

namespace {

// sum over all states of conj(p) x, half of them and their conjugates: real.
Tensor project_on(const Tensor& p, const Tensor& x) { return 2 * at::real(p.conj() * x).sum(-1); }

// (1 + m)^-1 x for m (..., rank, rank) and x (..., rank), given entry by entry along dimension 1: rank 1 or 2.
std::vector<Tensor> solve_small(const Tensor& m, const Tensor& x, int64_t rank) {
  const auto entry = [&](int64_t i, int64_t j) { return m.select(1, i).select(1, j); };
  if (rank == 1) return {x.select(1, 0) / (1 + entry(0, 0))};
  const Tensor a = 1 + entry(0, 0), b = entry(0, 1), c = entry(1, 0), d = 1 + entry(1, 1), det = a * d - b * c;
  const Tensor x0 = x.select(1, 0), x1 = x.select(1, 1);
  return {(d * x0 - b * x1) / det, (a * x1 - c * x0) / det};
}

// Channels whose dense matrices are made at once: about 64 MiB each.
int64_t dense_rows(int64_t order) { return std::max<int64_t>(1, (int64_t{1} << 22) / (order * order)); }

// Whether the channels of each system have one step, and so one matrix; on the tape each has its own.
bool one_step(const Tensor& dt, int64_t systems) {
  if (at::GradMode::is_enabled() && dt.requires_grad()) return false;
  const Tensor rows = dt.detach().view({systems, -1});
  return rows.eq(rows.narrow(1, 0, 1)).all().item<bool>();
}

// Systems with a matrix of their own: all of them, or one where they and all steps are equal.
int64_t different_systems(const S4Impl& layer) {
  const auto equal = [](const Tensor& rows, int64_t dim) {
    return rows.detach().eq(rows.detach().narrow(dim, 0, 1)).all().item<bool>();
  };
  const bool one = one_step(layer.dt, 1) && equal(layer.a_real, 0) && equal(layer.a_imag, 0) && equal(layer.p, 1);
  return one ? 1 : layer.a_real.size(0);
}

// apply(matrices (m, order, order), rows (m, k, order)) for the rows of (directions, channels, order / 2).
template <class Matrices, class Apply>
Tensor by_systems(const Tensor& half, const Tensor& dt, int64_t systems, Matrices matrices, Apply apply) {
  const int64_t directions = half.size(0), channels = half.size(1), order = 2 * half.size(2);
  const Tensor rows = at::cat({half, half.conj()}, -1).transpose(0, 1).contiguous();  // (channels, directions, order)
  std::vector<Tensor> parts;
  if (one_step(dt, systems)) {
    const int64_t group = channels / systems;
    for (int64_t i = 0; i < systems; ++i)
      parts.push_back(apply(matrices(i * group, 1), rows.narrow(0, i * group, group).reshape({1, -1, order}))
                          .view({group, directions, order}));
  } else {
    const int64_t most = dense_rows(order);
    for (int64_t i = 0; i < channels; i += most) {
      const int64_t count = std::min(most, channels - i);
      parts.push_back(apply(matrices(i, count), rows.narrow(0, i, count)));
    }
  }
  return at::cat(parts, 0).narrow(2, 0, order / 2).transpose(0, 1).contiguous();
}

}  // namespace

S4Impl::S4Impl(const LayerOptions& sizes, const BaselineOptions& baseline) : BaselineImpl("S4", sizes, baseline) {
  const int64_t order = sizes.order, pairs = order / 2, systems = sizes.denominators;
  TORCH_CHECK(order % 2 == 0, "[rtf::S4] order is ", order, "; it counts pairs of poles, so an even one is needed");
  TORCH_CHECK(options.rank == 1 || options.rank == 2, "[rtf::S4] rank is ", options.rank, "; 1 or 2 is needed");
  TORCH_CHECK(options.init == SystemInit::legs || options.init == SystemInit::fourier,
              "[rtf::S4] init must be legs or fourier");
  TORCH_CHECK(options.initial_c == InitialC::normal || options.init == SystemInit::fourier,
              "[rtf::S4] initial_c constant needs init fourier: no other has a constant basis function");
  Tensor poles, input, low_rank;
  if (options.init == SystemInit::legs) {
    const Legs from = legs(order);
    poles = from.poles;
    input = from.input;
    low_rank = from.low_rank;
  } else {
    const Tensor k = at::arange(pairs, at::kDouble);
    poles = at::complex(at::zeros_like(k), -std::numbers::pi * k);
    input = at::ones({pairs}, at::kComplexDouble);
    input.narrow(0, 0, 1).fill_(1 / std::numbers::sqrt2);
    low_rank = input;
  }
  const auto shared = [&](const Tensor& one) { return one.unsqueeze(0).expand({systems, -1}).contiguous(); };
  a_real = add_parameter("a_real", shared((-at::real(poles)).clamp_min(1e-4).log()));
  a_imag = add_parameter("a_imag", shared((-at::imag(poles)).clamp_min(1e-4)));
  b = add_parameter("b", to_pairs(shared(input)));
  // A second vector starts at zero.
  const Tensor vectors = at::zeros({options.rank, systems, pairs}, at::kComplexDouble);
  vectors.select(0, 0).copy_(shared(low_rank));
  p = add_parameter("p", to_pairs(vectors));
  dt = add_parameter("dt", initial_steps(sizes, options, sizes.channels));
  Tensor plain_c;
  if (options.initial_c == InitialC::constant) {
    plain_c = at::zeros({directions(), sizes.channels, pairs}, at::kComplexDouble);
    plain_c.select(2, 0).fill_(1 / std::numbers::sqrt2);
  } else {
    plain_c = to_complex(draw_normal(sizes, Draw::output, {directions(), sizes.channels, pairs, 2}) * std::sqrt(0.5));
  }
  const at::NoGradGuard no_grad;
  c = add_parameter("c", to_pairs(wrapped(plain_c, sizes.length)));
}

Tensor S4Impl::diagonal() const { return at::complex(-a_real.to(at::kDouble).exp(), -a_imag.to(at::kDouble)); }

// I - A^length of channels [first, first + count), discretised, over all states: (count, order, order).
Tensor S4Impl::wrapping(int64_t first, int64_t count, int64_t length) const {
  const int64_t channels = sizes_.channels;
  const auto all = [](const Tensor& half) { return at::cat({half, half.conj()}, -1); };
  const auto of_channels = [&](const Tensor& systems) {
    return for_channels(systems, channels).narrow(0, first, count);
  };
  const Tensor poles = all(of_channels(diagonal()));
  const Tensor vectors = all(of_channels(to_complex(p).transpose(0, 1)));  // (count, rank, order)
  const Tensor a = at::diag_embed(poles) - at::matmul(vectors.transpose(1, 2), vectors.conj());
  const Tensor half = 0.5 * steps(dt, options.dt_transform).narrow(0, first, count).view({-1, 1, 1}) * a;
  const Tensor one = at::eye(sizes_.order, half.options());
  const Tensor stepped = at::linalg_solve(one - half, one + half);
  return one - at::linalg_matrix_power(stepped, length);
}

Tensor S4Impl::wrapped(const Tensor& half, int64_t length) const {
  return by_systems(
      half, dt, different_systems(*this), [&](int64_t first, int64_t count) { return wrapping(first, count, length); },
      [](const Tensor& m, const Tensor& rows) { return at::matmul(rows, m); });
}

Tensor S4Impl::plain(const Tensor& half, int64_t length) const {
  return by_systems(
      half, dt, different_systems(*this), [&](int64_t first, int64_t count) { return wrapping(first, count, length); },
      [](const Tensor& m, const Tensor& rows) { return at::linalg_solve(m, rows, /*left=*/false); });
}

Tensor S4Impl::kernel(int64_t length) const {
  check_length(length);
  const int64_t whole = sizes_.length, channels = sizes_.channels, rank = options.rank, outputs = directions();
  const Tensor step = steps(dt, options.dt_transform).unsqueeze(1);
  const Tensor in = for_channels(to_complex(b), channels).unsqueeze(1);
  const Tensor vectors = for_channels(to_complex(p).transpose(0, 1), channels);  // (channels, rank, pairs)
  const Tensor left = at::cat({to_complex(c).transpose(0, 1), vectors.conj()}, 1), right = at::cat({in, vectors}, 1);
  const Tensor v = (step.unsqueeze(2) * left).unsqueeze(2) * right.unsqueeze(1);
  // Poles of the Fourier basis lie 1e-4 from the axis: its four sums are 1e4 times what is left of them.
  const bool wide = c.is_cpu() || c.scalar_type() == at::kDouble || options.init == SystemInit::fourier;
  const auto type = wide ? at::kComplexDouble : at::kComplexFloat;
  // At w = exp(-i t) the points 2 (1 - w) / (1 + w) are i 2 tan(t / 2), and 2 / (1 + w) = 1 + i tan(t / 2).
  const Tensor tangents = (at::arange((whole + 1) / 2, step.options()) * (std::numbers::pi / whole)).tan();
  const Tensor sums = ops::cauchy(v.flatten(1, 2).to(type), for_channels(diagonal(), channels) * step, 2 * tangents)
                          .unflatten(1, {outputs + rank, 1 + rank});
  const Tensor low = sums.narrow(1, outputs, rank);
  const auto inner = solve_small(low.narrow(2, 1, rank), low.select(2, 0), rank);
  Tensor spectrum = sums.narrow(1, 0, outputs).select(2, 0);
  for (int64_t r = 0; r < rank; ++r)
    spectrum = spectrum - sums.narrow(1, 0, outputs).select(2, 1 + r) * inner[r].unsqueeze(1);
  spectrum = spectrum * at::complex(at::ones_like(tangents), tangents).to(type);
  if (whole % 2 == 0) {
    const Tensor limit = at::real(v.narrow(1, 0, outputs).select(2, 0)).sum(-1);
    spectrum = at::cat({spectrum, limit.to(type).unsqueeze(2)}, 2);
  }
  Tensor k = at::fft_irfft(spectrum.transpose(0, 1).flatten(0, 1), whole).to(c.scalar_type());
  if (length < whole) k = k.narrow(1, 0, length);
  return finish_kernel(k);
}

Realization S4Impl::realize() const {
  check_causal();
  const Tensor step = steps(dt, options.dt_transform).unsqueeze(1), poles = for_channels(diagonal(), sizes_.channels);
  const Tensor vectors = for_channels(to_complex(p).transpose(0, 1), sizes_.channels);
  const Tensor inverse = (2 / step - poles).reciprocal();
  const Tensor small = 2 * at::real(at::matmul(vectors.conj() * inverse.unsqueeze(1), vectors.transpose(1, 2)));
  const Tensor in = for_channels(to_complex(b), sizes_.channels);
  return {2 / step + poles, inverse, vectors, small, 2 * in, plain(to_complex(c), sizes_.length).squeeze(0),
          feedthrough()};
}

std::tuple<Tensor, Tensor> S4Impl::step(const Realization& at, const Tensor& u, const Tensor& state) const {
  const Tensor &forward = at[0], &inverse = at[1], &vectors = at[2], &small = at[3];
  const Tensor sample = u.to(at::kDouble), old = to_complex_state(state);
  const auto vector = [&](int64_t r) { return vectors.select(1, r); };
  Tensor x = forward * old + at[4] * sample.unsqueeze(2);
  for (int64_t r = 0; r < options.rank; ++r) x = x - vector(r) * project_on(vector(r), old).unsqueeze(2);
  x = inverse * x;
  std::vector<Tensor> projections;
  for (int64_t r = 0; r < options.rank; ++r) projections.push_back(project_on(vector(r), x));
  const auto inner = solve_small(small.unsqueeze(0).permute({0, 2, 3, 1}), at::stack(projections, 1), options.rank);
  for (int64_t r = 0; r < options.rank; ++r) x = x - inverse * vector(r) * inner[r].unsqueeze(2);
  const Tensor y = 2 * at::real(at[5] * x).sum(-1) + at[6] * sample;
  return {y.to(u.scalar_type()), to_real_state(x)};
}

void S4Impl::set_length(int64_t length) {
  TORCH_CHECK(length >= 1, "[rtf::S4] length is ", length, "; at least 1 is needed");
  if (length == sizes_.length) return;
  const at::NoGradGuard no_grad;
  c.copy_(to_pairs(wrapped(plain(to_complex(c), sizes_.length), length)));
  sizes_.length = length;
}

}  // namespace rtf::nn
