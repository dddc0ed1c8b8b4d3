// embedding on the GPU.
#include "cuda/embedding.h"

#include <torch/library.h>

#include "torch/cuda/elements.h"
#include "torch/dispatch.h"

namespace rtf::ops {
namespace {

Tensor embedding_cuda(const Tensor& tokens, const Tensor& weight) {
  TORCH_CHECK_VALUE(tokens.dim() == 2 && weight.dim() == 2 && weight.numel() > 0 && tokens.scalar_type() == at::kLong,
                    "[rtf::embedding] tokens, ", tokens.scalar_type(), ", and weight have shapes ", tokens.sizes(),
                    " and ", weight.sizes(), "; (batch, length) of type Long and (vocabulary, channels) are needed");
  check_device("embedding", "tokens", tokens, "weight", weight);
  const Tensor indices = tokens.contiguous(), rows = weight.contiguous();
  const Tensor y =
      at::empty({tokens.size(0), weight.size(1), tokens.size(1)}, weight.options()).transpose(1, 2);
  cuda::EmbeddingArguments arguments;
  arguments.batch = y.size(0);
  arguments.length = y.size(1);
  arguments.channels = y.size(2);
  arguments.vocabulary = weight.size(0);
  arguments.type = element_type("embedding", weight.scalar_type());
  arguments.tokens = indices.const_data_ptr<int64_t>();
  arguments.weight = rows.data_ptr();
  arguments.y = y.data_ptr();
  const Device device(weight);
  arguments.stream = device;
  if (y.numel() > 0) call([&] { cuda::embedding(arguments); });
  return y;
}

// Up to this many rows a product with the indicator of each token costs less than sorting the tokens. Both add in a fixed
// order.
constexpr int64_t small_vocabulary = 1024;

Tensor embedding_backward_cuda(const Tensor& dy, const Tensor& tokens, c10::SymInt symbolic) {
  const int64_t vocabulary = symbolic.expect_int();
  if (vocabulary > small_vocabulary)
    return at::embedding_dense_backward(dy.contiguous(), tokens, vocabulary, /*padding_idx=*/-1,
                                        /*scale_grad_by_freq=*/false);
  const Tensor indicator =
      (tokens.unsqueeze(2) == at::arange(vocabulary, tokens.options())).to(dy.scalar_type());
  return at::bmm(dy.transpose(1, 2), indicator).sum(0).t().contiguous();
}

}  // namespace

TORCH_LIBRARY_IMPL(rtf, CUDA, m) {
  m.impl("embedding", embedding_cuda);
  m.impl("embedding_backward", embedding_backward_cuda);
}

}  // namespace rtf::ops
