// layer_norm: statistics over the channels of each position.
#include <torch/library.h>

#include "torch/bridge.h"
#include "torch/dispatch.h"
#include "torch/tape.h"

namespace rtf::ops {
namespace {

void check_shapes(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  TORCH_CHECK_VALUE(weight.dim() == 1 && bias.sym_sizes() == weight.sym_sizes() && weight.sym_numel() > 0 &&
                        x.dim() > 0 && x.sym_size(-1) == weight.sym_size(0),
                    "[rtf::layer_norm] x, weight and bias have shapes ", x.sym_sizes(), ", ", weight.sym_sizes(), ", ",
                    bias.sym_sizes(), "; (..., channels), (channels), (channels) are needed");
}

Triple layer_norm_cpu(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                      std::optional<at::ScalarType> dtype) {
  const auto type = compute_type("layer_norm", x.scalar_type());
  check_shapes(x, weight, bias);
  const auto [y, mean, inverse] =
      at::native_layer_norm(x.to(type), weight.sizes(), weight.to(type), bias.to(type), eps);
  return {as_result(y, x, dtype.value_or(x.scalar_type())), mean.squeeze(-1), inverse.squeeze(-1)};
}

// On the CPU, and on every device where its derivative is wanted: torch's own gradient has one.
Triple layer_norm_backward_by_torch(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& mean,
                                    const Tensor& inverse, const OptionalTensor& more_dx) {
  const auto type = compute_type("layer_norm_backward", x.scalar_type());
  check_shapes(x, weight, weight);
  check_shape("layer_norm_backward", "dy", dy, x.sizes());
  check_shape("layer_norm_backward", "the mean", mean, x.sizes().slice(0, x.dim() - 1));
  check_shape("layer_norm_backward", "the inverse deviation", inverse, mean.sizes());
  if (more_dx) check_shape("layer_norm_backward", "more_dx", *more_dx, x.sizes());
  const Tensor w = weight.to(type);
  auto [dx, dw, db] =
      at::native_layer_norm_backward(dy.to(type), x.to(type), weight.sizes(), mean.to(type).unsqueeze(-1),
                                     inverse.to(type).unsqueeze(-1), w, w, {true, true, true});
  if (more_dx) dx.add_(*more_dx);
  return {as_result(dx, x, x.scalar_type()), dw.to(weight.scalar_type()), db.to(weight.scalar_type())};
}

Triple layer_norm_meta(const Tensor& x, const Tensor& weight, const Tensor& bias, double,
                       std::optional<at::ScalarType> dtype) {
  check_shapes(x, weight, bias);
  const auto positions = x.sym_sizes().slice(0, x.dim() - 1);
  const auto statistics = x.options().dtype(compute_type("layer_norm", x.scalar_type()));
  return {empty_result(x, dtype.value_or(x.scalar_type())), at::empty_symint(positions, statistics),
          at::empty_symint(positions, statistics)};
}

Triple backward_meta(const Tensor&, const Tensor& x, const Tensor& weight, const Tensor&, const Tensor&,
                     const OptionalTensor&) {
  const auto like = [](const Tensor& parameter) { return at::empty_like(parameter, at::MemoryFormat::Contiguous); };
  return {empty_result(x, x.scalar_type()), like(weight), like(weight)};
}

Triple layer_norm_autograd(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                           std::optional<at::ScalarType> dtype) {
  const auto result = record(
      "layer_norm", {x, weight, bias}, {x, weight},
      [&]() -> variable_list {
        auto [y, mean, inverse] = ops::layer_norm(x, weight, bias, eps, dtype);
        return {y, mean, inverse};
      },
      [](const variable_list& saved, const variable_list& gradients) -> variable_list {
        const auto [dx, dw, db] = ops::layer_norm_backward(gradients[0], saved[0], saved[1], saved[2], saved[3]);
        return {dx, dw, db};
      },
      /*differentiable=*/1);
  return {result[0], result[1], result[2]};
}

Triple layer_norm_backward_autograd(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& mean,
                                    const Tensor& inverse, const OptionalTensor& more_dx) {
  return either(
      "layer_norm_backward", {dy, x, weight, mean, inverse, kept(more_dx)},
      [&] { return ops::layer_norm_backward(dy, x, weight, mean, inverse, more_dx); },
      [&] { return layer_norm_backward_by_torch(dy, x, weight, mean, inverse, more_dx); });
}

}  // namespace

TORCH_LIBRARY_IMPL(rtf, CPU, m) {
  m.impl("layer_norm", layer_norm_cpu);
  m.impl("layer_norm_backward", layer_norm_backward_by_torch);
}
TORCH_LIBRARY_IMPL(rtf, Meta, m) {
  m.impl("layer_norm", layer_norm_meta);
  m.impl("layer_norm_backward", backward_meta);
}
TORCH_LIBRARY_IMPL(rtf, Autograd, m) {
  m.impl("layer_norm", layer_norm_autograd);
  m.impl("layer_norm_backward", layer_norm_backward_autograd);
}

}  // namespace rtf::ops
