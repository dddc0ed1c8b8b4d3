// correct and wrap: between the trained numerator and the plain one.
#include "rtf/correction.h"

#include <torch/library.h>

#include "torch/bridge.h"
#include "torch/convolution.h"
#include "torch/filter.h"
#include "torch/kernel.h"
#include "torch/tape.h"

namespace rtf::ops {
namespace {

// Numerator and gain of a result, in the types of the arguments.
Pair numerator(const Coefficients& result, const Tensor& b, const Tensor& h0) {
  const CoefficientsGradient as_values{{}, result.b, result.h0};
  auto [none, to_b, to_h0] = gradient_tensors(as_values, at::empty({0, 0}, b.options()), b, h0);
  return {to_b, to_h0};
}

CoefficientsGradient incoming(const Tensor& db, const Tensor& dh0) {
  const Tensor b = db.to(at::kDouble).contiguous(), h0 = dh0.to(at::kDouble).contiguous();
  const auto from_b = values<const double>(b), from_h0 = values<const double>(h0);
  return {{}, {from_b.begin(), from_b.end()}, {from_h0.begin(), from_h0.end()}};
}

Pair correct_cpu(const Tensor& a, const Tensor& b, const Tensor& h0, int64_t length) {
  const CoefficientTensors c("correct", a, b, h0);
  return call([&] { return numerator(correct(c.trained(length_of("correct", length))), b, h0); });
}

Pair wrap_cpu(const Tensor& a, const Tensor& b, const Tensor& h0, int64_t length) {
  const CoefficientTensors c("wrap", a, b, h0);
  return call([&] { return numerator(wrap(c.plain(), length_of("wrap", length)), b, h0); });
}

Triple correct_backward_cpu(const Tensor& db, const Tensor& dh0, const Tensor& a, const Tensor& b, const Tensor& h0,
                            int64_t length) {
  const CoefficientTensors c("correct_backward", a, b, h0);
  const std::size_t samples = length_of("correct_backward", length);
  return call([&] { return gradient_tensors(correct_vjp(c.trained(samples), incoming(db, dh0)), a, b, h0); });
}

Triple wrap_backward_cpu(const Tensor& db, const Tensor& dh0, const Tensor& a, const Tensor& b, const Tensor& h0,
                         int64_t length) {
  const CoefficientTensors c("wrap_backward", a, b, h0);
  const std::size_t samples = length_of("wrap_backward", length);
  return call([&] { return gradient_tensors(wrap_vjp(c.plain(), samples, incoming(db, dh0)), a, b, h0); });
}

Tensor contiguous_like(const Tensor& x) { return at::empty_like(x, at::MemoryFormat::Contiguous); }

Pair numerator_meta(const Tensor& a, const Tensor& b, const Tensor& h0, c10::SymInt) {
  check_coefficients("correct", a, b, h0);
  return {contiguous_like(b), contiguous_like(h0)};
}

Triple backward_meta(const Tensor&, const Tensor&, const Tensor& a, const Tensor& b, const Tensor& h0, c10::SymInt) {
  return {contiguous_like(a), contiguous_like(b), contiguous_like(h0)};
}

// Both maps end in the first n terms of (1, a) * h, h (channels, n): the gradient of that product to h and to a.
Pair product_gradient(const Tensor& gradient, const Tensor& h, const Tensor& a) {
  const auto signal = [](const Tensor& rows) { return rows.t().unsqueeze(0); };
  const Tensor denominator = at::constant_pad_nd(spread_rows(a, h.sym_size(0)), {1, 0}, 1);
  const auto [dh, ddenominator] = convolve_backward(signal(gradient), signal(h), denominator, false);
  return {dh.squeeze(0).t(), gathered_rows(ddenominator.slice(1, 1), a.sym_size(0))};
}

// correct_backward in differentiable operations, of float64. Past the length the response is that of the rounds before
// less what left them: h_{qL+r} = k_r - s_r - s_{L+r} - ... - s_{(q-1)L+r}, s that of h0 + b~ / A.
Triple correct_gradient(const Tensor& db, const Tensor& dh0, const Tensor& a, const Tensor& b, const Tensor& h0,
                        const c10::SymInt& length) {
  const auto order = b.sym_size(1), channels = b.sym_size(0), rounds = (order + length) / length,
             total = rounds * length;
  if (order == 0) return {at::zeros_like(a), at::zeros_like(b), dh0};
  const auto by_rounds = [&](const Tensor& rows) { return rows.reshape_symint({channels, rounds, length}); };
  Tensor h = ops::kernel(a, b, h0, length).repeat_symint({1, rounds});
  if (rounds > 1) {
    const Tensor s = by_rounds(ops::exact_kernel(a, b, h0, total));
    h = h - (s.cumsum(1) - s).reshape_symint({channels, total});
  }
  const auto [in_product, direct] = product_gradient(db, h.slice_symint(1, 1, order + 1), a);
  const Tensor dh = by_rounds(at::constant_pad_nd_symint(in_product, {1, total - order - 1}));
  const Tensor dk = dh.sum(1) + at::constant_pad_nd_symint(dh0.unsqueeze(1), {0, length - 1});
  auto [to_a, to_b, to_h0] = kernel_backward(dk, a, b, h0);
  if (rounds > 1) {
    const Tensor ds = (dh - dh.flip(1).cumsum(1).flip(1)).reshape_symint({channels, total});
    const auto [more_a, more_b, more_h0] = exact_kernel_backward(ds, a, b, h0);
    to_a = to_a + more_a;
    to_b = to_b + more_b;
    to_h0 = to_h0 + more_h0;
  }
  return {direct + to_a, to_b, to_h0};
}

// wrap_backward in the same.
Triple wrap_gradient(const Tensor& db, const Tensor& dh0, const Tensor& a, const Tensor& b, const Tensor& h0,
                     const c10::SymInt& length) {
  const auto order = b.sym_size(1);
  if (order == 0) return {at::zeros_like(a), at::zeros_like(b), dh0};
  const Tensor h = ops::exact_kernel(a, b, h0, length + order + 1);
  const auto [in_product, direct] = product_gradient(-db, h.slice_symint(1, length + 1), a);
  const Tensor dk = at::constant_pad_nd_symint(at::cat({-dh0.unsqueeze(1), in_product}, 1), {length, 0});
  const auto [to_a, to_b, to_h0] = exact_kernel_backward(dk, a, b, h0);
  return {direct + to_a, db + to_b, dh0 + to_h0};
}

using NumeratorOperator = Pair (*)(const Tensor&, const Tensor&, const Tensor&, c10::SymInt);
using NumeratorBackward = c10::TypedOperatorHandle<Triple(const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                                          const Tensor&, c10::SymInt)>;

Pair taped(const char* operation, NumeratorOperator forward, const NumeratorBackward& backward, const Tensor& a,
           const Tensor& b, const Tensor& h0, const c10::SymInt& length) {
  const auto result = record(
      operation, {a, b, h0}, {a, b, h0},
      [&]() -> variable_list {
        auto [to_b, to_h0] = forward(a, b, h0, length);
        return {to_b, to_h0};
      },
      [backward, length](const variable_list& saved, const variable_list& gradients) -> variable_list {
        auto [da, db, dh0] = backward.call(or_zero(gradients[0], saved[1]), or_zero(gradients[1], saved[2]), saved[0],
                                           saved[1], saved[2], length);
        return {da, db, dh0};
      });
  return {result[0], result[1]};
}

using NumeratorGradient = Triple (*)(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                     const c10::SymInt&);

Triple twice(const char* operation, const NumeratorBackward& backward, NumeratorGradient composed, const Tensor& db,
             const Tensor& dh0, const Tensor& a, const Tensor& b, const Tensor& h0, const c10::SymInt& length) {
  const auto wide = [](const Tensor& x) { return x.to(at::kDouble); };
  return either(
      operation, {db, dh0, a, b, h0}, [&] { return backward.call(db, dh0, a, b, h0, length); },
      [&]() -> Triple {
        check_coefficients(operation, a, b, h0);
        const auto [da, to_b, to_h0] = composed(wide(db), wide(dh0), wide(a), wide(b), wide(h0), length);
        return {da.to(a.scalar_type()), to_b.to(b.scalar_type()), to_h0.to(h0.scalar_type())};
      });
}

const NumeratorBackward& correct_backward() {
  RTF_OPERATOR("correct_backward", Triple, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
               c10::SymInt);
  return op;
}
const NumeratorBackward& wrap_backward() {
  RTF_OPERATOR("wrap_backward", Triple, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
               c10::SymInt);
  return op;
}

Pair correct_autograd(const Tensor& a, const Tensor& b, const Tensor& h0, c10::SymInt length) {
  return taped("correct", correct, correct_backward(), a, b, h0, length);
}
Pair wrap_autograd(const Tensor& a, const Tensor& b, const Tensor& h0, c10::SymInt length) {
  return taped("wrap", wrap, wrap_backward(), a, b, h0, length);
}
Triple correct_backward_autograd(const Tensor& db, const Tensor& dh0, const Tensor& a, const Tensor& b,
                                 const Tensor& h0, c10::SymInt length) {
  return twice("correct_backward", correct_backward(), correct_gradient, db, dh0, a, b, h0, length);
}
Triple wrap_backward_autograd(const Tensor& db, const Tensor& dh0, const Tensor& a, const Tensor& b, const Tensor& h0,
                              c10::SymInt length) {
  return twice("wrap_backward", wrap_backward(), wrap_gradient, db, dh0, a, b, h0, length);
}

}  // namespace

TORCH_LIBRARY_IMPL(rtf, CPU, m) {
  m.impl("correct", correct_cpu);
  m.impl("correct_backward", correct_backward_cpu);
  m.impl("wrap", wrap_cpu);
  m.impl("wrap_backward", wrap_backward_cpu);
}
TORCH_LIBRARY_IMPL(rtf, Meta, m) {
  m.impl("correct", numerator_meta);
  m.impl("correct_backward", backward_meta);
  m.impl("wrap", numerator_meta);
  m.impl("wrap_backward", backward_meta);
}
TORCH_LIBRARY_IMPL(rtf, Autograd, m) {
  m.impl("correct", correct_autograd);
  m.impl("wrap", wrap_autograd);
  m.impl("correct_backward", correct_backward_autograd);
  m.impl("wrap_backward", wrap_backward_autograd);
}

}  // namespace rtf::ops
