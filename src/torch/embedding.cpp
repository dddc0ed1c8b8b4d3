// embedding: rows of a table. On the GPU it writes a signal whose samples lie side by side, which torch's own does not.
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "torch/bridge.h"
#include "torch/dispatch.h"

namespace rtf::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

void check_shapes(const Tensor& tokens, const Tensor& weight) {
  TORCH_CHECK_VALUE(tokens.dim() == 2 && weight.dim() == 2 && weight.sym_numel() > 0 && tokens.scalar_type() == at::kLong,
                    "[rtf::embedding] tokens, ", tokens.scalar_type(), ", and weight have shapes ", tokens.sym_sizes(),
                    " and ", weight.sym_sizes(), "; (batch, length) of type Long and (vocabulary, channels) are needed");
}

Tensor embedding_cpu(const Tensor& tokens, const Tensor& weight) {
  check_shapes(tokens, weight);
  return at::embedding(weight, tokens);
}

Tensor embedding_backward_cpu(const Tensor& dy, const Tensor& tokens, c10::SymInt vocabulary) {
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

struct EmbeddingFunction : torch::autograd::Function<EmbeddingFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& tokens, const Tensor& weight) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    context->save_for_backward({tokens});
    context->saved_data["vocabulary"] = weight.sym_size(0);
    return ops::embedding(tokens, weight);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    RTF_OPERATOR("embedding_backward", Tensor, const Tensor&, const Tensor&, c10::SymInt);
    return {Tensor(), op.call(gradients[0], context->get_saved_variables()[0],
                              context->saved_data["vocabulary"].toSymInt())};
  }
};

Tensor embedding_autograd(const Tensor& tokens, const Tensor& weight) {
  return EmbeddingFunction::apply(tokens, weight);
}

}  // namespace

TORCH_LIBRARY_IMPL(rtf, CPU, m) {
  m.impl("embedding", embedding_cpu);
  m.impl("embedding_backward", embedding_backward_cpu);
}
TORCH_LIBRARY_IMPL(rtf, Meta, m) {
  m.impl("embedding", embedding_meta);
  m.impl("embedding_backward", backward_meta);
}
TORCH_LIBRARY_IMPL(rtf, Autograd, m) {
  m.impl("embedding", embedding_autograd);
  m.impl("embedding_backward", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace rtf::ops
