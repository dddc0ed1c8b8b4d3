// batch_norm on the GPU.
#include "cuda/batch_norm.h"

#include <torch/library.h>

#include "torch/cuda/elements.h"
#include "torch/dispatch.h"

namespace rtf::ops {
namespace {

void check_shapes(const char* operation, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  TORCH_CHECK_VALUE(weight.dim() == 1 && bias.sizes() == weight.sizes() && weight.numel() > 0 && x.dim() > 0 &&
                        x.size(-1) == weight.size(0) && x.numel() > 0,
                    "[rtf::", operation, "] x, weight and bias have shapes ", x.sizes(), ", ", weight.sizes(), ", ",
                    bias.sizes(), "; (..., channels), (channels), (channels) are needed");
  check_device(operation, "the weight", weight, "x", x);
  check_device(operation, "the bias", bias, "x", x);
}

// All positions are one sequence where x is not (batch, length, channels).
Tensor positions_of(const Tensor& x) { return packed(x.dim() == 3 ? x : x.reshape({1, -1, x.size(-1)})); }

cuda::BatchNormArguments arguments_of(const char* operation, const Tensor& in, const Tensor& weight, double eps,
                                      const Tensor& mean, const Tensor& variance, at::ScalarType outer) {
  cuda::BatchNormArguments arguments;
  arguments.batch = in.size(0);
  arguments.length = in.size(1);
  arguments.channels = in.size(2);
  arguments.type = element_type(operation, in.scalar_type());
  arguments.outer = element_type(operation, outer);
  arguments.x = in.data_ptr();
  arguments.weight = weight.data_ptr();
  arguments.eps = eps;
  arguments.mean = mean.data_ptr<double>();
  arguments.variance = variance.data_ptr<double>();
  return arguments;
}

// A running average is written in place, so it must have the type of the arithmetic.
void* average(const Tensor& x, const OptionalTensor& values, const Tensor& weight) {
  if (!values) return nullptr;
  check_shape("batch_norm", "a running average", *values, weight.sizes());
  check_device("batch_norm", "a running average", *values, "x", x);
  TORCH_CHECK_VALUE(values->scalar_type() == weight.scalar_type() && values->is_contiguous(),
                    "[rtf::batch_norm] a running average of type ", values->scalar_type(), "; ", weight.scalar_type(),
                    " is needed for x of type ", x.scalar_type());
  return values->data_ptr();
}

Triple batch_norm_cuda(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                       const OptionalTensor& running_mean, const OptionalTensor& running_var, double momentum,
                       std::optional<at::ScalarType> dtype) {
  check_shapes("batch_norm", x, weight, bias);
  TORCH_CHECK_VALUE(running_mean.has_value() == running_var.has_value(),
                    "[rtf::batch_norm] one running average without the other");
  const auto wanted = dtype.value_or(x.scalar_type());
  const Tensor in = positions_of(x), w = parameter("batch_norm", weight, x), b = parameter("batch_norm", bias, x);
  const Tensor y = empty_length_last(in, normalized_type(x.scalar_type(), wanted));
  const Tensor mean = at::empty({w.size(0)}, w.options().dtype(at::kDouble)), variance = at::empty_like(mean);
  auto arguments = arguments_of("batch_norm", in, w, eps, mean, variance, y.scalar_type());
  const cuda::RunningStatistics running{average(x, running_mean, w), average(x, running_var, w), momentum};
  const Device device(x);
  arguments.stream = device;
  call([&] { cuda::batch_norm(arguments, b.data_ptr(), y.data_ptr(), running); });
  return {as_result(unpacked(y, x.sizes()), x, wanted, device), mean, variance};
}

Triple batch_norm_backward_cuda(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& mean,
                                const Tensor& variance, double eps, const OptionalTensor& more_dy,
                                const OptionalTensor& more_dx) {
  check_shapes("batch_norm_backward", x, weight, weight);
  check_shape("batch_norm_backward", "dy", dy, x.sizes());
  check_shape("batch_norm_backward", "the mean", mean, weight.sizes());
  check_shape("batch_norm_backward", "the variance", variance, weight.sizes());
  check_device("batch_norm_backward", "dy", dy, "x", x);
  check_device("batch_norm_backward", "the mean", mean, "x", x);
  check_device("batch_norm_backward", "the variance", variance, "x", x);
  const Tensor in = positions_of(x), w = parameter("batch_norm_backward", weight, x);
  const Tensor gradient = positions_of(dy.to(normalized_type(x.scalar_type(), dy.scalar_type())));
  const Tensor center = mean.to(at::kDouble).contiguous(), spread = variance.to(at::kDouble).contiguous();
  const auto added = [&](const char* name, const OptionalTensor& values) {
    if (!values) return Tensor();
    check_shape("batch_norm_backward", name, *values, x.sizes());
    check_device("batch_norm_backward", name, *values, "x", x);
    return positions_of(values->to(x.scalar_type()));
  };
  const Tensor to_dy = added("more_dy", more_dy), to_dx = added("more_dx", more_dx);
  const Tensor dx = empty_length_last(in, x.scalar_type()), dw = at::empty_like(w), db = at::empty_like(w);
  auto arguments = arguments_of("batch_norm_backward", in, w, eps, center, spread, gradient.scalar_type());
  const Device device(x);
  arguments.stream = device;
  call([&] {
    const auto address = [](const Tensor& values) { return values.defined() ? values.data_ptr() : nullptr; };
    cuda::batch_norm_backward(arguments, gradient.data_ptr(), {address(to_dy), address(to_dx)}, dx.data_ptr(),
                              dw.data_ptr(), db.data_ptr());
  });
  return {as_result(unpacked(dx, x.sizes()), x, x.scalar_type(), device), dw.to(weight.scalar_type()),
          db.to(weight.scalar_type())};
}

}  // namespace

TORCH_LIBRARY_IMPL(rtf, CUDA, m) {
  m.impl("batch_norm", batch_norm_cuda);
  m.impl("batch_norm_backward", batch_norm_backward_cuda);
}

}  // namespace rtf::ops
