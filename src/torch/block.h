// One residual block of the backbone, and its normalisation. Activations are (batch, length, channels).
#pragma once

#include <functional>

#include "rtf_torch/sequence_model.h"

namespace rtf::nn {

// What goes from block to block, twice: x as the residual, and as what the next layer reads, in the type of its
// samples. Gradients to the two are then added in a pass that is made anyway.
struct Stream {
  at::Tensor x, samples;
};

// Batch norm over every position, the padded ones included, or layer norm over the channels.
class NormalizationImpl : public torch::nn::Module {
 public:
  NormalizationImpl(Norm kind, int64_t channels);

  at::Tensor forward(const at::Tensor& x) { return ahead(x, x.scalar_type()).samples; }
  // x and norm(x): ahead of a layer.
  Stream ahead(const at::Tensor& x, at::ScalarType samples) { return run(x, samples, /*ahead=*/true); }
  // norm(x) and norm(x): after a block.
  Stream after(const at::Tensor& x, at::ScalarType samples) { return run(x, samples, /*ahead=*/false); }

 private:
  Stream run(const at::Tensor& x, at::ScalarType samples, bool ahead);
  at::Tensor evaluate(const at::Tensor& x) const;  // batch norm with the running statistics

  at::Tensor weight_, bias_;
  at::Tensor running_mean_, running_var_;  // of batch norm
};

class BlockImpl : public torch::nn::Module {
 public:
  BlockImpl(const SequenceModelOptions& model, int64_t index);

  // What the first block reads, of the encoder's x.
  Stream begin(const at::Tensor& x) const;

  Stream forward(const Stream& in, const std::optional<at::Tensor>& lengths, const at::Tensor& generator);
  // From `state`, which moves on.
  Stream prefill(const Stream& in, const Realization& realization, at::Tensor& state, const at::Tensor& generator);
  Stream step(const Stream& in, const Realization& realization, at::Tensor& state, const at::Tensor& generator);

  std::shared_ptr<LayerImpl> layer;
  torch::nn::Linear output = nullptr;  // without the gate: none

 private:
  // The block around one way of running its layer.
  Stream around(const std::function<at::Tensor(const at::Tensor&)>& run_layer, const Stream& in,
                const at::Tensor& generator);
  at::ScalarType samples(const at::Tensor& x) const { return bfloat16_ ? at::kBFloat16 : x.scalar_type(); }
  at::Tensor activate(const at::Tensor& y, const at::Tensor& generator) const;
  // The gate over g, what is activated of the layer's output y, and the residual x.
  at::Tensor gate_and_add(const at::Tensor& x, const at::Tensor& y, const at::Tensor& g, const at::Tensor& generator);

  const int64_t index_;
  const Activation activation_;
  const Glu glu_;
  const bool prenorm_, residual_, bfloat16_;
  const double dropout_, inner_dropout_, output_dropout_;
  const bool tie_dropout_, tie_inner_dropout_;
  std::shared_ptr<NormalizationImpl> norm_;  // null: none
};

}  // namespace rtf::nn
