// kernel and exact_kernel: coefficients to impulse responses.
#include "rtf/kernel.h"

#include <torch/library.h>

#include "core/file_errors.h"
#include "torch/bridge.h"
#include "torch/dispatch.h"
#include "torch/filter.h"
#include "torch/kernel.h"
#include "torch/plan_cache.h"
#include "torch/tape.h"

namespace rtf::ops {

Triple kernel_backward(const Tensor& dk, const Tensor& a, const Tensor& b, const Tensor& h0) {
  RTF_OPERATOR("kernel_backward", Triple, const Tensor&, const Tensor&, const Tensor&, const Tensor&);
  return op.call(dk, a, b, h0);
}

Triple exact_kernel_backward(const Tensor& dk, const Tensor& a, const Tensor& b, const Tensor& h0) {
  RTF_OPERATOR("exact_kernel_backward", Triple, const Tensor&, const Tensor&, const Tensor&, const Tensor&);
  return op.call(dk, a, b, h0);
}

namespace {

// Kernels of bfloat16 coefficients are float32: a convolution never runs in less.
at::ScalarType kernel_type(const Tensor& b) { return b.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

// The length of kernels that can be held.
std::size_t kernel_length(const char* operation, const Tensor& b, int64_t length) {
  const std::size_t samples = length_of(operation, length);
  const auto rows = static_cast<std::size_t>(b.size(0));
  call([&] { require_kernel_memory(operation, rows, samples); });
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
using KernelBackward = decltype(&kernel_backward);

Tensor taped(const char* operation, KernelOperator forward, KernelBackward backward, const Tensor& a, const Tensor& b,
             const Tensor& h0, const c10::SymInt& length) {
  return record(
      operation, {a, b, h0}, {a, b, h0}, [&] { return variable_list{forward(a, b, h0, length)}; },
      [backward](const variable_list& saved, const variable_list& gradients) -> variable_list {
        auto [da, db, dh0] = backward(gradients[0], saved[0], saved[1], saved[2]);
        return {da, db, dh0};
      })[0];
}

Tensor kernel_autograd(const Tensor& a, const Tensor& b, const Tensor& h0, c10::SymInt length) {
  return taped("kernel", kernel, kernel_backward, a, b, h0, length);
}
Tensor exact_kernel_autograd(const Tensor& a, const Tensor& b, const Tensor& h0, c10::SymInt length) {
  return taped("exact_kernel", exact_kernel, exact_kernel_backward, a, b, h0, length);
}

// As filter_second_derivatives(), with k' = h0' + B'/A - (A'/A) (B/A) on the circle.
variable_list kernel_second_derivatives(const variable_list& saved, const variable_list& along) {
  const auto wide = [](const Tensor& x) { return x.defined() ? x.to(at::kDouble) : x; };
  const Tensor dk = wide(saved[0]), a = wide(saved[1]), b = wide(saved[2]), h0 = wide(saved[3]);
  const Tensor along_a = wide(along[0]), along_b = wide(along[1]), along_h0 = wide(along[2]), zero = at::zeros_like(h0);
  const auto length = dk.sym_size(1);
  Tensor to_dk, to_a, to_b;
  if (along_b.defined() || along_h0.defined()) {
    to_dk = kernel(a, or_zero(along_b, b), or_zero(along_h0, h0), length);
    to_a = std::get<0>(kernel_backward(dk, a, or_zero(along_b, b), or_zero(along_h0, h0)));
  }
  if (along_a.defined()) {
    const auto spectrum = [](const Tensor& values) { return at::fft_rfft(values); };
    const auto samples = [&](const Tensor& values) { return at::fft_irfft_symint(values, length); };
    const Tensor numerator = spread_rows(along_a, b.sym_size(0)), gradient = spectrum(dk);
    const Tensor p = spectrum(kernel(a, numerator, zero, length)), q = spectrum(kernel(a, b, zero, length));
    to_dk = sum_of(to_dk, -samples(p * q));
    const auto through_p = kernel_backward(-samples(gradient * q.conj()), a, numerator, zero);
    const auto through_q = kernel_backward(-samples(gradient * p.conj()), a, b, zero);
    to_a = sum_of(to_a, std::get<0>(through_p) + std::get<0>(through_q));
    to_b = std::get<1>(through_q);
  }
  return {to_dk, to_a, to_b, Tensor()};
}

// The exact kernel is what an impulse leaves.
variable_list exact_kernel_second_derivatives(const variable_list& saved, const variable_list& along) {
  const Tensor &dk = saved[0], &b = saved[2];
  const Tensor one = at::ones_symint({1, 1, b.sym_size(0)}, b.options().dtype(at::kDouble).requires_grad(false));
  const Tensor impulse = at::constant_pad_nd_symint(one, {0, 0, 0, dk.sym_size(1) - 1});
  const auto found = filter_second_derivatives(
      {dk.t().unsqueeze(0), Tensor(), impulse, saved[1], b, saved[3], Tensor(), Tensor(), Tensor()},
      {Tensor(), along[0], along[1], along[2], Tensor()});
  return {found[0].defined() ? found[0].squeeze(0).t() : Tensor(), found[3], found[4], found[5]};
}

Triple taped_backward(const char* operation, KernelBackward backward, const Backward& second, const Tensor& dk,
                      const Tensor& a, const Tensor& b, const Tensor& h0) {
  const auto result = record(
      operation, {dk, a, b, h0}, {dk, a, b, h0},
      [&]() -> variable_list {
        auto [da, db, dh0] = backward(dk, a, b, h0);
        return {da, db, dh0};
      },
      second);
  return {result[0], result[1], result[2]};
}

Triple kernel_backward_autograd(const Tensor& dk, const Tensor& a, const Tensor& b, const Tensor& h0) {
  return taped_backward("kernel_backward", kernel_backward, kernel_second_derivatives, dk, a, b, h0);
}
Triple exact_kernel_backward_autograd(const Tensor& dk, const Tensor& a, const Tensor& b, const Tensor& h0) {
  return taped_backward("exact_kernel_backward", exact_kernel_backward, exact_kernel_second_derivatives, dk, a, b, h0);
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
  m.impl("kernel_backward", kernel_backward_autograd);
  m.impl("exact_kernel_backward", exact_kernel_backward_autograd);
}

}  // namespace rtf::ops
