// vandermonde: kernels of diagonal systems.
#include "rtf/vandermonde.h"

#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>

#include "torch/bridge.h"
#include "torch/complex_values.h"
#include "torch/dispatch.h"
#include "torch/tape.h"

namespace rtf::ops {
namespace {

Tensor vandermonde_cpu(const Tensor& c, const Tensor& log_z, int64_t length) {
  check_pairs("vandermonde", c, log_z);
  const std::size_t samples = length_of("vandermonde", length);
  const Tensor k = at::empty({c.size(0), length}, c.options().dtype(c10::toRealValueType(c.scalar_type())));
  const Tensor cc = wide(c), z = wide(log_z);
  if (k.numel() == 0) return k;
  with_type(k.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    rtf::vandermonde<T>(complex_values(cc), complex_values(z), c.size(1), samples, values<T>(k), executor());
  });
  return k;
}

Pair vandermonde_backward_cpu(const Tensor& dk, const Tensor& c, const Tensor& log_z) {
  check_pairs("vandermonde_backward", c, log_z);
  check_kernel_gradient("vandermonde_backward", dk, c);
  const Tensor gradient = dk.to(c10::toRealValueType(c.scalar_type())).contiguous();
  const Tensor cc = wide(c), z = wide(log_z);
  const Tensor dc = at::empty_like(cc), dz = at::empty_like(z);
  if (c.numel() > 0)
    with_type(gradient.scalar_type(), [&](auto zero) {
      using T = decltype(zero);
      vandermonde_vjp<T>(complex_values(cc), complex_values(z), c.size(1), dk.size(1), values<const T>(gradient),
                         complex_results(dc), complex_results(dz), executor());
    });
  return {dc.to(c.options()), dz.to(log_z.options())};
}

Tensor vandermonde_meta(const Tensor& c, const Tensor& log_z, c10::SymInt length) {
  check_pairs("vandermonde", c, log_z);
  return c.new_empty_symint({c.sym_size(0), std::move(length)},
                            c.options().dtype(c10::toRealValueType(c.scalar_type())));
}

Pair vandermonde_backward_meta(const Tensor&, const Tensor& c, const Tensor& log_z) {
  return {at::empty_like(c, at::MemoryFormat::Contiguous), at::empty_like(log_z, at::MemoryFormat::Contiguous)};
}

Tensor vandermonde_autograd(const Tensor& c, const Tensor& log_z, c10::SymInt length) {
  return record(
      "vandermonde", {c, log_z}, {c, log_z}, [&] { return variable_list{ops::vandermonde(c, log_z, length)}; },
      [](const variable_list& saved, const variable_list& gradients) -> variable_list {
        RTF_OPERATOR("vandermonde_backward", Pair, const Tensor&, const Tensor&, const Tensor&);
        const auto [dc, dz] = op.call(gradients[0], saved[0], saved[1]);
        return {dc, dz};
      })[0];
}

}  // namespace

TORCH_LIBRARY_IMPL(rtf, CPU, m) {
  m.impl("vandermonde", vandermonde_cpu);
  m.impl("vandermonde_backward", vandermonde_backward_cpu);
}
TORCH_LIBRARY_IMPL(rtf, Meta, m) {
  m.impl("vandermonde", vandermonde_meta);
  m.impl("vandermonde_backward", vandermonde_backward_meta);
}
TORCH_LIBRARY_IMPL(rtf, Autograd, m) {
  m.impl("vandermonde", vandermonde_autograd);
  m.impl("vandermonde_backward", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace rtf::ops
