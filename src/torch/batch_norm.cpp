// batch_norm in training mode: statistics over every position.
#include "rtf/batch_norm.h"

#include <torch/library.h>

#include "torch/bridge.h"
#include "torch/dispatch.h"
#include "torch/tape.h"

namespace rtf::ops {
namespace {

std::size_t workspace_bytes(const Tensor& x, const Tensor& weight) {
  return batch_norm_workspace_bytes(static_cast<std::size_t>(x.numel() / weight.numel()),
                                    static_cast<std::size_t>(weight.numel()));
}

void check_shapes(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  TORCH_CHECK_VALUE(weight.dim() == 1 && bias.sym_sizes() == weight.sym_sizes() && weight.sym_numel() > 0 &&
                        x.dim() > 0 && x.sym_size(-1) == weight.sym_size(0) && x.sym_numel() > 0,
                    "[rtf::batch_norm] x, weight and bias have shapes ", x.sym_sizes(), ", ", weight.sym_sizes(), ", ",
                    bias.sym_sizes(), "; (..., channels), (channels), (channels) are needed");
}

Triple batch_norm_cpu(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                      const OptionalTensor& running_mean, const OptionalTensor& running_var, double momentum,
                      std::optional<at::ScalarType> dtype) {
  const auto type = compute_type("batch_norm", x.scalar_type());
  check_shapes(x, weight, bias);
  const Tensor in = x.to(type).contiguous(), w = weight.to(type).contiguous(), b = bias.to(type).contiguous();
  const Tensor y = at::empty_like(in), mean = at::empty({weight.size(0)}, w.options().dtype(at::kDouble));
  const Tensor variance = at::empty_like(mean);
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    batch_norm<T>(values<const T>(in), values<const T>(w), values<const T>(b), eps, values<double>(mean),
                  values<double>(variance), values<T>(y), Scratch(workspace_bytes(x, weight)), executor());
  });
  if (running_mean) running_mean->lerp_(mean.to(running_mean->scalar_type()), momentum);
  if (running_var) {
    const auto positions = static_cast<double>(x.numel() / weight.numel());
    const double unbiased = positions > 1 ? positions / (positions - 1) : 1;
    running_var->lerp_((variance * unbiased).to(running_var->scalar_type()), momentum);
  }
  return {as_result(y, x, dtype.value_or(x.scalar_type())), mean, variance};
}

Triple batch_norm_backward_cpu(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& mean,
                               const Tensor& variance, double eps, const OptionalTensor& more_dy,
                               const OptionalTensor& more_dx) {
  const auto type = compute_type("batch_norm_backward", x.scalar_type());
  check_shapes(x, weight, weight);
  check_shape("batch_norm_backward", "dy", dy, x.sizes());
  check_shape("batch_norm_backward", "the mean", mean, weight.sizes());
  check_shape("batch_norm_backward", "the variance", variance, weight.sizes());
  if (more_dy) check_shape("batch_norm_backward", "more_dy", *more_dy, x.sizes());
  if (more_dx) check_shape("batch_norm_backward", "more_dx", *more_dx, x.sizes());
  const Tensor in = x.to(type).contiguous(), w = weight.to(type).contiguous();
  const Tensor gradient = (more_dy ? dy.to(type) + *more_dy : dy.to(type)).contiguous();
  const Tensor center = mean.to(at::kDouble).contiguous(), spread = variance.to(at::kDouble).contiguous();
  const Tensor dx = at::empty_like(in), dw = at::empty_like(w), db = at::empty_like(w);
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    batch_norm_vjp<T>(values<const T>(in), values<const T>(w), eps, values<const double>(center),
                      values<const double>(spread), values<const T>(gradient), values<T>(dx), values<T>(dw),
                      values<T>(db), Scratch(workspace_bytes(x, weight)), executor());
  });
  if (more_dx) dx.add_(*more_dx);
  return {as_result(dx, x, x.scalar_type()), dw.to(weight.scalar_type()), db.to(weight.scalar_type())};
}

