// cauchy on the GPU.
#include "cuda/cauchy.h"

#include <torch/library.h>

#include "rtf/cauchy.h"
#include "torch/complex_values.h"
#include "torch/cuda/elements.h"
#include "torch/dispatch.h"

namespace rtf::ops {
namespace {

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
    arguments.v = static_cast<double*>(v.data_ptr());
    arguments.poles = static_cast<double*>(poles.data_ptr());
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
  const Tensor dv = at::empty({parts.shares, v.size(0), v.size(1), v.size(2)}, of.v.options());
  const Tensor dp = at::empty({parts.shares * parts.groups, v.size(0), v.size(2)}, of.v.options());
  const Device device(v);
  of.arguments.stream = device;
  call([&] {
    cuda::cauchy_backward(of.arguments, gradient.data_ptr(), static_cast<double*>(dv.data_ptr()),
                          static_cast<double*>(dp.data_ptr()));
  });
  return {dv.sum(0).to(v.options()), dp.sum(0).to(poles.options())};
}

}  // namespace

TORCH_LIBRARY_IMPL(rtf, CUDA, m) {
  m.impl("cauchy", cauchy_cuda);
  m.impl("cauchy_backward", cauchy_backward_cuda);
}

}  // namespace rtf::ops
