// cauchy: sums over pairs of conjugate poles at points of the imaginary axis.
#include "rtf/cauchy.h"

#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>

#include "torch/bridge.h"
#include "torch/complex_values.h"
#include "torch/dispatch.h"
#include "torch/tape.h"

namespace rtf::ops {
namespace {

CauchySizes sizes_of(const Tensor& v) {
  return {static_cast<std::size_t>(v.size(0)), static_cast<std::size_t>(v.size(1)),
          static_cast<std::size_t>(v.size(2))};
}

Tensor cauchy_cpu(const Tensor& v, const Tensor& poles, const Tensor& points) {
  check_cauchy("cauchy", v, poles, points);
  const Tensor y = at::empty({v.size(0), v.size(1), points.size(0)}, v.options());
  const Tensor vv = wide(v), pp = wide(poles);
  const Tensor s = points.to(at::kDouble).contiguous();
  with_type(c10::toRealValueType(y.scalar_type()), [&](auto zero) {
    using T = decltype(zero);
    rtf::cauchy<T>(sizes_of(v), complex_values(vv), complex_values(pp), values<const double>(s), complex_results<T>(y),
                   executor());
  });
  return y;
}

Pair cauchy_backward_cpu(const Tensor& dy, const Tensor& v, const Tensor& poles, const Tensor& points) {
  check_cauchy("cauchy_backward", v, poles, points);
  check_shape("cauchy_backward", "dy", dy, {v.size(0), v.size(1), points.size(0)});
  const Tensor gradient = dy.to(v.scalar_type()).resolve_conj().contiguous();
  const Tensor vv = wide(v), pp = wide(poles);
  const Tensor s = points.to(at::kDouble).contiguous(), dv = at::empty_like(vv), dp = at::empty_like(pp);
  with_type(c10::toRealValueType(v.scalar_type()), [&](auto zero) {
    using T = decltype(zero);
    cauchy_vjp<T>(sizes_of(v), complex_values(vv), complex_values(pp), values<const double>(s),
                  complex_values<T>(gradient), complex_results(dv), complex_results(dp), executor());
  });
  return {dv.to(v.options()), dp.to(poles.options())};
}

Tensor cauchy_meta(const Tensor& v, const Tensor& poles, const Tensor& points) {
  check_cauchy("cauchy", v, poles, points);
  return v.new_empty_symint({v.sym_size(0), v.sym_size(1), points.sym_size(0)});
}

Pair cauchy_backward_meta(const Tensor&, const Tensor& v, const Tensor& poles, const Tensor&) {
  return {at::empty_like(v, at::MemoryFormat::Contiguous), at::empty_like(poles, at::MemoryFormat::Contiguous)};
}

Tensor cauchy_autograd(const Tensor& v, const Tensor& poles, const Tensor& points) {
  return record(
      "cauchy", {v, poles}, {v, poles, points}, [&] { return variable_list{ops::cauchy(v, poles, points)}; },
      [](const variable_list& saved, const variable_list& gradients) -> variable_list {
        RTF_OPERATOR("cauchy_backward", Pair, const Tensor&, const Tensor&, const Tensor&, const Tensor&);
        const auto [dv, dp] = op.call(gradients[0], saved[0], saved[1], saved[2]);
        return {dv, dp};
      })[0];
}

}  // namespace

TORCH_LIBRARY_IMPL(rtf, CPU, m) {
  m.impl("cauchy", cauchy_cpu);
  m.impl("cauchy_backward", cauchy_backward_cpu);
}
TORCH_LIBRARY_IMPL(rtf, Meta, m) {
  m.impl("cauchy", cauchy_meta);
  m.impl("cauchy_backward", cauchy_backward_meta);
}
TORCH_LIBRARY_IMPL(rtf, Autograd, m) {
  m.impl("cauchy", cauchy_autograd);
  m.impl("cauchy_backward", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace rtf::ops