Tensor like(const Tensor& x) { return at::empty_like(x, at::MemoryFormat::Contiguous); }

Triple batch_norm_meta(const Tensor& x, const Tensor& weight, const Tensor& bias, double, const OptionalTensor&,
                       const OptionalTensor&, double, std::optional<at::ScalarType> dtype) {
  check_shapes(x, weight, bias);
  const auto options = weight.options().dtype(at::kDouble);
  return {empty_result(x, dtype.value_or(x.scalar_type())), at::empty_symint(weight.sym_sizes(), options),
          at::empty_symint(weight.sym_sizes(), options)};
}

Triple backward_meta(const Tensor&, const Tensor& x, const Tensor& weight, const Tensor&, const Tensor&, double,
                     const OptionalTensor&, const OptionalTensor&) {
  return {empty_result(x, x.scalar_type()), like(weight), like(weight)};
}

// The statistics are results, not a way for gradients: running averages are made of them.
Triple batch_norm_autograd(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                           const OptionalTensor& running_mean, const OptionalTensor& running_var, double momentum,
                           std::optional<at::ScalarType> dtype) {
  const auto result = record(
      "batch_norm", {x, weight, bias}, {x, weight},
      [&]() -> variable_list {
        auto [y, mean, variance] = ops::batch_norm(x, weight, bias, eps, running_mean, running_var, momentum, dtype);
        return {y, mean, variance};
      },
      [eps](const variable_list& saved, const variable_list& gradients) -> variable_list {
        const auto [dx, dw, db] = ops::batch_norm_backward(gradients[0], saved[0], saved[1], saved[2], saved[3], eps);
        return {dx, dw, db};
      },
      /*differentiable=*/1);
  return {result[0], result[1], result[2]};
}

// Torch's own gradient has a derivative.
Triple batch_norm_backward_autograd(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& mean,
                                    const Tensor& variance, double eps, const OptionalTensor& more_dy,
                                    const OptionalTensor& more_dx) {
  return either(
      "batch_norm_backward", {dy, x, weight, mean, variance, kept(more_dy), kept(more_dx)},
      [&] { return ops::batch_norm_backward(dy, x, weight, mean, variance, eps, more_dy, more_dx); },
      [&]() -> Triple {
        check_shapes(x, weight, weight);
        check_shape("batch_norm_backward", "dy", dy, x.sizes());
        check_shape("batch_norm_backward", "the mean", mean, weight.sizes());
        check_shape("batch_norm_backward", "the variance", variance, weight.sizes());
        const auto type = compute_type("batch_norm_backward", x.scalar_type());
        const auto rows = [&](const Tensor& values) {
          return values.to(type).reshape_symint({-1, weight.sym_size(0)});
        };
        auto [dx, dw, db] = at::native_batch_norm_backward(
            rows(more_dy ? dy + *more_dy : dy), rows(x), weight.to(type), std::nullopt, std::nullopt, mean.to(type),
            (variance + eps).rsqrt().to(type), /*train=*/true, eps, {true, true, true});
        dx = dx.reshape_symint(x.sym_sizes());
        if (more_dx) dx = dx + *more_dx;
        return {dx.to(x.scalar_type()), dw.to(weight.scalar_type()), db.to(weight.scalar_type())};
      });
}

}  // namespace

TORCH_LIBRARY_IMPL(rtf, CPU, m) {
  m.impl("batch_norm", batch_norm_cpu);
  m.impl("batch_norm_backward", batch_norm_backward_cpu);
}
TORCH_LIBRARY_IMPL(rtf, Meta, m) {
  m.impl("batch_norm", batch_norm_meta);
  m.impl("batch_norm_backward", backward_meta);
}
TORCH_LIBRARY_IMPL(rtf, Autograd, m) {
  m.impl("batch_norm", batch_norm_autograd);
  m.impl("batch_norm_backward", batch_norm_backward_autograd);
}

}  // namespace rtf::ops
