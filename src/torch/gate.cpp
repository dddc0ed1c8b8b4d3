// gate: what stands behind the layer of an S4 block, GLU(W dropout(GELU(y)) + bias), as one node of autograd. On a
// small model the host needs as long for each node as the GPU for its numbers.
#include <ATen/ATen.h>
#include <torch/library.h>

#include "torch/activation.h"
#include "torch/bridge.h"
#include "torch/dispatch.h"
#include "torch/projection.h"
#include "torch/tape.h"

namespace rtf::ops {
namespace {

void check(const char* operation, const Tensor& y, const Tensor& weight, const Tensor& bias) {
  compute_type(operation, weight.scalar_type());  // refuses what the operators do not compute in
  check_signal(operation, "y", y);
  const auto channels = y.sym_size(2);
  TORCH_CHECK_VALUE(weight.dim() == 2 && weight.sym_size(0) == 2 * channels && weight.sym_size(1) == channels,
                    "[rtf::", operation, "] the weight has shape ", weight.sym_sizes(), "; (", 2 * channels, ", ",
                    channels, ") is needed");
  TORCH_CHECK_VALUE(bias.dim() == 1 && bias.sym_size(0) == 2 * channels, "[rtf::", operation, "] the bias has shape ",
                    bias.sym_sizes(), "; (", 2 * channels, ") is needed");
  for (const Tensor& parameter : {weight, bias})
    TORCH_CHECK_VALUE(parameter.device() == y.device(), "[rtf::", operation, "] a parameter is on ", parameter.device(),
                      " and y on ", y.device(), "; move them to one device");
}

// Where the samples of a row lie side by side, glu adds the bias, which saves a pass over twice the channels. Elsewhere
// the product does.
bool rows_side_by_side(const Tensor& g) { return g.sym_size(1) != 1 && g.sym_stride(1) == 1; }

OptionalTensor bias_of_glu(const Tensor& g, const Tensor& bias) {
  return rows_side_by_side(g) ? OptionalTensor(bias) : std::nullopt;
}

// z is the product, which has the type of the weight: autocast would choose another.
using WithoutAutocast = c10::impl::ExcludeDispatchKeyGuard;

Triple compute(const Tensor& y, const Tensor& weight, const Tensor& bias, double p, const Tensor& generator,
               int64_t layer, bool tied) {
  const WithoutAutocast guard(c10::autocast_dispatch_keyset);
  check("gate", y, weight, bias);
  const Tensor g = ops::gelu(y, p, generator, layer, tied), in = g.to(weight.scalar_type());
  const Tensor z = rows_side_by_side(in) ? nn::product(in, weight) : at::linear(in, weight, bias.to(in.scalar_type()));
  return {ops::glu(z, {}, 0, generator, layer, false, bias_of_glu(in, bias)), g, z};
}

Triple compute_backward(const Tensor& dout, const Tensor& y, const Tensor& weight, const Tensor& bias, const Tensor& g,
                        const Tensor& z, double p, const Tensor& generator, int64_t layer, bool tied) {
  const WithoutAutocast guard(c10::autocast_dispatch_keyset);
  check("gate_backward", y, weight, bias);
  const Tensor in = g.to(weight.scalar_type());
  auto [dz, db] = glu_backward(dout, z, 0, generator, layer, false, bias_of_glu(in, bias));
  Tensor dg, dw;
  if (rows_side_by_side(in)) {
    dg = nn::product_to_x(dz, weight);
    dw = nn::product_to_weight(dz, in);
  } else {
    const Tensor gradient = dz.flatten(0, 1);
    dg = at::matmul(dz, weight);
    dw = gradient.t().mm(in.flatten(0, 1));
    db = gradient.sum(0).to(bias.scalar_type());
  }
  return {gelu_backward(dg, y, p, generator, layer, tied), dw.to(weight.scalar_type()), db};
}

Triple call_backward(const Tensor& dout, const Tensor& y, const Tensor& weight, const Tensor& bias, const Tensor& g,
                     const Tensor& z, double p, const Tensor& generator, int64_t layer, bool tied) {
  RTF_OPERATOR("gate_backward", Triple, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
               const Tensor&, double, const Tensor&, int64_t, bool);
  return op.call(dout, y, weight, bias, g, z, p, generator, layer, tied);
}

Triple gate_autograd(const Tensor& y, const Tensor& weight, const Tensor& bias, double p, const Tensor& generator,
                     int64_t layer, bool tied) {
  const auto result = record(
      "gate", {y, weight, bias}, {y, weight, bias, generator},
      [&]() -> variable_list {
        RTF_OPERATOR("gate", Triple, const Tensor&, const Tensor&, const Tensor&, double, const Tensor&, int64_t, bool);
        auto [out, g, z] = op.call(y, weight, bias, p, generator, layer, tied);
        return {out, g, z};
      },
      [p, layer, tied](const variable_list& saved, const variable_list& gradients) -> variable_list {
        auto [dy, dw, db] =
            call_backward(gradients[0], saved[0], saved[1], saved[2], saved[4], saved[5], p, saved[3], layer, tied);
        return {dy, dw, db};
      },
      /*differentiable=*/1);
  return {result[0], result[1], result[2]};
}

// For second derivatives g and z are computed once more, by what has them.
Triple gate_backward_autograd(const Tensor& dout, const Tensor& y, const Tensor& weight, const Tensor& bias,
                              const Tensor& g, const Tensor& z, double p, const Tensor& generator, int64_t layer,
                              bool tied) {
  return either(
      "gate_backward", {dout, y, weight, bias},
      [&] { return call_backward(dout, y, weight, bias, g, z, p, generator, layer, tied); },
      [&] {
        const auto [_, again_g, again_z] = compute(y, weight, bias, p, generator, layer, tied);
        return compute_backward(dout, y, weight, bias, again_g, again_z, p, generator, layer, tied);
      });
}

}  // namespace

TORCH_LIBRARY_IMPL(rtf, CompositeExplicitAutograd, m) {
  m.impl("gate", compute);
  m.impl("gate_backward", compute_backward);
}
TORCH_LIBRARY_IMPL(rtf, Autograd, m) {
  m.impl("gate", gate_autograd);
  m.impl("gate_backward", gate_backward_autograd);
}

}  // namespace rtf::ops
