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

enum class Numerator {
  wrapped,  // b is trained at `length` as Algorithm 1 reads it
  exact,    // b is the numerator of the recurrence
};
enum class Constraint { none, montel, montel_paper };

struct RTFOptions {
  int64_t channels = 0;
  int64_t order = 64;
  int64_t length = 0;        // the longest input, and where a wrapped numerator is trained
  int64_t denominators = 1;  // how many different ones; divides channels
  Numerator numerator = Numerator::wrapped;
  bool bidirectional = false;
  double kernel_dropout = 0;
  Init init = Init::zero;
  InitialGain initial_gain = InitialGain::paper;
  Constraint constraint = Constraint::none;
  uint64_t seed = 0;  // of the initial numbers
  int64_t index = 0;  // which layer of the model: its own random numbers
};

// The places of a layer that drop, each with random numbers of its own: `layer` of ops::dropout is dropout_layer().
enum class DropoutSite { kernel, inner, outer };
inline int64_t dropout_layer(int64_t index, DropoutSite site) { return 3 * index + static_cast<int64_t>(site); }

// A plain numerator's coefficients in float64: what step and prefill run on.
struct Realization {
  at::Tensor a, b, h0;
};

struct PoleReport {
  double radius = 0;               // of the outermost pole
  double min_abs_denominator = 0;  // smallest |A| over the points of the transform
  int64_t unstable = 0;  // denominators with a pole on or outside the circle, or with a coefficient not finite
};

class RTFImpl : public torch::nn::Module {
 public:
  explicit RTFImpl(RTFOptions options);

  // Any length up to options.length. `generator` (seed, step) draws the kernel dropout of training mode.
  at::Tensor forward(const at::Tensor& u, const std::optional<at::Tensor>& lengths = {},
                     const std::optional<at::Tensor>& generator = {});
  at::Tensor kernel(int64_t length) const;  // (channels, length), or (2, channels, length)
  at::Tensor denominator() const;           // a through the constraint
  at::Tensor wide_denominator() const;      // the same in double, with the constraint computed there

  // Causal layers: from a state (batch, channels, order), float64.
  Realization realize() const;  // differentiable
  static std::tuple<at::Tensor, at::Tensor> prefill(const Realization& at, const at::Tensor& u, const at::Tensor& state,
                                                    const std::optional<at::Tensor>& lengths = {});
  static std::tuple<at::Tensor, at::Tensor> step(const Realization& at, const at::Tensor& u, const at::Tensor& state);

  // A new truncation length for the same system: the trained numerator is corrected and wrapped again.
  void set_length(int64_t length);

  // Schur-Cohn at every denominator, or at `most` of them evenly spread. A coefficient that is not finite makes both
  // numbers nan.
  PoleReport poles(int64_t most = 0) const;

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
