// cauchy and vandermonde on the GPU.
#include "cuda/cauchy.h"

#include <torch/library.h>

#include "cuda/vandermonde.h"
#include "rtf/cauchy.h"
#include "torch/complex_values.h"
#include "torch/cuda/elements.h"
#include "torch/dispatch.h"

namespace rtf::ops {
namespace {

Tensor wide(const Tensor& complex) { return complex.to(at::kComplexDouble).resolve_conj().contiguous(); }
double* numbers(const Tensor& complex) { return static_cast<double*>(complex.data_ptr()); }

// Held together with what its pointers point to.
struct CauchyCall {
  Tensor v, poles, points;
  cuda::CauchyArguments arguments;

  CauchyCall(const char* operation, const Tensor& v_, const Tensor& poles_, const Tensor& points_)
      : v(wide(v_)), poles(wide(poles_)), points(points_.to(at::kDouble).contiguous()) {
    check_cauchy(operation, v_, poles_, points_);
    check_device(operation, "the poles", poles_, "v", v_);
    check_device(operation, "the points", points_, "v", v_);
    TORCH_CHECK_VALUE(v.size(1) >= 1 && v.size(1) <= static_cast<int64_t>(most_cauchy_sums), "[rtf::", operation, "] ",
                      v.size(1), " sums; 1 to ", most_cauchy_sums, " are possible");
    arguments.rows = v.size(0);
    arguments.sums = v.size(1);
    arguments.pairs = v.size(2);
    arguments.points = points.size(0);
    arguments.type = element_type(operation, c10::toRealValueType(v_.scalar_type()));
    arguments.v = numbers(v);
    arguments.poles = numbers(poles);
    arguments.points_at = points.const_data_ptr<double>();
  }
};

Tensor cauchy_cuda(const Tensor& v, const Tensor& poles, const Tensor& points) {
  CauchyCall of("cauchy", v, poles, points);
  const Tensor y = at::empty({v.size(0), v.size(1), points.size(0)}, v.options());
  const Device device(v);
  of.arguments.stream = device;
  if (y.numel() > 0) call([&] { cuda::cauchy(of.arguments, y.data_ptr()); });
  return y;
}

Pair cauchy_backward_cuda(const Tensor& dy, const Tensor& v, const Tensor& poles, const Tensor& points) {
  CauchyCall of("cauchy_backward", v, poles, points);
  check_shape("cauchy_backward", "dy", dy, {v.size(0), v.size(1), points.size(0)});
  check_device("cauchy_backward", "dy", dy, "v", v);
  if (v.size(0) == 0) return {at::empty_like(v), at::empty_like(poles)};
  const Tensor gradient = dy.to(v.scalar_type()).resolve_conj().contiguous();
  const cuda::CauchyParts parts = cuda::cauchy_parts(of.arguments);
  const Tensor dv = at::empty({parts.blocks, v.size(0), v.size(1), v.size(2)}, of.v.options());
  const Tensor dp = at::empty({parts.blocks * parts.groups, v.size(0), v.size(2)}, of.v.options());
  const Device device(v);
  of.arguments.stream = device;
  call([&] { cuda::cauchy_backward(of.arguments, gradient.data_ptr(), numbers(dv), numbers(dp)); });
  return {dv.sum(0).to(v.options()), dp.sum(0).to(poles.options())};
}

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
    arguments.c = numbers(c);
    arguments.log_z = numbers(log_z);
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
  const std::vector<int64_t> shape = {cuda::vandermonde_tiles(of.arguments), c.size(0), c.size(1)};
  const Tensor dc = at::empty(shape, of.c.options()), dz = at::empty(shape, of.c.options());
  const Device device(c);
  of.arguments.stream = device;
  call([&] { cuda::vandermonde_backward(of.arguments, gradient.data_ptr(), numbers(dc), numbers(dz)); });
  return {dc.sum(0).to(c.options()), dz.sum(0).to(log_z.options())};
}

}  // namespace

TORCH_LIBRARY_IMPL(rtf, CUDA, m) {
  m.impl("cauchy", cauchy_cuda);
  m.impl("cauchy_backward", cauchy_backward_cuda);
  m.impl("vandermonde", vandermonde_cuda);
  m.impl("vandermonde_backward", vandermonde_backward_cuda);
}

}  // namespace rtf::ops
