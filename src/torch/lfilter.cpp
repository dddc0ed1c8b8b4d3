// lfilter: scipy.signal.lfilter with gradients; transposed_filter: filter with SciPy's states.
#include "rtf/lfilter.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <array>

#include "torch/bridge.h"
#include "torch/dispatch.h"
#include "torch/filter.h"
#include "torch/rational.h"
#include "torch/tape.h"

namespace rtf::ops {
namespace {

Pair transposed_filter(const Tensor& u, const Tensor& a, const Tensor& b, const Tensor& h0, const OptionalTensor& zi,
                       bool return_zf) {
  RTF_OPERATOR("transposed_filter", Pair, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
               const OptionalTensor&, bool);
  return op.call(u, a, b, h0, zi, return_zf);
}

Tensor no_state() { return at::empty({0}, at::kDouble); }

// sum_{m >= 1} c_{t+m} x_m for t = 0..n-1, x and the result (batch, n, channels), c (channels, n).
Tensor advance(const Tensor& x, const Tensor& c) { return convolve(x, c.flip(1)).flip(1); }

// (first, c_1, ..., c_{n-1}), the first n coefficients of a polynomial.
Tensor leading(double first, const Tensor& c) { return at::constant_pad_nd(c.slice(1, 0, -1), {1, 0}, first); }

// The state (batch, n, channels) that SciPy has where the companion state is x: both leave the same output behind.
Tensor transposed_state(const Tensor& x, const Tensor& a, const Tensor& b) {
  return convolve(advance(x, b), leading(1, a)) - convolve(advance(x, a), leading(0, b));
}

void check_zi(const Tensor& zi, const Tensor& u, const Tensor& b) {
  const std::array<c10::SymInt, 3> shape{u.sym_size(0), b.sym_size(0), b.sym_size(1)};
  TORCH_CHECK_VALUE(zi.sym_sizes() == c10::SymIntArrayRef(shape) && zi.scalar_type() == at::kDouble,
                    "[rtf::transposed_filter] zi has shape ", zi.sym_sizes(), " and is ", zi.scalar_type(), "; ",
                    c10::SymIntArrayRef(shape), " in float64 is needed");
}

// In double, which loses digits of zf where 1/A is large.
Pair composed_transposed_filter(const Tensor& u, const Tensor& a, const Tensor& b, const Tensor& h0,
                                const OptionalTensor& zi, bool return_zf) {
  check_coefficients("transposed_filter", a, b, h0);
  check_filter_input("transposed_filter", u, b);
  if (zi) check_zi(*zi, u, b);
  auto [y, end] = filter(u, a, b, h0);
  const auto order = a.sym_size(1), length = u.sym_size(1);
  if (order == 0) return {y, return_zf ? end : end.new_empty({0})};
  const Tensor every_a = spread_rows(a, b.sym_size(0)).to(at::kDouble);
  Tensor start, free_end;
  if (zi) {
    // The output is (N U + Z) / A: what zi adds is the response of 1/A to its numbers.
    start = at::constant_pad_nd_symint(zi->transpose(1, 2), {0, 0, 0, length});
    Tensor free;
    std::tie(free, free_end) = filter(start.slice_symint(1, 0, length), a, -every_a, at::ones_like(h0));
    y = y + free.to(y.scalar_type());
  }
  if (!return_zf) return {y, end.new_empty({0})};
  Tensor zf = transposed_state(end.transpose(1, 2), every_a, b.to(at::kDouble));
  if (zi) zf = zf - advance(free_end.transpose(1, 2), every_a) + start.slice_symint(1, length, length + order);
  return {y, zf.transpose(1, 2).contiguous()};
}

Pair transposed_filter_cpu(const Tensor& u, const Tensor& a, const Tensor& b, const Tensor& h0,
                           const OptionalTensor& zi, bool return_zf) {
  constexpr const char* operation = "transposed_filter";
  const CoefficientTensors c(operation, a, b, h0);
  const auto type = compute_type(operation, u.scalar_type());
  check_filter_input(operation, u, b);
  if (zi) check_zi(*zi, u, b);
  const Tensor in = u.to(type), start = zi ? zi->contiguous() : no_state();
  const Tensor out = empty_result(in, type);
  const Tensor zf = return_zf ? at::empty({u.size(0), b.size(0), b.size(1)}, at::kDouble) : no_state();
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    rtf::lfilter<T>(c.plain(), signal<const T>(in), signal<T>(out), values<const double>(start), values<double>(zf));
  });
  return {as_result(out, u, u.scalar_type()), zf};
}

