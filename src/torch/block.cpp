#include "torch/block.h"

#include <ATen/ATen.h>

#include "rtf_torch/operators.h"

namespace rtf::nn {
namespace {

using at::Tensor;

constexpr double kEpsilon = 1e-5;
constexpr double kMomentum = 0.1;

RTFOptions layer_options(const SequenceModelOptions& model, int64_t index) {
  RTFOptions layer = model.layer;
  layer.seed = model.seed;
  layer.index = index;
  return layer;
}

}  // namespace

NormalizationImpl::NormalizationImpl(Norm kind, int64_t channels) {
  weight_ = register_parameter("weight", at::ones({channels}));
  bias_ = register_parameter("bias", at::zeros({channels}));
  if (kind == Norm::batch) {
    running_mean_ = register_buffer("running_mean", at::zeros({channels}));
    running_var_ = register_buffer("running_var", at::ones({channels}));
  }
}

Tensor NormalizationImpl::forward(const Tensor& x) {
  if (!running_mean_.defined()) return at::layer_norm(x, weight_.sizes(), weight_, bias_, kEpsilon);
  if (is_training()) {
    const double positions = static_cast<double>(x.numel() / x.size(-1));
    TORCH_CHECK(positions > 1, "[rtf::SequenceModel] batch norm in training mode over ", positions,
                " positions has no variance; at least 2 are needed");
    auto [y, mean, variance] = ops::batch_norm(x, weight_, bias_, kEpsilon);
    const at::NoGradGuard no_grad;
    running_mean_.lerp_(mean.to(running_mean_.scalar_type()), kMomentum);
    // The average is of unbiased variances, as torch's own.
    running_var_.lerp_((variance * (positions / (positions - 1))).to(running_var_.scalar_type()), kMomentum);
    return y;
  }
  // (batch, length, channels) in memory is an image (batch, channels, length, 1) with its channels last: no copy.
  const Tensor image = x.unsqueeze(2).permute({0, 3, 1, 2});
  return at::batch_norm(image, weight_, bias_, running_mean_, running_var_, /*training=*/false, kMomentum, kEpsilon,
                        /*cudnn_enabled=*/false)
      .permute({0, 2, 3, 1})
      .squeeze(2);
}

BlockImpl::BlockImpl(const SequenceModelOptions& model, int64_t index)
    : index_(index),
      activation_(model.activation),
      prenorm_(model.prenorm),
      residual_(model.residual),
      dropout_(model.dropout),
      inner_dropout_(model.inner_dropout),
      tie_dropout_(model.tie_dropout),
      tie_inner_dropout_(model.tie_inner_dropout) {
  const int64_t channels = model.layer.channels;
  layer = register_module("layer", RTF(layer_options(model, index)));
  if (model.residual && model.norm != Norm::none)
    norm_ = register_module("norm", std::make_shared<NormalizationImpl>(model.norm, channels));
  if (model.glu) output = register_module("output", torch::nn::Linear(channels, 2 * channels));
}

Tensor BlockImpl::activate(const Tensor& y, const Tensor& generator) const {
  const double p = is_training() ? inner_dropout_ : 0;
  const int64_t site = dropout_layer(index_, DropoutSite::inner);
  if (activation_ == Activation::gelu) return ops::gelu(y, p, generator, site, tie_inner_dropout_);
  return p > 0 ? ops::dropout(y, p, generator, site, tie_inner_dropout_) : y;
}

Tensor BlockImpl::gate_and_add(const Tensor& x, const Tensor& y, const Tensor& generator) {
  const double p = is_training() && residual_ ? dropout_ : 0;
  const int64_t site = dropout_layer(index_, DropoutSite::outer);
  if (output) {
    const std::optional<Tensor> residual = residual_ ? std::optional(x) : std::nullopt;
    return ops::glu(output->forward(y), residual, p, generator, site, tie_dropout_);
  }
  if (!residual_) return y;
  return x + (p > 0 ? ops::dropout(y, p, generator, site, tie_dropout_) : y);
}

Tensor BlockImpl::around(const std::function<Tensor(const Tensor&)>& run_layer, const Tensor& x,
                         const Tensor& generator) {
  const Tensor y = run_layer(norm_ && prenorm_ ? norm_->forward(x) : x);
  const Tensor sum = gate_and_add(x, activate(y, generator), generator);
  return norm_ && !prenorm_ ? norm_->forward(sum) : sum;
}

Tensor BlockImpl::forward(const Tensor& x, const std::optional<Tensor>& lengths, const Tensor& generator) {
  return around([&](const Tensor& u) { return layer->forward(u, lengths, generator); }, x, generator);
}

Tensor BlockImpl::prefill(const Tensor& x, const Realization& realization, Tensor& state, const Tensor& generator) {
  const auto run_layer = [&](const Tensor& u) {
    Tensor y;
    std::tie(y, state) = RTFImpl::prefill(realization, u, state);
    return y;
  };
  return around(run_layer, x, generator);
}

Tensor BlockImpl::step(const Tensor& x, const Realization& realization, Tensor& state, const Tensor& generator) {
  const auto run_layer = [&](const Tensor& u) {
    Tensor y;
    std::tie(y, state) = RTFImpl::step(realization, u.squeeze(1), state);
    return y.unsqueeze(1);
  };
  return around(run_layer, x, generator);
}

}  // namespace rtf::nn
