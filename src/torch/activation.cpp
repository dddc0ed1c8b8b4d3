// dropout, gelu and glu: what stands between a block's layer and its output, masks included.
#include "rtf/activation.h"

#include <torch/library.h>

#include "torch/activation.h"
#include "torch/bridge.h"
#include "torch/dispatch.h"
#include "torch/tape.h"

namespace rtf::ops {

Tensor gelu_backward(const Tensor& dy, const Tensor& x, double p, const Tensor& generator, int64_t layer, bool tied) {
  RTF_OPERATOR("gelu_backward", Tensor, const Tensor&, const Tensor&, double, const Tensor&, int64_t, bool);
  return op.call(dy, x, p, generator, layer, tied);
}

Pair glu_backward(const Tensor& dy, const Tensor& z, double p, const Tensor& generator, int64_t layer, bool tied,
                  const OptionalTensor& bias) {
  RTF_OPERATOR("glu_backward", Pair, const Tensor&, const Tensor&, double, const Tensor&, int64_t, bool,
               const OptionalTensor&);
  return op.call(dy, z, p, generator, layer, tied, bias);
}

namespace {

// The mask of a tensor (..., length, channels) from the operators' arguments.
Dropout mask(const char* operation, const Tensor& x, double p, const Tensor& generator, int64_t layer, bool tied) {
  TORCH_CHECK_VALUE(generator.scalar_type() == at::kLong && generator.numel() == 2 && generator.is_contiguous(),
                    "[rtf::", operation, "] the generator has shape ", generator.sizes(), " and type ",
                    generator.scalar_type(), "; two int64 numbers, seed and step, are needed");
  TORCH_CHECK_VALUE(x.dim() > 0 && (!tied || x.dim() == 3), "[rtf::", operation, "] x has shape ", x.sizes(), "; ",
                    tied ? "tied dropout needs (batch, length, channels)" : "the last dimension are the channels");
  TORCH_CHECK_VALUE(p >= 0 && p < 1, "[rtf::", operation, "] p is ", p, "; it must be in [0, 1)");
  const auto state = values<const int64_t>(generator);
  Dropout result;
  result.p = p;
  result.seed = static_cast<uint64_t>(state[0]);
  result.step = static_cast<uint32_t>(state[1]);
  result.layer = static_cast<uint32_t>(layer);
  result.tied = tied ? static_cast<std::size_t>(x.size(1)) : 0;
  return result;
}

// compute(T(), y) into a new tensor of `sizes`.
template <class Compute>
Tensor computed(at::IntArrayRef sizes, const Tensor& like, at::ScalarType type, Compute&& compute) {
  const Tensor y = at::empty(sizes, like.options().dtype(type));
  if (y.numel() > 0) with_type(type, [&](auto zero) { compute(zero, y); });
  return y;
}

// The same of the sizes of x, as a result for it.
template <class Compute>
Tensor result(const Tensor& x, at::ScalarType type, Compute&& compute) {
  return as_result(computed(x.sizes(), x, type, compute), x, x.scalar_type());
}

std::size_t channels_of(const Tensor& x) { return static_cast<std::size_t>(x.size(-1)); }

Tensor dropout_cpu(const Tensor& x, double p, const Tensor& generator, int64_t layer, bool tied) {
  const Dropout drop = mask("dropout", x, p, generator, layer, tied);
  const auto type = compute_type("dropout", x.scalar_type());
  const Tensor in = x.to(type).contiguous();
  return result(x, type, [&](auto zero, const Tensor& y) {
    using T = decltype(zero);
    rtf::dropout<T>(values<const T>(in), channels_of(x), drop, values<T>(y), executor());
  });
}

Tensor gelu_cpu(const Tensor& x, double p, const Tensor& generator, int64_t layer, bool tied) {
  const Dropout drop = mask("gelu", x, p, generator, layer, tied);
  const auto type = compute_type("gelu", x.scalar_type());
  const Tensor in = x.to(type).contiguous();
  return result(x, type, [&](auto zero, const Tensor& y) {
    using T = decltype(zero);
    rtf::gelu<T>(values<const T>(in), channels_of(x), drop, values<T>(y), executor());
  });
}

Tensor gelu_backward_cpu(const Tensor& dy, const Tensor& x, double p, const Tensor& generator, int64_t layer,
                         bool tied) {
  const Dropout drop = mask("gelu_backward", x, p, generator, layer, tied);
  check_shape("gelu_backward", "dy", dy, x.sizes());
  const auto type = compute_type("gelu_backward", x.scalar_type());
  const Tensor in = x.to(type).contiguous(), gradient = dy.to(type).contiguous();
  return result(x, type, [&](auto zero, const Tensor& dx) {
    using T = decltype(zero);
    gelu_vjp<T>(values<const T>(in), channels_of(x), drop, values<const T>(gradient), values<T>(dx), executor());
  });
}

// The gated half of z's shape.
template <class Sizes>
auto half(const Tensor& z, Sizes sizes) {
  TORCH_CHECK_VALUE(z.dim() > 0 && z.sym_size(-1) % 2 == 0, "[rtf::glu] z has shape ", z.sizes(),
                    "; an even number of channels is needed");
  sizes.back() = sizes.back() / 2;
  return sizes;
}

// z with its bias.
Tensor shifted(const char* operation, const Tensor& z, const OptionalTensor& bias) {
  if (!bias) return z;
  check_shape(operation, "the bias", *bias, {z.size(-1)});
  return z + bias->to(z.scalar_type());
}

Tensor glu_cpu(const Tensor& z, const OptionalTensor& residual, double p, const Tensor& generator, int64_t layer,
               bool tied, const OptionalTensor& bias) {
  const auto sizes = half(z, z.sizes().vec());
  const Dropout drop = mask("glu", z, p, generator, layer, tied);
  const auto type = compute_type("glu", z.scalar_type());
  if (residual) check_shape("glu", "the residual", *residual, sizes);
  const Tensor in = shifted("glu", z.to(type), bias).contiguous();
  const Tensor added = residual ? residual->to(type).contiguous() : at::empty({0}, in.options());
  const Tensor sum = computed(sizes, z, type, [&](auto zero, const Tensor& y) {
    using T = decltype(zero);
    rtf::glu<T>(values<const T>(in), channels_of(y), drop, values<const T>(added), values<T>(y), executor());
  });
  return as_result(sum, z, (residual ? *residual : z).scalar_type());
}

// What the bias has of the gradient of z.
Tensor to_bias(const Tensor& dz, const OptionalTensor& bias) {
  return bias ? dz.sum_to_size({dz.size(-1)}).to(bias->scalar_type()) : at::empty({0}, dz.options());
}

Pair glu_backward_cpu(const Tensor& dy, const Tensor& z, double p, const Tensor& generator, int64_t layer, bool tied,
                      const OptionalTensor& bias) {
  const Dropout drop = mask("glu_backward", z, p, generator, layer, tied);
  check_shape("glu_backward", "dy", dy, half(z, z.sizes().vec()));
  const auto type = compute_type("glu_backward", z.scalar_type());
  const Tensor in = shifted("glu_backward", z.to(type), bias).contiguous(), gradient = dy.to(type).contiguous();
  const Tensor dz = computed(z.sizes(), z, type, [&](auto zero, const Tensor& out) {
    using T = decltype(zero);
    glu_vjp<T>(values<const T>(in), channels_of(dy), drop, values<const T>(gradient), values<T>(out), executor());
  });
  const Tensor db = to_bias(dz, bias);
  return {as_result(dz, z, z.scalar_type()), db};
}

Tensor like(const Tensor& x) { return empty_result(x, x.scalar_type()); }

Tensor same_meta(const Tensor& x, double, const Tensor&, int64_t, bool) { return like(x); }
Tensor backward_meta(const Tensor&, const Tensor& x, double, const Tensor&, int64_t, bool) { return like(x); }
Tensor glu_meta(const Tensor& z, const OptionalTensor& residual, double, const Tensor&, int64_t, bool,
                const OptionalTensor&) {
  return empty_result(z, (residual ? *residual : z).scalar_type(), half(z, z.sym_sizes().vec()).back());
}
Pair glu_backward_meta(const Tensor&, const Tensor& z, double, const Tensor&, int64_t, bool,
                       const OptionalTensor& bias) {
  return {like(z), bias ? like(*bias) : at::empty({0}, z.options())};
}

// The generator is kept for the backward pass: autograd refuses one that was moved on in between.

// Linear in x: the gradient goes through the same mask.
Tensor dropout_autograd(const Tensor& x, double p, const Tensor& generator, int64_t layer, bool tied) {
  return record(
      "dropout", {x}, {generator}, [&] { return variable_list{ops::dropout(x, p, generator, layer, tied)}; },
      [p, layer, tied](const variable_list& saved, const variable_list& gradients) {
        return variable_list{ops::dropout(gradients[0], p, saved[0], layer, tied)};
      })[0];
}

// Torch's own gradients have derivatives.
Tensor gelu_backward_autograd(const Tensor& dy, const Tensor& x, double p, const Tensor& generator, int64_t layer,
                              bool tied) {
  return either(
      "gelu_backward", {dy, x}, [&] { return gelu_backward(dy, x, p, generator, layer, tied); },
      [&] {
        check_shape("gelu_backward", "dy", dy, x.sizes());
        const auto type = compute_type("gelu_backward", x.scalar_type());
        const Tensor kept_dy = ops::dropout(dy.to(type), p, generator, layer, tied);
        return at::gelu_backward(kept_dy, x.to(type)).to(x.scalar_type());
      });
}

Pair glu_backward_autograd(const Tensor& dy, const Tensor& z, double p, const Tensor& generator, int64_t layer,
                           bool tied, const OptionalTensor& bias) {
  return either(
      "glu_backward", {dy, z, kept(bias)}, [&] { return glu_backward(dy, z, p, generator, layer, tied, bias); },
      [&]() -> Pair {
        check_shape("glu_backward", "dy", dy, half(z, z.sizes().vec()));
        const auto type = compute_type("glu_backward", z.scalar_type());
        const Tensor kept_dy = ops::dropout(dy.to(type), p, generator, layer, tied);
        const Tensor dz = at::glu_backward(kept_dy, shifted("glu_backward", z.to(type), bias), -1);
        return {dz.to(z.scalar_type()), to_bias(dz, bias)};
      });
}

Tensor gelu_autograd(const Tensor& x, double p, const Tensor& generator, int64_t layer, bool tied) {
  return record(
      "gelu", {x}, {x, generator}, [&] { return variable_list{ops::gelu(x, p, generator, layer, tied)}; },
      [p, layer, tied](const variable_list& saved, const variable_list& gradients) {
        return variable_list{gelu_backward(gradients[0], saved[0], p, saved[1], layer, tied)};
      })[0];
}

Tensor glu_autograd(const Tensor& z, const OptionalTensor& residual, double p, const Tensor& generator, int64_t layer,
                    bool tied, const OptionalTensor& bias) {
  return record(
      "glu", {z, kept(residual), kept(bias)}, {z, kept(bias), generator},
      [&] { return variable_list{ops::glu(z, residual, p, generator, layer, tied, bias)}; },
      [p, layer, tied, added = residual.has_value()](const variable_list& saved,
                                                     const variable_list& gradients) -> variable_list {
        const auto [dz, db] = glu_backward(gradients[0], saved[0], p, saved[2], layer, tied, given(saved[1]));
        return {dz, added ? gradients[0] : Tensor(), saved[1].defined() ? db : Tensor()};
      })[0];
}

}  // namespace

TORCH_LIBRARY_IMPL(rtf, CPU, m) {
  m.impl("dropout", dropout_cpu);
  m.impl("gelu", gelu_cpu);
  m.impl("gelu_backward", gelu_backward_cpu);
  m.impl("glu", glu_cpu);
  m.impl("glu_backward", glu_backward_cpu);
}
TORCH_LIBRARY_IMPL(rtf, Meta, m) {
  m.impl("dropout", same_meta);
  m.impl("gelu", same_meta);
  m.impl("gelu_backward", backward_meta);
  m.impl("glu", glu_meta);
  m.impl("glu_backward", glu_backward_meta);
}
TORCH_LIBRARY_IMPL(rtf, Autograd, m) {
  m.impl("dropout", dropout_autograd);
  m.impl("gelu", gelu_autograd);
  m.impl("gelu_backward", gelu_backward_autograd);
  m.impl("glu", glu_autograd);
  m.impl("glu_backward", glu_backward_autograd);
}

}  // namespace rtf::ops
