// correct and wrap: between the trained numerator and the plain one.
#include "rtf/correction.h"

#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>

#include "torch/bridge.h"
#include "torch/dispatch.h"
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
        const auto or_zero = [](const Tensor& gradient, const Tensor& like) {
          return gradient.defined() ? gradient : at::zeros_like(like);
        };
        auto [da, db, dh0] = backward.call(or_zero(gradients[0], saved[1]), or_zero(gradients[1], saved[2]), saved[0],
                                           saved[1], saved[2], length);
        return {da, db, dh0};
      });
  return {result[0], result[1]};
}

Pair correct_autograd(const Tensor& a, const Tensor& b, const Tensor& h0, c10::SymInt length) {
  RTF_OPERATOR("correct_backward", Triple, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
               c10::SymInt);
  return taped("correct", correct, op, a, b, h0, length);
}
Pair wrap_autograd(const Tensor& a, const Tensor& b, const Tensor& h0, c10::SymInt length) {
  RTF_OPERATOR("wrap_backward", Triple, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
               c10::SymInt);
  return taped("wrap", wrap, op, a, b, h0, length);
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
  m.impl("correct_backward", torch::autograd::autogradNotImplementedFallback());
  m.impl("wrap_backward", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace rtf::ops
