// lfilter: scipy.signal.lfilter with gradients, in a few calls of filter and convolve; rational, the coefficients of
// it.
#include <ATen/ATen.h>
#include <ATen/TensorSubclassLikeUtils.h>
#include <torch/library.h>

#include "core/double_double.h"
#include "torch/bridge.h"
#include "torch/dispatch.h"
#include "torch/rational.h"

namespace rtf::ops {

Tensor for_channels(const Tensor& rows, const c10::SymInt& channels) {
  return rows.sym_size(0) == 1 ? rows : rows.repeat_interleave_symint(channels / rows.sym_size(0), 0);
}

void check_finite(const char* operation, const char* name, const Tensor& values) {
  if (!values.is_cpu() || at::isTensorSubclassLike(values)) return;
  const Tensor bad = values.masked_select(values.isfinite().logical_not());
  TORCH_CHECK_VALUE(bad.numel() == 0, "[rtf::", operation, "] ", name, " has ", bad[0].item<double>(),
                    " among its numbers; they must be finite");
}

namespace {

// c - x y, the product with all its digits: of b - h0 a, which filters that block a constant nearly cancel, the plain
// one leaves too few. Its gradient is that of the plain one.
Tensor minus_product(const Tensor& c, const Tensor& x, const Tensor& y) {
  const Tensor product = x * y, lost = product_error(x.detach(), y.detach(), product.detach());
  return (c - product) - lost.nan_to_num(0, 0, 0);  // numbers next to the largest double cannot be split
}

}  // namespace

Rational rational(const char* operation, const Tensor& a, const Tensor& b, const OptionalTensor& h0,
                  const std::optional<c10::SymInt>& said) {
  for (const Tensor& c : {a, b})
    TORCH_CHECK_VALUE(c.dim() == 1 || c.dim() == 2, "[rtf::", operation, "] a and b have shapes ", a.sym_sizes(),
                      " and ", b.sym_sizes(), "; (coefficients) or (channels, coefficients) are needed");
  TORCH_CHECK_VALUE(!h0 || h0->dim() <= 1, "[rtf::", operation, "] h0 has shape ", h0 ? h0->sym_sizes() : a.sym_sizes(),
                    "; a number or (channels) is needed");
  TORCH_CHECK_VALUE(h0 || (a.sym_size(-1) > 0 && b.sym_size(-1) > 0), "[rtf::", operation, "] a and b have shapes ",
                    a.sym_sizes(), " and ", b.sym_sizes(), "; a_0 and b_0 are needed, or h0 in their place");
  TORCH_CHECK_VALUE(!h0 || a.sym_size(-1) == b.sym_size(-1), "[rtf::", operation, "] a has ", a.sym_size(-1),
                    " coefficients and b has ", b.sym_size(-1), "; beside h0 both have as many as the order");
  // In double whatever they are: what is divided and subtracted here is filtered with.
  const auto rows = [](const Tensor& c) { return (c.dim() == 1 ? c.unsqueeze(0) : c).to(at::kDouble); };
  Rational r{rows(a), rows(b), h0 ? h0->to(at::kDouble).reshape({-1}) : Tensor(),
             a.dim() == 2 || b.dim() == 2 || (h0 && h0->dim() == 1)};
  const auto gains = h0 ? r.h0.sym_size(0) : c10::SymInt(1);
  const auto channels = said && r.each_channel ? *said : r.a.sym_size(0).max(r.b.sym_size(0)).max(gains);
  const auto serves = [&](const c10::SymInt& count) { return count == channels || count == 1; };
  TORCH_CHECK_VALUE(channels > 0 && serves(r.b.sym_size(0)) && serves(gains) && r.a.sym_size(0) > 0 &&
                        channels % r.a.sym_size(0) == 0,
                    "[rtf::", operation, "] a, b and h0 are for ", r.a.sym_size(0), ", ", r.b.sym_size(0), " and ",
                    gains, " channels and there are ", channels,
                    "; b and h0 need as many or 1, and a as many or fewer that divide them");

  check_finite(operation, "a", r.a);
  check_finite(operation, "b", r.b);
  if (h0) check_finite(operation, "h0", r.h0);
  const auto order = r.a.sym_size(1).max(r.b.sym_size(1)) - (h0 ? 0 : 1);
  if (!h0) {
    const Tensor first = r.a.slice(1, 0, 1), below = for_channels(first, channels);
    if (first.is_cpu() && !at::isTensorSubclassLike(first)) {
      const Tensor zero = first.eq(0).nonzero();
      TORCH_CHECK_VALUE(zero.size(0) == 0, "[rtf::", operation, "] a_0 of denominator ", zero[0][0].item<int64_t>(),
                        " is 0; it must be finite and not 0");
    }
    const auto rest = [&](const Tensor& c) {
      return at::constant_pad_nd_symint(c.slice(1, 1), {0, order + 1 - c.sym_size(1)});
    };
    const Tensor h0s = r.b.slice(1, 0, 1) / below, a_rest = rest(r.a);
    r.b = minus_product(rest(r.b), h0s, for_channels(a_rest, channels)) / below;
    r.a = a_rest / first;
    r.h0 = h0s.squeeze(1);
  }
  r.b = r.b.expand_symint({channels, order});
  r.h0 = r.h0.expand_symint({channels});
  return r;
}

namespace {

// sum_{m >= 1} c_{t+m} x_m for t = 0..n-1, x and the result (batch, n, channels), c (channels, n).
Tensor advance(const Tensor& x, const Tensor& c) { return convolve(x, c.flip(1)).flip(1); }

// (first, c_1, ..., c_{n-1}), the first n coefficients of a polynomial.
Tensor leading(double first, const Tensor& c) { return at::constant_pad_nd(c.slice(1, 0, -1), {1, 0}, first); }

// The state (batch, n, channels) that SciPy has where the companion state is x: both leave the same output behind.
Tensor transposed_state(const Tensor& x, const Tensor& a, const Tensor& b) {
  return convolve(advance(x, b), leading(1, a)) - convolve(advance(x, a), leading(0, b));
}

// Throws unless zi has the size of a state, and leading ones that are those of x or stretch to them.
void check_broadcast(const Tensor& zi, c10::SymIntArrayRef shape) {
  const auto more = static_cast<int64_t>(shape.size()) - zi.dim();
  bool fits = zi.dim() >= 1 && more >= 0 && zi.sym_size(-1) == shape.back();
  for (int64_t i = 0; fits && i + 1 < zi.dim(); ++i) fits = zi.sym_size(i) == 1 || zi.sym_size(i) == shape[more + i];
  TORCH_CHECK_VALUE(fits, "[rtf::lfilter] zi has shape ", zi.sym_sizes(), "; ", shape, " is needed");
}

Triple rational_composite(const Tensor& a, const Tensor& b, const OptionalTensor& h0) {
  const Rational r = rational("rational", a, b, h0);
  return {r.a, r.b, r.h0};
}

Pair lfilter_composite(const Tensor& x, const Tensor& a_, const Tensor& b_, const OptionalTensor& h0_,
                       const OptionalTensor& zi, bool return_zf) {
  TORCH_CHECK_VALUE(x.dim() >= 1, "[rtf::lfilter] x has shape ", x.sym_sizes(), "; (..., length) is needed");
  const Rational r = rational("lfilter", a_, b_, h0_, x.dim() < 2 ? std::nullopt : std::optional(x.sym_size(-2)));
  const auto order = r.a.sym_size(1), length = x.sym_size(-1);
  TORCH_CHECK_VALUE(!r.each_channel || x.dim() >= 2, "[rtf::lfilter] x has shape ", x.sym_sizes(), "; (..., ",
                    r.b.sym_size(0), ", length) is needed for coefficients of ", r.b.sym_size(0), " channels");
  // (batch, length, channels). A filter for all rows takes them as channels: one a lane.
  c10::SymInt batch = 1, channels = 1;
  for (int64_t i = 0; i + 1 < x.dim(); ++i) (r.each_channel && i + 2 < x.dim() ? batch : channels) *= x.sym_size(i);
  auto state_shape = x.sym_sizes().vec();
  state_shape.back() = order;
  if (zi) check_broadcast(*zi, state_shape);
  if (batch == 0 || channels == 0) {  // nothing, with a gradient of zeros for everything
    Tensor none = r.a.sum() + r.b.sum() + r.h0.sum();
    if (zi) none = none + zi->sum();
    none = none * 0;
    return {x + none.to(x.scalar_type()), at::zeros_symint(state_shape, r.a.options()) + none};
  }
  const auto samples = [&](const Tensor& rows, const c10::SymInt& count) {
    return rows.reshape_symint({batch, channels, count}).transpose(1, 2);
  };
  const Tensor a = r.a, b = r.b.expand_symint({channels, order}), h0 = r.h0.expand_symint({channels});
  const Tensor every_a = for_channels(a, channels).expand_symint({channels, order});

  auto [y, end] = filter(samples(x, length), a, b, h0);
  Tensor zf = end.transpose(1, 2);
  if (order > 0) {
    if (return_zf) zf = transposed_state(zf, every_a, b);
    if (zi) {
      // The output is (N U + Z) / A: what zi adds is the response of 1/A to its numbers.
      const Tensor start =
          at::constant_pad_nd_symint(samples(zi->to(at::kDouble).expand_symint(state_shape), order), {0, 0, 0, length});
      const auto [free, free_end] = filter(start.slice_symint(1, 0, length), a, -every_a, at::ones_like(h0));
      y = y + free.to(y.scalar_type());
      if (return_zf)
        zf = zf - advance(free_end.transpose(1, 2), every_a) + start.slice_symint(1, length, length + order);
    }
  }
  const Tensor out = y.transpose(1, 2).reshape_symint(x.sym_sizes());
  return {out, return_zf ? zf.transpose(1, 2).reshape_symint(state_shape) : at::empty({0}, end.options())};
}

}  // namespace

TORCH_LIBRARY_IMPL(rtf, CompositeImplicitAutograd, m) {
  m.impl("lfilter", lfilter_composite);
  m.impl("rational", rational_composite);
}

}  // namespace rtf::ops
