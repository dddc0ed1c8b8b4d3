// rational: the coefficients of lfilter and of the responses; monic, the division by the first of a denominator.
#include "torch/rational.h"

#include <ATen/ATen.h>
#include <ATen/TensorSubclassLikeUtils.h>
#include <torch/library.h>

#include <array>

#include "core/double_double.h"
#include "torch/dispatch.h"
#include "torch/tape.h"

namespace rtf::ops {

namespace {
c10::SymInt row_count(const Tensor& c) { return c.dim() == 2 ? c.sym_size(0) : c10::SymInt(1); }
}  // namespace

Tensor for_channels(const Tensor& rows, const c10::SymInt& channels) {
  return rows.sym_size(0) == 1 ? rows : rows.repeat_interleave_symint(channels / rows.sym_size(0), 0);
}

void check_finite(const char* operation, const char* name, const Tensor& values) {
  if (!values.is_cpu() || at::isTensorSubclassLike(values)) return;
  const Tensor bad = values.masked_select(values.isfinite().logical_not());
  TORCH_CHECK_VALUE(bad.numel() == 0, "[rtf::", operation, "] ", name, " has ", bad[0].item<double>(),
                    " among its numbers; they must be finite");
}

void check_monic(const char* operation, const Tensor& a, const Tensor& b, const c10::SymInt& channels) {
  bool fits = channels > 0;
  for (const Tensor& c : {a, b}) fits = fits && (c.dim() == 1 || c.dim() == 2) && c.sym_size(-1) > 0;
  if (fits) {
    const auto denominators = row_count(a), numerators = row_count(b);
    fits = denominators > 0 && channels % denominators == 0 && (numerators == 1 || numerators == channels);
  }
  TORCH_CHECK_VALUE(fits, "[rtf::", operation, "] a and b have shapes ", a.sym_sizes(), " and ", b.sym_sizes(),
                    " and there are ", channels,
                    " channels; (coefficients) or (rows, coefficients) are needed, rows of a"
                    " that divide the channels, and as many of b or 1");
}

void check_monic_gradients(const Tensor& da, const Tensor& db, const Tensor& dh0, const Tensor& a, const Tensor& b) {
  check_monic("monic_backward", a, b, dh0.dim() == 1 ? dh0.sym_size(0) : c10::SymInt(0));
  const auto order = a.sym_size(-1).max(b.sym_size(-1)) - 1;
  const std::array<c10::SymInt, 2> like_a{row_count(a), order}, like_b{dh0.sym_size(0), order};
  TORCH_CHECK_VALUE(da.sym_sizes() == c10::SymIntArrayRef(like_a) && db.sym_sizes() == c10::SymIntArrayRef(like_b),
                    "[rtf::monic_backward] da and db have shapes ", da.sym_sizes(), " and ", db.sym_sizes(), "; ",
                    c10::SymIntArrayRef(like_a), " and ", c10::SymIntArrayRef(like_b), " are needed");
}

bool has_channels(const Tensor& a, const Tensor& b, const OptionalTensor& h0) {
  return a.dim() == 2 || b.dim() == 2 || (h0 && h0->dim() == 1);
}

namespace {

// c - x y, the product with all its digits: of b - h0 a, which filters that block a constant nearly cancel, the plain
// one leaves too few.
Tensor minus_product(const Tensor& c, const Tensor& x, const Tensor& y) {
  const Tensor product = x * y, lost = product_error(x.detach(), y.detach(), product.detach());
  return (c - product) - lost.nan_to_num(0, 0, 0);  // numbers next to the largest double cannot be split
}

// Coefficients (coefficients) or (rows, coefficients) as rows in double: what is divided and subtracted here is
// filtered with.
Tensor rows(const Tensor& c) { return (c.dim() == 1 ? c.unsqueeze(0) : c).to(at::kDouble); }

// c_1, c_2, ... of rows, up to the order.
Tensor rest(const Tensor& c, const c10::SymInt& order) {
  return at::constant_pad_nd_symint(c.slice(1, 1), {0, order + 1 - c.sym_size(1)});
}

Triple monic_by_tensors(const Tensor& a, const Tensor& b, c10::SymInt channels) {
  check_monic("monic", a, b, channels);
  const Tensor a_rows = rows(a), b_rows = rows(b);
  const auto order = a_rows.sym_size(1).max(b_rows.sym_size(1)) - 1;
  const Tensor first = a_rows.slice(1, 0, 1), below = for_channels(first, channels), a_rest = rest(a_rows, order);
  const Tensor h0 = b_rows.slice(1, 0, 1) / below;
  const Tensor to_b = minus_product(rest(b_rows, order), h0, for_channels(a_rest, channels)) / below;
  return {(a_rest / first).contiguous(), to_b.expand_symint({channels, order}).contiguous(),
          h0.squeeze(1).expand_symint({channels}).contiguous()};
}

Triple monic(const Tensor& a, const Tensor& b, const c10::SymInt& channels) {
  RTF_OPERATOR("monic", Triple, const Tensor&, const Tensor&, c10::SymInt);
  return op.call(a, b, channels);
}

Pair monic_backward(const Tensor& da, const Tensor& db, const Tensor& dh0, const Tensor& a, const Tensor& b) {
  RTF_OPERATOR("monic_backward", Pair, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&);
  return op.call(da, db, dh0, a, b);
}

// With g_k = db_k / a_0, the gradient to h0 is dh0 - sum_k g_k a_k =: e, and b_k gets g_k, b_0 e / a_0, a_k - g_k h0,
// a_0 - e h0 / a_0 - sum_k g_k b_k of the result, beside what da gives. Differentiable as often as wanted.
Pair monic_backward_by_tensors(const Tensor& da, const Tensor& db, const Tensor& dh0, const Tensor& a,
                               const Tensor& b) {
  check_monic_gradients(da, db, dh0, a, b);
  const auto channels = db.sym_size(0), order = db.sym_size(1);
  const auto [a_monic, b_monic, h0] = monic(a, b, channels);
  const Tensor a_rows = rows(a), first = a_rows.slice(1, 0, 1), below = for_channels(first, channels),
               gain = h0.unsqueeze(1);
  const Tensor g = db / below, e = dh0.unsqueeze(1) - (g * for_channels(rest(a_rows, order), channels)).sum(1, true);
  Tensor to_b = at::cat({e / below, g}, 1),
         to_a = at::cat({-(e * gain / below) - (g * b_monic).sum(1, true), -g * gain}, 1);
  to_a = to_a.reshape_symint({a_rows.sym_size(0), channels / a_rows.sym_size(0), order + 1}).sum(1) +
         at::cat({-(da * a_monic).sum(1, true), da}, 1) / first;
  if (b.dim() == 1 || b.sym_size(0) != channels) to_b = to_b.sum(0, true);
  const auto like = [](const Tensor& gradient, const Tensor& x) {
    return gradient.slice_symint(1, 0, x.sym_size(-1)).reshape_symint(x.sym_sizes()).to(x.scalar_type()).contiguous();
  };
  return {like(to_a, a), like(to_b, b)};
}

Triple monic_autograd(const Tensor& a, const Tensor& b, c10::SymInt channels) {
  // Torch's operations have forward-mode derivatives.
  if (torch::autograd::isFwGradDefined(a) || torch::autograd::isFwGradDefined(b))
    return monic_by_tensors(a, b, std::move(channels));
  const auto result = record(
      "monic", {a, b}, {a, b},
      [&]() -> variable_list {
        auto [to_a, to_b, h0] = monic(a, b, channels);
        return {to_a, to_b, h0};
      },
      [channels](const variable_list& saved, const variable_list& gradients) -> variable_list {
        const Tensor &below = saved[0], &above = saved[1];
        const auto order = below.sym_size(-1).max(above.sym_size(-1)) - 1;
        const auto or_zeros = [&](const Tensor& gradient, c10::SymIntArrayRef shape) {
          return gradient.defined() ? gradient : at::zeros_symint(shape, below.options().dtype(at::kDouble));
        };
        auto [to_a, to_b] =
            monic_backward(or_zeros(gradients[0], {row_count(below), order}), or_zeros(gradients[1], {channels, order}),
                           or_zeros(gradients[2], {channels}), below, above);
        return {to_a, to_b};
      });
  return {result[0], result[1], result[2]};
}

Pair monic_backward_autograd(const Tensor& da, const Tensor& db, const Tensor& dh0, const Tensor& a, const Tensor& b) {
  for (const Tensor& x : {da, db, dh0, a, b})
    if (torch::autograd::isFwGradDefined(x)) return monic_backward_by_tensors(da, db, dh0, a, b);
  return either(
      "monic_backward", {da, db, dh0, a, b}, [&] { return monic_backward(da, db, dh0, a, b); },
      [&] { return monic_backward_by_tensors(da, db, dh0, a, b); });
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
  const auto denominators = row_count(a), numerators = row_count(b);
  const auto gains = h0 && h0->dim() == 1 ? h0->sym_size(0) : c10::SymInt(1);
  const auto channels = said ? *said : denominators.max(numerators).max(gains);
  const auto serves = [&](const c10::SymInt& count) { return count == channels || count == 1; };
  TORCH_CHECK_VALUE(
      channels > 0 && serves(numerators) && serves(gains) && denominators > 0 && channels % denominators == 0,
      "[rtf::", operation, "] a, b and h0 are for ", denominators, ", ", numerators, " and ", gains,
      " channels and there are ", channels, "; b and h0 need as many or 1, and a as many or fewer that divide them");

  check_finite(operation, "a", a);
  check_finite(operation, "b", b);
  if (h0) {
    check_finite(operation, "h0", *h0);
    return {rows(a), rows(b).expand_symint({channels, b.sym_size(-1)}),
            h0->to(at::kDouble).reshape({-1}).expand_symint({channels})};
  }
  if (a.is_cpu() && !at::isTensorSubclassLike(a)) {
    const Tensor zero = a.select(-1, 0).reshape({-1}).eq(0).nonzero();
    TORCH_CHECK_VALUE(zero.size(0) == 0, "[rtf::", operation, "] a_0 of denominator ", zero[0][0].item<int64_t>(),
                      " is 0; it must be finite and not 0");
  }
  auto [to_a, to_b, to_h0] = monic(a, b, channels);
  return {to_a, to_b, to_h0};
}

namespace {

Triple rational_composite(const Tensor& a, const Tensor& b, const OptionalTensor& h0) {
  const Rational r = rational("rational", a, b, h0);
  return {r.a, r.b, r.h0};
}

}  // namespace

TORCH_LIBRARY_IMPL(rtf, CompositeImplicitAutograd, m) { m.impl("rational", rational_composite); }
TORCH_LIBRARY_IMPL(rtf, CPU, m) {
  m.impl("monic", monic_by_tensors);
  m.impl("monic_backward", monic_backward_by_tensors);
}
TORCH_LIBRARY_IMPL(rtf, Meta, m) {
  m.impl("monic", monic_by_tensors);
  m.impl("monic_backward", monic_backward_by_tensors);
}
TORCH_LIBRARY_IMPL(rtf, Autograd, m) {
  m.impl("monic", monic_autograd);
  m.impl("monic_backward", monic_backward_autograd);
}

}  // namespace rtf::ops
