// kernel and exact_kernel: coefficients to impulse responses.
#include "rtf/kernel.h"

#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "torch/bridge.h"
#include "torch/dispatch.h"
#include "torch/plan_cache.h"

namespace rtf::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Kernels of bfloat16 coefficients are float32: a convolution never runs in less.
at::ScalarType kernel_type(const Tensor& b) { return b.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

// The gradient of a kernel: (channels, length), at least one sample.
std::size_t check_gradient(const char* operation, const Tensor& dk, const Tensor& b) {
  TORCH_CHECK_VALUE(dk.dim() == 2 && dk.size(0) == b.size(0), "[rtf::", operation, "] dk has shape ", dk.sizes(), "; (",
                    b.size(0), ", length) is needed");
  return length_of(operation, dk.size(1));
}

std::shared_ptr<const WrappedKernelPlan> wrapped_plan(const CoefficientTensors& c, std::size_t length) {
  using Key = std::array<std::size_t, 4>;
  static PlanCache<Key, WrappedKernelPlan> plans;
  const Key key{c.channels, c.groups, c.order, length};
  return plans.get(key, [&] { return WrappedKernelPlan(key[0], key[1], key[2], key[3]); });
}

Tensor kernel_cpu(const Tensor& a, const Tensor& b, const Tensor& h0, int64_t length) {
  const CoefficientTensors c("kernel", a, b, h0);
  const std::size_t samples = length_of("kernel", length);
  Tensor k = at::empty({b.size(0), length}, b.options().dtype(kernel_type(b)));
  with_type(k.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    const auto plan = wrapped_plan(c, samples);
    wrapped_kernel<T>(*plan, c.view(), values<T>(k), Scratch(plan->workspace_bytes(executor())), executor());
  });
  return k;
}

Triple kernel_backward_cpu(const Tensor& dk, const Tensor& a, const Tensor& b, const Tensor& h0) {
  const CoefficientTensors c("kernel_backward", a, b, h0);
  const std::size_t samples = check_gradient("kernel_backward", dk, b);
  const Tensor gradient = dk.to(kernel_type(b)).contiguous();
  const Tensor da = at::empty_like(c.a), db = at::empty_like(c.b), dh0 = at::empty_like(c.h0);
  with_type(gradient.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    const auto plan = wrapped_plan(c, samples);
    wrapped_kernel_vjp<T>(*plan, c.view(), values<const T>(gradient), values<double>(da), values<double>(db),
                          values<double>(dh0), Scratch(plan->workspace_bytes(executor())), executor());
  });
  return {da.to(a.options()), db.to(b.options()), dh0.to(h0.options())};
}

Tensor exact_kernel_cpu(const Tensor& a, const Tensor& b, const Tensor& h0, int64_t length) {
  const CoefficientTensors c("exact_kernel", a, b, h0);
  const std::size_t samples = length_of("exact_kernel", length);
  const auto k = call([&] { return exact_kernel(c.plain(), samples); });
  Tensor result = at::empty({b.size(0), length}, at::TensorOptions(at::kDouble));
  std::copy(k.begin(), k.end(), values<double>(result).begin());
  return result.to(b.options().dtype(kernel_type(b)));
}

Triple exact_kernel_backward_cpu(const Tensor& dk, const Tensor& a, const Tensor& b, const Tensor& h0) {
  const CoefficientTensors c("exact_kernel_backward", a, b, h0);
  const std::size_t samples = check_gradient("exact_kernel_backward", dk, b);
  const Tensor gradient = dk.to(at::kDouble).contiguous();
  return gradient_tensors(call([&] { return exact_kernel_vjp(c.plain(), samples, values<const double>(gradient)); }), a,
                          b, h0);
}

Tensor kernel_meta(const Tensor& a, const Tensor& b, const Tensor& h0, c10::SymInt length) {
  check_coefficients("kernel", a, b, h0);
  return b.new_empty_symint({b.sym_size(0), std::move(length)}, b.options().dtype(kernel_type(b)));
}

Triple kernel_backward_meta(const Tensor&, const Tensor& a, const Tensor& b, const Tensor& h0) {
  return {at::empty_like(a, at::MemoryFormat::Contiguous), at::empty_like(b, at::MemoryFormat::Contiguous),
          at::empty_like(h0, at::MemoryFormat::Contiguous)};
}

struct KernelFunction : torch::autograd::Function<KernelFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& a, const Tensor& b, const Tensor& h0,
                        c10::SymInt length, bool exact) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    context->save_for_backward({a, b, h0});
    context->saved_data["exact"] = exact;
    return exact ? exact_kernel(a, b, h0, std::move(length)) : kernel(a, b, h0, std::move(length));
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    using Signature = Triple(const Tensor&, const Tensor&, const Tensor&, const Tensor&);
    static const auto wrapped = find<Signature>("rtf::kernel_backward");
    static const auto plain = find<Signature>("rtf::exact_kernel_backward");
    const auto saved = context->get_saved_variables();
    const auto& op = context->saved_data["exact"].toBool() ? plain : wrapped;
    auto [da, db, dh0] = op.call(gradients[0], saved[0], saved[1], saved[2]);
    return {da, db, dh0, Tensor(), Tensor()};
  }
};

Tensor kernel_autograd(const Tensor& a, const Tensor& b, const Tensor& h0, c10::SymInt length) {
  return KernelFunction::apply(a, b, h0, std::move(length), false);
}
Tensor exact_kernel_autograd(const Tensor& a, const Tensor& b, const Tensor& h0, c10::SymInt length) {
  return KernelFunction::apply(a, b, h0, std::move(length), true);
}

}  // namespace

TORCH_LIBRARY_IMPL(rtf, CPU, m) {
  m.impl("kernel", kernel_cpu);
  m.impl("kernel_backward", kernel_backward_cpu);
  m.impl("exact_kernel", exact_kernel_cpu);
  m.impl("exact_kernel_backward", exact_kernel_backward_cpu);
}
TORCH_LIBRARY_IMPL(rtf, Meta, m) {
  m.impl("kernel", kernel_meta);
  m.impl("kernel_backward", kernel_backward_meta);
  m.impl("exact_kernel", kernel_meta);
  m.impl("exact_kernel_backward", kernel_backward_meta);
}
TORCH_LIBRARY_IMPL(rtf, Autograd, m) {
  m.impl("kernel", kernel_autograd);
  m.impl("exact_kernel", exact_kernel_autograd);
  m.impl("kernel_backward", torch::autograd::autogradNotImplementedFallback());
  m.impl("exact_kernel_backward", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace rtf::ops
