// layer_norm on the GPU.
#include "cuda/layer_norm.h"

#include <torch/library.h>

#include "torch/cuda/elements.h"
#include "torch/dispatch.h"

namespace rtf::ops {
namespace {

void check_shapes(const char* operation, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  TORCH_CHECK_VALUE(weight.dim() == 1 && bias.sizes() == weight.sizes() && weight.numel() > 0 && x.dim() > 0 &&
                        x.size(-1) == weight.size(0),
                    "[rtf::", operation, "] x, weight and bias have shapes ", x.sizes(), ", ", weight.sizes(), ", ",
                    bias.sizes(), "; (..., channels), (channels), (channels) are needed");
  check_device(operation, "the weight", weight, "x", x);
  check_device(operation, "the bias", bias, "x", x);
}

cuda::LayerNormArguments arguments_of(const char* operation, const Tensor& in, const Tensor& weight, const Tensor& mean,
                                      const Tensor& inverse, at::ScalarType outer) {
  cuda::LayerNormArguments arguments;
  arguments.batch = in.size(0);
  arguments.length = in.size(1);
  arguments.channels = in.size(2);
  arguments.type = element_type(operation, in.scalar_type());
  arguments.outer = element_type(operation, outer);
  arguments.x = in.data_ptr();
  arguments.weight = weight.data_ptr();
  arguments.mean = mean.data_ptr();
  arguments.inverse = inverse.data_ptr();
  return arguments;
}

Triple layer_norm_cuda(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                       std::optional<at::ScalarType> dtype) {
  check_shapes("layer_norm", x, weight, bias);
  const auto wanted = dtype.value_or(x.scalar_type());
  const Tensor in = packed(x), w = parameter("layer_norm", weight, x), b = parameter("layer_norm", bias, x);
  const Tensor y = empty_length_last(in, normalized_type(x.scalar_type(), wanted));
  const Tensor mean = at::empty(x.sizes().slice(0, x.dim() - 1), w.options()), inverse = at::empty_like(mean);
  auto arguments = arguments_of("layer_norm", in, w, mean, inverse, y.scalar_type());
  const Device device(x);
  arguments.stream = device;
  if (y.numel() > 0) call([&] { cuda::layer_norm(arguments, b.data_ptr(), eps, y.data_ptr()); });
  return {as_result(unpacked(y, x.sizes()), x, wanted, device), mean, inverse};
}

Triple layer_norm_backward_cuda(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& mean,
                                const Tensor& inverse, const OptionalTensor& more_dx) {
  check_shapes("layer_norm_backward", x, weight, weight);
  check_shape("layer_norm_backward", "dy", dy, x.sizes());
  check_shape("layer_norm_backward", "the mean", mean, x.sizes().slice(0, x.dim() - 1));
  check_shape("layer_norm_backward", "the inverse deviation", inverse, mean.sizes());
  check_device("layer_norm_backward", "dy", dy, "x", x);
  check_device("layer_norm_backward", "the mean", mean, "x", x);
  check_device("layer_norm_backward", "the inverse deviation", inverse, "x", x);
  const Tensor in = packed(x), w = parameter("layer_norm_backward", weight, x);
  const Tensor gradient = packed(dy.to(normalized_type(x.scalar_type(), dy.scalar_type())));
  const Tensor center = parameter("layer_norm_backward", mean, x);
  const Tensor scale = parameter("layer_norm_backward", inverse, x);
  Tensor added;
  if (more_dx) {
    check_shape("layer_norm_backward", "more_dx", *more_dx, x.sizes());
    check_device("layer_norm_backward", "more_dx", *more_dx, "x", x);
    added = packed(more_dx->to(x.scalar_type()));
  }
  const Tensor dx = empty_length_last(in, x.scalar_type()), dw = at::empty_like(w), db = at::empty_like(w);
  auto arguments = arguments_of("layer_norm_backward", in, w, center, scale, gradient.scalar_type());
  const Device device(x);
  arguments.stream = device;
  if (dx.numel() > 0) {
    const c10::DataPtr space = workspace(cuda::layer_norm_backward_workspace_bytes(arguments), device);
    call([&] {
      cuda::layer_norm_backward(arguments, gradient.data_ptr(), more_dx ? added.data_ptr() : nullptr, dx.data_ptr(),
                                dw.data_ptr(), db.data_ptr(), space.get());
    });
  } else {
    dw.zero_();
    db.zero_();
  }
  return {as_result(unpacked(dx, x.sizes()), x, x.scalar_type(), device), dw.to(weight.scalar_type()),
          db.to(weight.scalar_type())};
}

}  // namespace

TORCH_LIBRARY_IMPL(rtf, CUDA, m) {
  m.impl("layer_norm", layer_norm_cuda);
  m.impl("layer_norm_backward", layer_norm_backward_cuda);
}

}  // namespace rtf::ops
