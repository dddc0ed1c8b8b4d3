// kernel and exact_kernel: coefficients to impulse responses.
#include "rtf/kernel.h"

#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>

#include "core/file_errors.h"
#include "torch/bridge.h"
#include "torch/dispatch.h"
#include "torch/plan_cache.h"
#include "torch/tape.h"

namespace rtf::ops {
namespace {

// Kernels of bfloat16 coefficients are float32: a convolution never runs in less.
at::ScalarType kernel_type(const Tensor& b) { return b.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

// The length of kernels that can be held.
std::size_t kernel_length(const char* operation, const Tensor& b, int64_t length) {
  const std::size_t samples = length_of(operation, length);
  call([&] {
    part_of(operation, [&] {
      require_memory(static_cast<double>(b.size(0)) * static_cast<double>(samples),
                     "a kernel of " + std::to_string(samples) + " samples");
    });
  });
  return samples;
}

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
  const std::size_t samples = kernel_length("kernel", b, length);
  Tensor k = at::empty({b.size(0), length}, b.options().dtype(kernel_type(b)));
  with_type(k.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    const auto plan = wrapped_plan(c, samples);
    const Scratch scratch(plan->workspace_bytes(executor()));
    part_of("kernel", [&] { wrapped_kernel<T>(*plan, c.view(), values<T>(k), scratch, executor()); });
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
  const std::size_t samples = kernel_length("exact_kernel", b, length);
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

using KernelOperator = Tensor (*)(const Tensor&, const Tensor&, const Tensor&, c10::SymInt);
using KernelBackward = c10::TypedOperatorHandle<Triple(const Tensor&, const Tensor&, const Tensor&, const Tensor&)>;

Tensor taped(const char* operation, KernelOperator forward, const KernelBackward& backward, const Tensor& a,
             const Tensor& b, const Tensor& h0, const c10::SymInt& length) {
  return record(
      operation, {a, b, h0}, {a, b, h0}, [&] { return variable_list{forward(a, b, h0, length)}; },
      [backward](const variable_list& saved, const variable_list& gradients) -> variable_list {
        auto [da, db, dh0] = backward.call(gradients[0], saved[0], saved[1], saved[2]);
        return {da, db, dh0};
      })[0];
}

Tensor kernel_autograd(const Tensor& a, const Tensor& b, const Tensor& h0, c10::SymInt length) {
  RTF_OPERATOR("kernel_backward", Triple, const Tensor&, const Tensor&, const Tensor&, const Tensor&);
  return taped("kernel", kernel, op, a, b, h0, length);
}
Tensor exact_kernel_autograd(const Tensor& a, const Tensor& b, const Tensor& h0, c10::SymInt length) {
  RTF_OPERATOR("exact_kernel_backward", Triple, const Tensor&, const Tensor&, const Tensor&, const Tensor&);
  return taped("exact_kernel", exact_kernel, op, a, b, h0, length);
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
