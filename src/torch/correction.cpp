// correct and wrap: between the trained numerator and the plain one.
#include "rtf/correction.h"

#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "torch/bridge.h"
#include "torch/dispatch.h"

namespace rtf::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

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

Triple backward_meta(const Tensor&, const Tensor&, const Tensor& a, const Tensor& b, const Tensor& h0,
                     c10::SymInt) {
  return {contiguous_like(a), contiguous_like(b), contiguous_like(h0)};
}

struct CorrectionFunction : torch::autograd::Function<CorrectionFunction> {
  static variable_list forward(AutogradContext* context, const Tensor& a, const Tensor& b, const Tensor& h0,
                               c10::SymInt length, bool back) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    context->save_for_backward({a, b, h0});
    context->saved_data["length"] = length;
    context->saved_data["back"] = back;
    auto [to_b, to_h0] = back ? wrap(a, b, h0, length) : correct(a, b, h0, length);
    return {to_b, to_h0};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    using Signature = Triple(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, c10::SymInt);
    static const auto of_correct = find<Signature>("rtf::correct_backward");
    static const auto of_wrap = find<Signature>("rtf::wrap_backward");
    const auto saved = context->get_saved_variables();
    const auto& op = context->saved_data["back"].toBool() ? of_wrap : of_correct;
    auto [da, db, dh0] =
        op.call(gradients[0], gradients[1], saved[0], saved[1], saved[2], context->saved_data["length"].toSymInt());
    return {da, db, dh0, Tensor(), Tensor()};
  }
};

Pair correct_autograd(const Tensor& a, const Tensor& b, const Tensor& h0, c10::SymInt length) {
  const auto result = CorrectionFunction::apply(a, b, h0, std::move(length), false);
  return {result[0], result[1]};
}
Pair wrap_autograd(const Tensor& a, const Tensor& b, const Tensor& h0, c10::SymInt length) {
  const auto result = CorrectionFunction::apply(a, b, h0, std::move(length), true);
  return {result[0], result[1]};
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
