// The gradient of filter_backward: along a direction that gives <dy, y'>, y' the derivative of y along it. So what is
// wanted is y' and its gradient, filters and their gradients again: there are derivatives of any order.
#include <ATen/ATen.h>

#include "torch/filter.h"
#include "torch/tape.h"

namespace rtf::ops {

Tensor spread_rows(const Tensor& rows, const c10::SymInt& channels) {
  const auto denominators = rows.sym_size(0), columns = rows.sym_size(1);
  return rows.unsqueeze(1)
      .expand_symint({denominators, channels / denominators, columns})
      .reshape_symint({channels, columns});
}

Tensor gathered_rows(const Tensor& rows, const c10::SymInt& denominators) {
  return rows.reshape_symint({denominators, rows.sym_size(0) / denominators, rows.sym_size(1)}).sum(1);
}

// Along a direction (u', a', b', h0', x'), x the initial state and q = (A'/A) u from x, A' = a'_1 w + ...:
// y' = (h0 + B/A) (u' - q) from x' + h0 q + (h0' + B'/A) u from x. The first of these filters ends in that of the
// state.
variable_list filter_second_derivatives(const variable_list& saved, const variable_list& along) {
  const auto wide = [](const Tensor& x) { return x.defined() ? x.to(at::kDouble) : x; };
  const Tensor dy = wide(saved[0]), u = wide(saved[2]), a = wide(saved[3]), b = wide(saved[4]), h0 = wide(saved[5]);
  const Tensor along_u = wide(along[0]), along_a = wide(along[1]), along_b = wide(along[2]), along_h0 = wide(along[3]),
               along_x = along[4];
  const auto dstate = given(saved[1]), x = given(saved[6]), lengths = given(saved[7]), offsets = given(saved[8]);
  const auto forward = [&](const Tensor& in, const Tensor& numerator, const Tensor& gain, const OptionalTensor& from) {
    return filter(in, a, numerator, gain, from, lengths, offsets);
  };
  const auto back = [&](const Tensor& gradient, const OptionalTensor& end, const Tensor& in, const Tensor& numerator,
                        const Tensor& gain, const OptionalTensor& from) {
    return filter_backward(gradient, end, in, a, numerator, gain, from, lengths, offsets);
  };
  Tensor to_dy, to_dstate, to_u, to_a, to_b, to_h0, to_x;

  if (along_u.defined() || along_a.defined() || along_x.defined()) {
    const Tensor zero = at::zeros_like(h0);
    Tensor in = or_zero(along_u, u), numerator, q;
    if (along_a.defined()) {
      numerator = spread_rows(along_a, b.sym_size(0));
      q = std::get<0>(forward(u, numerator, zero, x));
      in = in - q;
    }
    Tensor din, ignored;
    std::tie(to_dy, to_dstate) = forward(in, b, h0, given(along_x));
    std::tie(din, to_a, to_b, to_h0, ignored) = back(dy, dstate, in, b, h0, given(along_x));
    if (along_a.defined()) {
      to_dy = to_dy + h0 * q;
      to_h0 = to_h0 + (dy * q).sum(at::IntArrayRef{0, 1});
      Tensor more_a;
      std::tie(to_u, more_a, ignored, ignored, to_x) = back(h0 * dy - din, std::nullopt, u, numerator, zero, x);
      to_a = to_a + more_a;
    }
  }
  if (along_b.defined() || along_h0.defined()) {
    const Tensor numerator = or_zero(along_b, b), gain = or_zero(along_h0, h0);
    to_dy = sum_of(to_dy, std::get<0>(forward(u, numerator, gain, x)));
    const auto [du, da, db, dh0, dx] = back(dy, std::nullopt, u, numerator, gain, x);
    to_u = sum_of(to_u, du);
    to_a = sum_of(to_a, da);
    to_x = sum_of(to_x, dx);
  }
  return {to_dy, dstate ? to_dstate : Tensor(), to_u, to_a, to_b, to_h0, x ? to_x : Tensor()};
}

}  // namespace rtf::ops
