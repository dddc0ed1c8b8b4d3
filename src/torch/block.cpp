#include "torch/block.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "rtf_torch/operators.h"
#include "torch/projection.h"

namespace rtf::nn {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr double kEpsilon = 1e-5;
constexpr double kMomentum = 0.1;

// The only place that knows every kind of layer.
std::shared_ptr<LayerImpl> make_layer(const SequenceModelOptions& model, int64_t index) {
  RTFOptions layer = model.layer;
  layer.seed = model.seed;
  layer.index = index;
  switch (model.kind) {
    case LayerKind::rtf:
      return std::make_shared<RTFImpl>(layer);
    case LayerKind::s4:
      return std::make_shared<S4Impl>(layer, model.baseline);
    case LayerKind::s4d:
      return std::make_shared<S4DImpl>(layer, model.baseline);
    case LayerKind::s5:
      return std::make_shared<S5Impl>(layer, model.baseline);
    case LayerKind::spacetime:
      return std::make_shared<SpaceTimeImpl>(layer, model.baseline);
  }
  TORCH_INTERNAL_ASSERT(false);
}

std::optional<Tensor> present(const Tensor& gradient) {
  return gradient.defined() ? std::optional(gradient) : std::nullopt;
}

// norm() with its two uses: (x, norm(x)) ahead of a layer, (norm(x), norm(x)) after a block. Autograd would add the two
// gradients in a pass of its own; either may be missing.
struct BatchNormFunction : torch::autograd::Function<BatchNormFunction> {
  static variable_list forward(AutogradContext* context, const Tensor& x, const Tensor& weight, const Tensor& bias,
                               const Tensor& running_mean, const Tensor& running_var, at::ScalarType samples,
                               bool ahead) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    context->set_materialize_grads(false);
    context->saved_data["ahead"] = ahead;
    auto [y, mean, variance] = ops::batch_norm(x, weight, bias, kEpsilon, running_mean, running_var, kMomentum,
                                               ahead ? samples : x.scalar_type());
    context->save_for_backward({x, weight, mean, variance});
    return {ahead ? x : y, ahead ? y : y.to(samples).alias()};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const Tensor &residual = gradients[0], &samples = gradients[1];
    const bool ahead = context->saved_data["ahead"].toBool();
    if (ahead && !samples.defined()) return {residual, Tensor(), Tensor(), Tensor(), Tensor(), Tensor(), Tensor()};
    const auto saved = context->get_saved_variables();
    const auto [dx, dw, db] = ops::batch_norm_backward(
        samples.defined() ? samples : residual, saved[0], saved[1], saved[2], saved[3], kEpsilon,
        !ahead && samples.defined() ? present(residual) : std::nullopt, ahead ? present(residual) : std::nullopt);
    return {dx, dw, db, Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

struct LayerNormFunction : torch::autograd::Function<LayerNormFunction> {
  static variable_list forward(AutogradContext* context, const Tensor& x, const Tensor& weight, const Tensor& bias,
                               at::ScalarType samples, bool ahead) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    context->set_materialize_grads(false);
    context->saved_data["ahead"] = ahead;
    auto [y, mean, inverse] = ops::layer_norm(x, weight, bias, kEpsilon, ahead ? samples : x.scalar_type());
    context->save_for_backward({x, weight, mean, inverse});
    return {ahead ? x : y, ahead ? y : y.to(samples).alias()};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const Tensor &residual = gradients[0], &samples = gradients[1];
    const bool ahead = context->saved_data["ahead"].toBool();
    if (ahead && !samples.defined()) return {residual, Tensor(), Tensor(), Tensor(), Tensor()};
    Tensor dy = samples.defined() ? samples : residual;
    if (!ahead && samples.defined() && residual.defined()) dy = residual + samples;
    const auto saved = context->get_saved_variables();
    const auto [dx, dw, db] =
        ops::layer_norm_backward(dy, saved[0], saved[1], saved[2], saved[3], ahead ? present(residual) : std::nullopt);
    return {dx, dw, db, Tensor(), Tensor()};
  }
};

}  // namespace

NormalizationImpl::NormalizationImpl(Norm kind, int64_t channels) {
  weight_ = register_parameter("weight", at::ones({channels}));
  bias_ = register_parameter("bias", at::zeros({channels}));
  if (kind == Norm::batch) {
    running_mean_ = register_buffer("running_mean", at::zeros({channels}));
    running_var_ = register_buffer("running_var", at::ones({channels}));
  }
}

Stream NormalizationImpl::run(const Tensor& x, at::ScalarType samples, bool ahead) {
  if (!running_mean_.defined()) {
    const auto both = LayerNormFunction::apply(x, weight_, bias_, samples, ahead);
    return {both[0], both[1]};
  }
  if (!is_training()) {
    const Tensor y = evaluate(x);
    return {ahead ? x : y, y.to(samples)};
  }
  TORCH_CHECK(x.numel() > x.size(-1), "[rtf::SequenceModel] batch norm in training mode over ", x.numel() / x.size(-1),
              " positions has no variance; at least 2 are needed");
  const auto both = BatchNormFunction::apply(x, weight_, bias_, running_mean_, running_var_, samples, ahead);
  return {both[0], both[1]};
}

Tensor NormalizationImpl::evaluate(const Tensor& x) const {
  const auto normalize = [&](const Tensor& image) {
    return at::batch_norm(image, weight_, bias_, running_mean_, running_var_, /*training=*/false, kMomentum, kEpsilon,
                          /*cudnn_enabled=*/false);
  };
  if (!x.is_cpu()) return normalize(x.transpose(1, 2)).transpose(1, 2);
  // (batch, length, channels) in memory is an image (batch, channels, length, 1) with its channels last: no copy.
  return normalize(x.unsqueeze(2).permute({0, 3, 1, 2})).permute({0, 2, 3, 1}).squeeze(2);
}

BlockImpl::BlockImpl(const SequenceModelOptions& model, int64_t index)
    : index_(index),
      activation_(model.activation),
      glu_(model.glu),
      prenorm_(model.prenorm),
      residual_(model.residual),
      bfloat16_(model.bfloat16),
      dropout_(model.dropout),
      inner_dropout_(model.inner_dropout),
      output_dropout_(model.output_dropout),
      tie_dropout_(model.tie_dropout),
      tie_inner_dropout_(model.tie_inner_dropout) {
  const int64_t channels = model.layer.channels;
  layer = register_module("layer", make_layer(model, index));
  if (model.residual && model.norm != Norm::none)
    norm_ = register_module("norm", std::make_shared<NormalizationImpl>(model.norm, channels));
  if (model.glu != Glu::none) {
    const int64_t outputs = model.glu == Glu::full ? 2 * channels : channels;
    output = register_module("output", torch::nn::Linear(channels, outputs));
  }
}

Tensor BlockImpl::activate(const Tensor& y, const Tensor& generator) const {
  const double p = is_training() ? inner_dropout_ : 0;
  const int64_t site = dropout_layer(index_, DropoutSite::inner);
  if (activation_ == Activation::gelu) return ops::gelu(y, p, generator, site, tie_inner_dropout_);
  return p > 0 ? ops::dropout(y, p, generator, site, tie_inner_dropout_) : y;
}

Tensor BlockImpl::gate_and_add(const Tensor& x, const Tensor& y, const Tensor& g, const Tensor& generator) {
  const double p = is_training() && residual_ ? dropout_ : 0;
  const int64_t site = dropout_layer(index_, DropoutSite::outer);
  if (glu_ != Glu::none) {
    const std::optional<Tensor> residual = residual_ ? std::optional(x) : std::nullopt;
    if (glu_ != Glu::full) {
      const Tensor gated = glu_ == Glu::half_glu1 ? g : y;
      return ops::glu(at::cat({gated, output->forward(g)}, -1), residual, p, generator, site, tie_dropout_);
    }
    if (g.is_cpu()) return ops::glu(output->forward(g), residual, p, generator, site, tie_dropout_);
    // On the GPU the gate adds the bias: one pass over twice the channels less.
    return ops::glu(project(g, output->weight), residual, p, generator, site, tie_dropout_, output->bias);
  }
  if (!residual_) return g;
  return x + (p > 0 ? ops::dropout(g, p, generator, site, tie_dropout_) : g);
}

Stream BlockImpl::begin(const Tensor& x) const { return {x, norm_ && prenorm_ ? x : x.to(samples(x))}; }

Stream BlockImpl::around(const std::function<Tensor(const Tensor&)>& run_layer, const Stream& in,
                         const Tensor& generator) {
  const Stream stream = norm_ && prenorm_ ? norm_->ahead(in.x, samples(in.x)) : in;
  Tensor y = run_layer(stream.samples);
  if (is_training() && output_dropout_ > 0)
    y = ops::dropout(y, output_dropout_, generator, dropout_layer(index_, DropoutSite::output), /*tied=*/true);
  const Tensor sum = gate_and_add(stream.x, y, activate(y, generator), generator).to(in.x.scalar_type());
  if (norm_ && !prenorm_) return norm_->after(sum, samples(sum));
  // A norm ahead of the next layer makes its samples.
  return {sum, norm_ ? sum : sum.to(samples(sum))};
}

Stream BlockImpl::forward(const Stream& in, const std::optional<Tensor>& lengths, const Tensor& generator) {
  return around([&](const Tensor& u) { return layer->forward(u, lengths, generator); }, in, generator);
}

Stream BlockImpl::prefill(const Stream& in, const Realization& realization, Tensor& state, const Tensor& generator) {
  const auto run_layer = [&](const Tensor& u) {
    Tensor y;
    std::tie(y, state) = layer->prefill(realization, u, state);
    return y;
  };
  return around(run_layer, in, generator);
}

Stream BlockImpl::step(const Stream& in, const Realization& realization, Tensor& state, const Tensor& generator) {
  const auto run_layer = [&](const Tensor& u) {
    Tensor y;
    std::tie(y, state) = layer->step(realization, u.squeeze(1), state);
    return y.unsqueeze(1);
  };
  return around(run_layer, in, generator);
}

}  // namespace rtf::nn