// The transposed form is s_{t+1} = F s_t + b u_t, y_t = s_t^1 + h0 u_t with the transpose F of the companion matrix.
// Its adjoint is the companion form, backwards in time from dzf: no state is converted. <dy, y> + <dzf, zf> is the same
// number read from either end, so that the gradients to coefficients are those of that companion form, with u and zi
// for what comes back to it.
variable_list transposed_filter_gradient(const variable_list& saved, const variable_list& gradients) {
  const Tensor &u = saved[0], &a = saved[1], &b = saved[2], &h0 = saved[3];
  const OptionalTensor zi = given(saved[4]), end = gradients.size() > 1 ? given(gradients[1]) : std::nullopt;
  if (!zi && !end) {
    const auto [du, da, db, dh0, dx] = filter_backward(gradients[0], {}, u, a, b, h0, {}, {}, {});
    return {du, da, db, dh0, Tensor()};
  }
  const Tensor backwards = or_zero(gradients[0], u).to(at::kDouble).flip(1);
  const auto [du, dzi] = filter(backwards, a, b, h0, end);
  const auto [y, da, db, dh0, zf] = filter_backward(u.to(at::kDouble).flip(1), zi, backwards, a, b, h0, end, {}, {});
  return {du.flip(1).to(u.scalar_type()), da, db, dh0, zi ? dzi : Tensor()};
}

Pair transposed_filter_autograd(const Tensor& u, const Tensor& a, const Tensor& b, const Tensor& h0,
                                const OptionalTensor& zi, bool return_zf) {
  const auto result = record(
      "transposed_filter", {u, a, b, h0, kept(zi)}, {u, a, b, h0, kept(zi)},
      [&]() -> variable_list {
        auto [y, zf] = transposed_filter(u, a, b, h0, zi, return_zf);
        return {y, zf};
      },
      transposed_filter_gradient, /*differentiable=*/return_zf ? 2 : 1);
  return {result[0], result[1]};
}

// Throws unless zi has the size of a state, and leading ones that are those of x or stretch to them.
void check_broadcast(const Tensor& zi, c10::SymIntArrayRef shape) {
  const auto more = static_cast<int64_t>(shape.size()) - zi.dim();
  bool fits = zi.dim() >= 1 && more >= 0 && zi.sym_size(-1) == shape.back();
  for (int64_t i = 0; fits && i + 1 < zi.dim(); ++i) fits = zi.sym_size(i) == 1 || zi.sym_size(i) == shape[more + i];
  TORCH_CHECK_VALUE(fits, "[rtf::lfilter] zi has shape ", zi.sym_sizes(), "; ", shape, " is needed");
}

Pair lfilter_composite(const Tensor& x, const Tensor& a_, const Tensor& b_, const OptionalTensor& h0_,
                       const OptionalTensor& zi, bool return_zf) {
  TORCH_CHECK_VALUE(x.dim() >= 1, "[rtf::lfilter] x has shape ", x.sym_sizes(), "; (..., length) is needed");
  const bool each_channel = has_channels(a_, b_, h0_);
  // (batch, length, channels). A filter for all rows takes them as channels: one a lane.
  c10::SymInt batch = 1, channels = 1;
  for (int64_t i = 0; i + 1 < x.dim(); ++i) (each_channel && i + 2 < x.dim() ? batch : channels) *= x.sym_size(i);
  // On a GPU a row for each of a few channels costs less than to add their gradients up in operations of their own.
  const bool few = x.is_cuda() && channels > 0 && channels <= 64, said = each_channel ? x.dim() >= 2 : few;
  const Rational r = rational("lfilter", a_, b_, h0_, said ? std::optional(channels) : std::nullopt);
  const auto order = r.a.sym_size(1), length = x.sym_size(-1);
  TORCH_CHECK_VALUE(!each_channel || x.dim() >= 2, "[rtf::lfilter] x has shape ", x.sym_sizes(), "; (..., ",
                    r.b.sym_size(0), ", length) is needed for coefficients of ", r.b.sym_size(0), " channels");
  auto state_shape = x.sym_sizes().vec();
  state_shape.back() = order;
  if (zi) check_broadcast(*zi, state_shape);
  if (batch == 0 || channels == 0) {  // nothing, with a gradient of zeros for everything
    Tensor none = r.a.sum() + r.b.sum() + r.h0.sum();
    if (zi) none = none + zi->sum();
    none = none * 0;
    return {x + none.to(x.scalar_type()), at::zeros_symint(state_shape, r.a.options()) + none};
  }
  const Tensor a = r.a, b = said ? r.b : r.b.expand_symint({channels, order});
  const Tensor h0 = said ? r.h0 : r.h0.expand_symint({channels});
  OptionalTensor start;
  if (zi) start = zi->to(at::kDouble).expand_symint(state_shape).reshape_symint({batch, channels, order});
  const Tensor u = x.reshape_symint({batch, channels, length}).transpose(1, 2);
  const auto [y, zf] = transposed_filter(u, a, b, h0, start, return_zf);
  const Tensor out = y.transpose(1, 2).reshape_symint(x.sym_sizes());
  return {out, return_zf ? zf.reshape_symint(state_shape) : zf};
}

}  // namespace

TORCH_LIBRARY_IMPL(rtf, CompositeImplicitAutograd, m) { m.impl("lfilter", lfilter_composite); }
TORCH_LIBRARY_IMPL(rtf, CompositeExplicitAutograd, m) { m.impl("transposed_filter", composed_transposed_filter); }
TORCH_LIBRARY_IMPL(rtf, CPU, m) { m.impl("transposed_filter", transposed_filter_cpu); }
TORCH_LIBRARY_IMPL(rtf, Autograd, m) { m.impl("transposed_filter", transposed_filter_autograd); }

}  // namespace rtf::ops
