// The trainable layer: u (batch, length, channels) -> y of the same shape, by convolution with a rational kernel.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include "rtf/init.h"

namespace rtf::nn {

// What every kind of layer has.
struct LayerOptions {
  int64_t channels = 0;
  int64_t order = 64;        // state size
  int64_t length = 0;        // the longest input, and where a wrapped numerator is trained
  int64_t denominators = 1;  // how many different ones, or different systems; divides channels
  bool bidirectional = false;
  uint64_t seed = 0;  // of the initial numbers
  int64_t index = 0;  // which layer of the model: its own random numbers
};

// The places of a layer that drop, each with random numbers of its own: `layer` of ops::dropout is dropout_layer().
// The output of a layer is dropped from where its kernel is not.
enum class DropoutSite { kernel, inner, outer, output = kernel };
inline int64_t dropout_layer(int64_t index, DropoutSite site) { return 3 * index + static_cast<int64_t>(site); }

// What step and prefill run on, float64 or complex128; of RTF a, b and h0 of a plain numerator.
using Realization = std::vector<at::Tensor>;

struct PoleReport {
  double radius = 0;               // of the outermost pole
  double min_abs_denominator = 0;  // smallest |A| over the points of the transform
  int64_t unstable = 0;  // denominators with a pole on or outside the circle, or with a coefficient not finite
};

// A layer of the backbone, whatever its parameters are.
class LayerImpl : public torch::nn::Module {
 public:
  virtual LayerOptions& sizes() = 0;
  const LayerOptions& sizes() const { return const_cast<LayerImpl*>(this)->sizes(); }

  // Any length up to that of the options. `generator` (seed, step) draws the kernel dropout of training mode.
  virtual at::Tensor forward(const at::Tensor& u, const std::optional<at::Tensor>& lengths = {},
                             const std::optional<at::Tensor>& generator = {}) = 0;
  virtual at::Tensor kernel(int64_t length) const = 0;  // (channels, length), or (2, channels, length)

  // Causal layers: from a state, float64, whose first size is the batch.
  virtual Realization realize() const = 0;  // differentiable
  virtual at::Tensor zero_state(int64_t batch) const = 0;
  virtual std::tuple<at::Tensor, at::Tensor> prefill(const Realization& at, const at::Tensor& u,
                                                     const at::Tensor& state) const = 0;
  virtual std::tuple<at::Tensor, at::Tensor> step(const Realization& at, const at::Tensor& u,
                                                  const at::Tensor& state) const = 0;

  // A new truncation length for the same system.
  virtual void set_length(int64_t length) = 0;

  // Of at most `most` denominators (0: all); none where poles cannot leave the unit circle.
  virtual std::optional<PoleReport> poles(int64_t most = 0) const = 0;
};

enum class Numerator {
  wrapped,  // b is trained at `length` as Algorithm 1 reads it
  exact,    // b is the numerator of the recurrence
};
enum class Constraint { none, montel, montel_paper };

struct RTFOptions : LayerOptions {
  Numerator numerator = Numerator::wrapped;
  double kernel_dropout = 0;
  Init init = Init::zero;
  InitialGain initial_gain = InitialGain::paper;
  Constraint constraint = Constraint::none;
};

class RTFImpl : public LayerImpl {
 public:
  explicit RTFImpl(RTFOptions options);
  LayerOptions& sizes() override { return options; }

  at::Tensor forward(const at::Tensor& u, const std::optional<at::Tensor>& lengths = {},
                     const std::optional<at::Tensor>& generator = {}) override;
  at::Tensor kernel(int64_t length) const override;
  at::Tensor denominator() const;       // a through the constraint
  at::Tensor wide_denominator() const;  // the same in double, with the constraint computed there

  Realization realize() const override;
  at::Tensor zero_state(int64_t batch) const override;
  std::tuple<at::Tensor, at::Tensor> prefill(const Realization& at, const at::Tensor& u,
                                             const at::Tensor& state) const override;
  std::tuple<at::Tensor, at::Tensor> step(const Realization& at, const at::Tensor& u,
                                          const at::Tensor& state) const override;

  // The trained numerator is corrected and wrapped again.
  void set_length(int64_t length) override;

  // Schur-Cohn at every denominator, or at `most` of them evenly spread. A coefficient that is not finite makes both
  // numbers nan.
  std::optional<PoleReport> poles(int64_t most = 0) const override;

  RTFOptions options;
  // (D, order), (C, order), (C); D and C count both directions, forward rows first.
  // With Constraint::montel_paper a has order + 1 columns, the free numbers that are normalised.
  at::Tensor a, b, h0;
  at::Tensor sigma;  // (D), with Constraint::montel

 private:
  void check_length(int64_t length) const;
};
TORCH_MODULE(RTF);

}  // namespace rtf::nn
