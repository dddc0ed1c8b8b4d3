// vandermonde on the GPU.
#include "cuda/vandermonde.h"

#include <torch/library.h>

#include "torch/complex_values.h"
#include "torch/cuda/elements.h"
#include "torch/dispatch.h"

namespace rtf::ops {
namespace {

struct VandermondeCall {
  Tensor c, log_z;
  cuda::VandermondeArguments arguments;

  VandermondeCall(const char* operation, const Tensor& c_, const Tensor& log_z_, int64_t length)
      : c(wide(c_)), log_z(wide(log_z_)) {
    check_pairs(operation, c_, log_z_);
    check_device(operation, "log_z", log_z_, "c", c_);
    length_of(operation, length);
    arguments.rows = c.size(0);
    arguments.pairs = c.size(1);
    arguments.length = length;
    arguments.type = element_type(operation, c10::toRealValueType(c_.scalar_type()));
    arguments.c = static_cast<double*>(c.data_ptr());
    arguments.log_z = static_cast<double*>(log_z.data_ptr());
  }
};

Tensor vandermonde_cuda(const Tensor& c, const Tensor& log_z, int64_t length) {
  VandermondeCall of("vandermonde", c, log_z, length);
  const Tensor k = at::empty({c.size(0), length}, c.options().dtype(c10::toRealValueType(c.scalar_type())));
  const Device device(c);
  of.arguments.stream = device;
  if (k.numel() > 0) call([&] { cuda::vandermonde(of.arguments, k.data_ptr()); });
  return k;
}

Pair vandermonde_backward_cuda(const Tensor& dk, const Tensor& c, const Tensor& log_z) {
  check_kernel_gradient("vandermonde_backward", dk, c);
  check_device("vandermonde_backward", "dk", dk, "c", c);
  VandermondeCall of("vandermonde_backward", c, log_z, dk.size(1));
  if (c.size(0) == 0) return {at::empty_like(c), at::empty_like(log_z)};
  const Tensor gradient = dk.to(c10::toRealValueType(c.scalar_type())).contiguous();
  const std::vector<int64_t> shape = {cuda::vandermonde_shares(of.arguments), c.size(0), c.size(1)};
  const Tensor dc = at::empty(shape, of.c.options()), dz = at::empty(shape, of.c.options());
  const Device device(c);
  of.arguments.stream = device;
  call([&] {
    cuda::vandermonde_backward(of.arguments, gradient.data_ptr(), static_cast<double*>(dc.data_ptr()),
                               static_cast<double*>(dz.data_ptr()));
  });
  return {dc.sum(0).to(c.options()), dz.sum(0).to(log_z.options())};
}

}  // namespace

TORCH_LIBRARY_IMPL(rtf, CUDA, m) {
  m.impl("vandermonde", vandermonde_cuda);
  m.impl("vandermonde_backward", vandermonde_backward_cuda);
}

}  // namespace rtf::ops
