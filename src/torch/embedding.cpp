// embedding and spread: tokens and numbers as signals. On the GPU they write one whose samples lie side by side, which
// torch's own operators do not.
#include <torch/library.h>

#include "torch/bridge.h"
#include "torch/dispatch.h"
#include "torch/tape.h"

namespace rtf::ops {
namespace {

void check_shapes(const Tensor& tokens, const Tensor& weight) {
  TORCH_CHECK_VALUE(
      tokens.dim() == 2 && weight.dim() == 2 && weight.sym_numel() > 0 && tokens.scalar_type() == at::kLong,
      "[rtf::embedding] tokens, ", tokens.scalar_type(), ", and weight have shapes ", tokens.sym_sizes(), " and ",
      weight.sym_sizes(), "; (batch, length) of type Long and (vocabulary, channels) are needed");
}

Tensor embedding_cpu(const Tensor& tokens, const Tensor& weight) {
  check_shapes(tokens, weight);
  return at::embedding(weight, tokens);
}

// On the CPU, and on every device where a derivative of the gradient is wanted; spread_backward_by_torch likewise.
Tensor embedding_backward_by_torch(const Tensor& dy, const Tensor& tokens, c10::SymInt vocabulary) {
  return at::embedding_dense_backward_symint(dy, tokens, vocabulary, /*padding_idx=*/-1,
                                             /*scale_grad_by_freq=*/false);
}

Tensor embedding_meta(const Tensor& tokens, const Tensor& weight) {
  check_shapes(tokens, weight);
  return at::empty_symint({tokens.sym_size(0), tokens.sym_size(1), weight.sym_size(1)}, weight.options());
}

Tensor backward_meta(const Tensor& dy, const Tensor&, c10::SymInt vocabulary) {
  return at::empty_symint({vocabulary, dy.sym_size(2)}, dy.options());
}

Tensor embedding_backward(const Tensor& dy, const Tensor& tokens, c10::SymInt vocabulary) {
  RTF_OPERATOR("embedding_backward", Tensor, const Tensor&, const Tensor&, c10::SymInt);
  return op.call(dy, tokens, std::move(vocabulary));
}

Tensor embedding_backward_autograd(const Tensor& dy, const Tensor& tokens, c10::SymInt vocabulary) {
  return either(
      "embedding_backward", {dy}, [&] { return embedding_backward(dy, tokens, vocabulary); },
      [&] { return embedding_backward_by_torch(dy, tokens, vocabulary); });
}

Tensor embedding_autograd(const Tensor& tokens, const Tensor& weight) {
  return record(
      "embedding", {weight}, {tokens}, [&] { return variable_list{ops::embedding(tokens, weight)}; },
      [vocabulary = weight.sym_size(0)](const variable_list& saved, const variable_list& gradients) {
        return variable_list{embedding_backward(gradients[0], saved[0], vocabulary)};
      })[0];
}

void check_spread(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  TORCH_CHECK_VALUE(x.dim() == 2 && weight.dim() == 1 && weight.sym_sizes() == bias.sym_sizes(),
                    "[rtf::spread] x, weight and bias have shapes ", x.sym_sizes(), ", ", weight.sym_sizes(), ", ",
                    bias.sym_sizes(), "; (batch, length), (channels), (channels) are needed");
}

Tensor spread_cpu(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  check_spread(x, weight, bias);
  return at::addcmul(bias, x.contiguous().unsqueeze(2), weight);
}

// dx is empty where it is not wanted: a model's input has no gradient.
Triple spread_backward_by_torch(const Tensor& dy, const Tensor& x, const Tensor& weight, bool want_dx) {
  check_spread(x, weight, weight);
  return {want_dx ? dy.matmul(weight) : at::empty({0}, x.options()), at::einsum("blc,bl->c", {dy, x}),
          dy.sum(at::IntArrayRef{0, 1})};
}

Tensor spread_meta(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  check_spread(x, weight, bias);
  return at::empty_symint({x.sym_size(0), x.sym_size(1), weight.sym_size(0)}, x.options());
}

Triple spread_backward_meta(const Tensor&, const Tensor& x, const Tensor& weight, bool want_dx) {
  return {want_dx ? at::empty_symint(x.sym_sizes(), x.options()) : at::empty({0}, x.options()), at::empty_like(weight),
          at::empty_like(weight)};
}

Triple spread_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, bool want_dx) {
  RTF_OPERATOR("spread_backward", Triple, const Tensor&, const Tensor&, const Tensor&, bool);
  return op.call(dy, x, weight, want_dx);
}

Triple spread_backward_autograd(const Tensor& dy, const Tensor& x, const Tensor& weight, bool want_dx) {
  return either(
      "spread_backward", {dy, x, weight}, [&] { return spread_backward(dy, x, weight, want_dx); },
      [&] { return spread_backward_by_torch(dy, x, weight, want_dx); });
}

Tensor spread_autograd(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return record(
      "spread", {x, weight, bias}, {x, weight}, [&] { return variable_list{ops::spread(x, weight, bias)}; },
      [want_dx = x.requires_grad()](const variable_list& saved, const variable_list& gradients) -> variable_list {
        const auto [dx, dw, db] = spread_backward(gradients[0], saved[0], saved[1], want_dx);
        return {want_dx ? dx : Tensor(), dw, db};
      })[0];
}

}  // namespace

TORCH_LIBRARY_IMPL(rtf, CPU, m) {
  m.impl("embedding", embedding_cpu);
  m.impl("embedding_backward", embedding_backward_by_torch);
  m.impl("spread", spread_cpu);
  m.impl("spread_backward", spread_backward_by_torch);
}
TORCH_LIBRARY_IMPL(rtf, Meta, m) {
  m.impl("embedding", embedding_meta);
  m.impl("embedding_backward", backward_meta);
  m.impl("spread", spread_meta);
  m.impl("spread_backward", spread_backward_meta);
}
TORCH_LIBRARY_IMPL(rtf, Autograd, m) {
  m.impl("embedding", embedding_autograd);
  m.impl("embedding_backward", embedding_backward_autograd);
  m.impl("spread", spread_autograd);
  m.impl("spread_backward", spread_backward_autograd);
}

}  // namespace rtf::ops
