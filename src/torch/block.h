// One residual block of the backbone, and its normalisation. Activations are (batch, length, channels).
#pragma once

#include <functional>

#include "rtf_torch/sequence_model.h"

namespace rtf::nn {

// Batch norm over every position, the padded ones included, or layer norm over the channels.
class NormalizationImpl : public torch::nn::Module {
 public:
  NormalizationImpl(Norm kind, int64_t channels);

  // What a block's layer gets, of type `dtype`, and x once more for the residual: its gradient is then added in the same
  // pass.
  struct Fork {
    at::Tensor normalized, x;
  };
  Fork fork(const at::Tensor& x, at::ScalarType dtype);
  at::Tensor forward(const at::Tensor& x) { return fork(x, x.scalar_type()).normalized; }

 private:
  at::Tensor evaluate(const at::Tensor& x) const;  // batch norm with the running statistics

  at::Tensor weight_, bias_;
  at::Tensor running_mean_, running_var_;  // of batch norm
};

class BlockImpl : public torch::nn::Module {
 public:
  BlockImpl(const SequenceModelOptions& model, int64_t index);

  at::Tensor forward(const at::Tensor& x, const std::optional<at::Tensor>& lengths, const at::Tensor& generator);
  // From `state`, which moves on.
  at::Tensor prefill(const at::Tensor& x, const Realization& realization, at::Tensor& state,
                     const at::Tensor& generator);
  at::Tensor step(const at::Tensor& x, const Realization& realization, at::Tensor& state, const at::Tensor& generator);

  RTF layer = nullptr;
  torch::nn::Linear output = nullptr;  // without the gate: none

 private:
  // The block around one way of running its layer.
  at::Tensor around(const std::function<at::Tensor(const at::Tensor&)>& run_layer, const at::Tensor& x,
                    const at::Tensor& generator);
  at::Tensor activate(const at::Tensor& y, const at::Tensor& generator) const;
  at::Tensor gate_and_add(const at::Tensor& x, const at::Tensor& y, const at::Tensor& generator);

  const int64_t index_;
  const Activation activation_;
  const bool prenorm_, residual_, bfloat16_;
  const double dropout_, inner_dropout_;
  const bool tie_dropout_, tie_inner_dropout_;
  std::shared_ptr<NormalizationImpl> norm_;  // null: none
};

}  // namespace rtf::nn
