// embedding and spread on the GPU.
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
  const Tensor y = at::empty({tokens.size(0), weight.size(1), tokens.size(1)}, weight.options()).transpose(1, 2);
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

// Up to this many rows, and numbers of the indicator, a product with the indicator of each token costs less than
// sorting the tokens. Both add in a fixed order, and leave tokens outside the vocabulary out.
constexpr int64_t small_vocabulary = 1024;
constexpr int64_t largest_indicator = int64_t{1} << 28;

Tensor embedding_backward_cuda(const Tensor& dy, const Tensor& tokens, c10::SymInt symbolic) {
  const int64_t vocabulary = symbolic.expect_int();
  check_device("embedding_backward", "tokens", tokens, "dy", dy);
  const Device device(dy);
  if (vocabulary > small_vocabulary || tokens.numel() * vocabulary > largest_indicator) {
    const Tensor known = at::where((tokens >= 0) & (tokens < vocabulary), tokens, -1);
    return at::embedding_dense_backward(dy.contiguous(), known.contiguous(), vocabulary, /*padding_idx=*/-1,
                                        /*scale_grad_by_freq=*/false);
  }
  const at::NoTF32Guard full_precision;  // this is a sum, not a product that may be rounded
  const Tensor indicator = (tokens.unsqueeze(2) == at::arange(vocabulary, tokens.options())).to(dy.scalar_type());
  return at::bmm(dy.transpose(1, 2), indicator).sum(0).t().contiguous();
}

void check_spread(const char* operation, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  TORCH_CHECK_VALUE(x.dim() == 2 && weight.dim() == 1 && weight.sizes() == bias.sizes(), "[rtf::", operation,
                    "] x, weight and bias have shapes ", x.sizes(), ", ", weight.sizes(), ", ", bias.sizes(),
                    "; (batch, length), (channels), (channels) are needed");
  check_device(operation, "the weight", weight, "x", x);
  check_device(operation, "the bias", bias, "x", x);
}

cuda::SpreadArguments spread_arguments(const char* operation, const Tensor& x, int64_t channels) {
  cuda::SpreadArguments arguments;
  arguments.batch = x.size(0);
  arguments.length = x.size(1);
  arguments.channels = channels;
  arguments.type = element_type(operation, x.scalar_type());
  arguments.x = x.data_ptr();
  return arguments;
}

Tensor spread_cuda(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  check_spread("spread", x, weight, bias);
  const Tensor in = x.contiguous(), w = weight.to(x.scalar_type()).contiguous();
  const Tensor b = bias.to(x.scalar_type()).contiguous();
  const Tensor y = at::empty({x.size(0), w.size(0), x.size(1)}, x.options()).transpose(1, 2);
  auto arguments = spread_arguments("spread", in, w.size(0));
  const Device device(x);
  arguments.stream = device;
  if (y.numel() > 0) call([&] { cuda::spread(arguments, w.data_ptr(), b.data_ptr(), y.data_ptr()); });
  return y;
}

Triple spread_backward_cuda(const Tensor& dy, const Tensor& x, const Tensor& weight, bool want_dx) {
  check_spread("spread_backward", x, weight, weight);
  check_shape("spread_backward", "dy", dy, {x.size(0), x.size(1), weight.size(0)});
  check_device("spread_backward", "dy", dy, "x", x);
  const Tensor in = x.contiguous(), gradient = packed(dy.to(x.scalar_type()));
  const Tensor dw = at::empty(weight.sizes(), x.options().dtype(compute_type("spread_backward", x.scalar_type())));
  const Tensor db = at::empty_like(dw);
  auto arguments = spread_arguments("spread_backward", in, dw.size(0));
  const Device device(x);
  arguments.stream = device;
  if (gradient.numel() > 0) {
    const c10::DataPtr space = workspace(cuda::spread_backward_workspace_bytes(arguments), device);
    call([&] { cuda::spread_backward(arguments, gradient.data_ptr(), dw.data_ptr(), db.data_ptr(), space.get()); });
  } else {
    dw.zero_();
    db.zero_();
  }
  const Tensor dx = want_dx ? gradient.matmul(weight.to(x.scalar_type())) : at::empty({0}, x.options());
  return {dx, dw.to(weight.scalar_type()), db.to(weight.scalar_type())};
}

}  // namespace

TORCH_LIBRARY_IMPL(rtf, CUDA, m) {
  m.impl("embedding", embedding_cuda);
  m.impl("embedding_backward", embedding_backward_cuda);
  m.impl("spread", spread_cuda);
  m.impl("spread_backward", spread_backward_cuda);
}

}  // namespace rtf::ops
