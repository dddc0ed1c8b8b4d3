// dropout, gelu and glu on the GPU.
#include "cuda/activation.h"

#include <torch/library.h>

#include "torch/cuda/elements.h"
#include "torch/dispatch.h"

namespace rtf::ops {
namespace {

// The arguments that all share; `y` has the sizes of the result, packed.
cuda::ActivationArguments arguments_of(const char* operation, const Tensor& x, double p, const Tensor& generator,
                                       int64_t layer, bool tied, const Tensor& y) {
  TORCH_CHECK_VALUE(generator.scalar_type() == at::kLong && generator.numel() == 2 && generator.is_contiguous(),
                    "[rtf::", operation, "] the generator has shape ", generator.sizes(), " and type ",
                    generator.scalar_type(), "; two int64 numbers, seed and step, are needed");
  TORCH_CHECK_VALUE(!tied || x.dim() == 3, "[rtf::", operation, "] x has shape ", x.sizes(),
                    "; tied dropout needs (batch, length, channels)");
  TORCH_CHECK_VALUE(p >= 0 && p < 1, "[rtf::", operation, "] p is ", p, "; it must be in [0, 1)");
  if (p > 0) check_device(operation, "the generator", generator, "x", x);
  cuda::ActivationArguments arguments;
  arguments.batch = y.size(0);
  arguments.length = y.size(1);
  arguments.channels = y.size(2);
  arguments.type = element_type(operation, x.scalar_type());
  arguments.outer = element_type(operation, y.scalar_type());
  arguments.dropout = {p, generator.const_data_ptr<int64_t>(), static_cast<std::uint32_t>(layer), tied};
  return arguments;
}

void check_dimensions(const char* operation, const Tensor& x) {
  TORCH_CHECK_VALUE(x.dim() > 0, "[rtf::", operation, "] x has shape ", x.sizes(),
                    "; the last dimension are the channels");
}

// compute(arguments) of x, and of dy where there is one, into a new tensor like x.
template <class Compute>
Tensor map(const char* operation, const Tensor& x, const OptionalTensor& dy, double p, const Tensor& generator,
           int64_t layer, bool tied, Compute&& compute) {
  check_dimensions(operation, x);
  const Tensor in = packed(x), result = empty_length_last(in, x.scalar_type());
  auto arguments = arguments_of(operation, x, p, generator, layer, tied, result);
  Tensor gradient;
  if (dy) {
    check_shape(operation, "dy", *dy, x.sizes());
    check_device(operation, "dy", *dy, "x", x);
    gradient = packed(dy->to(x.scalar_type()));
    arguments.dy = gradient.data_ptr();
  }
  arguments.x = in.data_ptr();
  arguments.result = result.data_ptr();
  const Device device(x);
  arguments.stream = device;
  if (result.numel() > 0) call([&] { compute(arguments); });
  return as_result(unpacked(result, x.sizes()), x, x.scalar_type(), device);
}

Tensor dropout_cuda(const Tensor& x, double p, const Tensor& generator, int64_t layer, bool tied) {
  return map("dropout", x, {}, p, generator, layer, tied, cuda::dropout);
}
Tensor gelu_cuda(const Tensor& x, double p, const Tensor& generator, int64_t layer, bool tied) {
  return map("gelu", x, {}, p, generator, layer, tied, cuda::gelu);
}
Tensor gelu_backward_cuda(const Tensor& dy, const Tensor& x, double p, const Tensor& generator, int64_t layer,
                          bool tied) {
  return map("gelu_backward", x, dy, p, generator, layer, tied, cuda::gelu_backward);
}

// The gated half of z's shape.
std::vector<int64_t> half(const char* operation, const Tensor& z) {
  TORCH_CHECK_VALUE(z.dim() > 0 && z.size(-1) % 2 == 0, "[rtf::", operation, "] z has shape ", z.sizes(),
                    "; an even number of channels is needed");
  auto sizes = z.sizes().vec();
  sizes.back() /= 2;
  return sizes;
}

// The bias as the kernels want it, and its address in the arguments.
Tensor set_bias(const char* operation, const Tensor& z, const OptionalTensor& bias,
                cuda::ActivationArguments& arguments) {
  if (!bias) return {};
  check_shape(operation, "the bias", *bias, {z.size(-1)});
  check_device(operation, "the bias", *bias, "z", z);
  const Tensor values = parameter(operation, *bias, z);
  arguments.bias = values.data_ptr();
  return values;
}

// The type of y: the residual's, where the kernels write it. They write z's type, and float32 of bfloat16.
at::ScalarType outer_type(at::ScalarType inner, at::ScalarType wanted) {
  return inner == at::kBFloat16 && wanted == at::kFloat ? at::kFloat : inner;
}

Tensor glu_cuda(const Tensor& z, const OptionalTensor& residual, double p, const Tensor& generator, int64_t layer,
                bool tied, const OptionalTensor& bias) {
  const auto sizes = half("glu", z);
  const auto wanted = residual ? residual->scalar_type() : z.scalar_type();
  const auto outer = outer_type(z.scalar_type(), wanted);
  const Tensor in = packed(z);
  const Tensor y = empty_length_last(in, outer, in.size(2) / 2);
  auto arguments = arguments_of("glu", z, p, generator, layer, tied, y);
  Tensor added;
  if (residual) {
    check_shape("glu", "the residual", *residual, sizes);
    check_device("glu", "the residual", *residual, "z", z);
    added = packed(residual->to(outer));
    arguments.residual = added.data_ptr();
  }
  const Tensor values = set_bias("glu", z, bias, arguments);
  arguments.x = in.data_ptr();
  arguments.result = y.data_ptr();
  const Device device(z);
  arguments.stream = device;
  if (y.numel() > 0) call([&] { cuda::glu(arguments); });
  return as_result(unpacked(y, sizes), z, wanted, device);
}

Pair glu_backward_cuda(const Tensor& dy, const Tensor& z, double p, const Tensor& generator, int64_t layer, bool tied,
                       const OptionalTensor& bias) {
  check_shape("glu_backward", "dy", dy, half("glu_backward", z));
  check_device("glu_backward", "dy", dy, "z", z);
  const Tensor in = packed(z), gradient = packed(dy.to(outer_type(z.scalar_type(), dy.scalar_type())));
  const Tensor dz = empty_length_last(in, z.scalar_type());
  auto arguments = arguments_of("glu_backward", z, p, generator, layer, tied, gradient);
  const Tensor values = set_bias("glu_backward", z, bias, arguments);
  Tensor to_bias = bias ? at::empty_like(values) : at::empty({0}, z.options());
  arguments.x = in.data_ptr();
  arguments.dy = gradient.data_ptr();
  arguments.result = dz.data_ptr();
  const Device device(z);
  arguments.stream = device;
  if (dz.numel() > 0) {
    c10::DataPtr space;
    if (bias) space = workspace(cuda::glu_backward_workspace_bytes(arguments), device);
    call([&] { cuda::glu_backward(arguments, bias ? to_bias.data_ptr() : nullptr, space.get()); });
  } else {
    to_bias.zero_();
  }
  return {as_result(unpacked(dz, z.sizes()), z, z.scalar_type(), device),
          bias ? to_bias.to(bias->scalar_type()) : to_bias};
}

}  // namespace

TORCH_LIBRARY_IMPL(rtf, CUDA, m) {
  m.impl("dropout", dropout_cuda);
  m.impl("gelu", gelu_cuda);
  m.impl("gelu_backward", gelu_backward_cuda);
  m.impl("glu", glu_cuda);
  m.impl("glu_backward", glu_backward_cuda);
}

}  // namespace rtf::ops
