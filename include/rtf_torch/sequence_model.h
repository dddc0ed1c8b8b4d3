// The backbone of the paper's experiments: encoder, residual blocks around the layer, decoder.
#pragma once

#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include <functional>
#include <memory>

#include "rtf_torch/baselines.h"

namespace rtf::nn {

class BlockImpl;
class NormalizationImpl;
struct Stream;

enum class Norm { none, batch, layer };
enum class Activation { identity, gelu };
// How a block ends; y is the layer's output, g what the activation makes of it.
enum class Glu {
  none,       // g
  full,       // p * sigmoid(q), (p, q) = Linear(D -> 2D)(g)
  half_glu1,  // g * sigmoid(Linear(g))
  half_glu2,  // y * sigmoid(Linear(g))
};
enum class Decoder {
  pool,      // mean over the valid positions, then linear
  last,      // linear at each of the last `last` positions
  position,  // linear at every position
  pair,      // two halves of the batch pooled, [e1, e2, e1 - e2, e1 * e2] through two linear layers
};

struct SequenceModelOptions {
  int64_t vocabulary = 0;  // tokens in: an embedding; 0: `features` numbers in, a linear encoder
  int64_t features = 1;
  int64_t layers = 6;
  LayerKind kind = LayerKind::rtf;
  RTFOptions layer;          // its channels are the model's width; what only RTF has is for that kind
  BaselineOptions baseline;  // of the other kinds
  Norm norm = Norm::batch;
  bool prenorm = true;
  bool residual = true;      // false: x <- Layer(x); neither norm nor outer dropout is then applied
  double dropout = 0;        // outer
  double inner_dropout = 0;  // after the activation
  bool tie_dropout = true;   // outer: one mask for all positions
  bool tie_inner_dropout = false;
  Activation activation = Activation::gelu;
  double output_dropout = 0;  // on the layer's output, ahead of the activation, one mask for all positions; not of RTF
  Glu glu = Glu::full;
  Decoder decoder = Decoder::pool;
  int64_t outputs = 0;
  int64_t last = 1;  // positions of Decoder::last
  uint64_t seed = 0;
  bool bfloat16 = false;  // inside the blocks; parameters and what goes from block to block stay float32
};

// What a causal model carries from sample to sample, for a batch of streams.
struct ModelState {
  std::vector<Realization> layers;  // fixed while streaming
  std::vector<at::Tensor> states;   // float64, as many numbers as the layer's recurrence has
  at::Tensor sum;                   // of the pooled positions (batch, channels), and how many
  at::Tensor count;                 // (batch)
};

class SequenceModelImpl : public torch::nn::Module {
 public:
  explicit SequenceModelImpl(SequenceModelOptions options);

  // x: tokens (batch, length), int64, or (batch, length, features). Returns (batch, outputs), or (batch, k, outputs).
  // `pair` takes document 1 of all pairs, then document 2.
  at::Tensor forward(const at::Tensor& x, const std::optional<at::Tensor>& lengths = {});

  // Streaming, for causal models in evaluation mode. Each call returns the decoder's answer at every new position
  // (prefill: (batch, length, outputs)) or at this one (step: (batch, outputs)); pooled decoders answer for all so far.
  ModelState make_state(int64_t batch) const;
  at::Tensor prefill(const at::Tensor& x, ModelState& state);
  at::Tensor step(const at::Tensor& x, ModelState& state);

  // Truncated back-propagation: prefill() over a chunk in training mode, from a state whose coefficients are
  // differentiable.
  ModelState make_training_state(int64_t batch) const;

  // The random numbers of the next forward pass: dropout at `step` of `seed`. Written into the same memory every time,
  // so that a captured graph sees it.
  void set_generator(uint64_t seed, uint64_t step);
  // Where they are written: (seed, step), int64, on the device of the parameters.
  const at::Tensor& generator();
  void set_length(int64_t length);

  // One report a layer, of at most `most` denominators each (0: all); empty for kinds that make none.
  std::vector<PoleReport> poles(int64_t most = 0) const;

  SequenceModelOptions options;

 private:
  void initialize();
  at::Tensor encode(const at::Tensor& x);
  // All blocks and the last norm; run(i, stream) is one way of running block i.
  at::Tensor through_blocks(const at::Tensor& h, const std::function<Stream(size_t, const Stream&)>& run);
  at::Tensor decode(const at::Tensor& x);  // (..., channels)
  at::Tensor decode_stream(const at::Tensor& h, ModelState& state);
  void check_state(const ModelState& state, const at::Tensor& h) const;

  torch::nn::Embedding embedding_ = nullptr;  // one of the two
  torch::nn::Linear projection_ = nullptr;
  std::vector<std::shared_ptr<BlockImpl>> blocks_;
  std::shared_ptr<NormalizationImpl> norm_;  // after the last block, with prenorm
  std::vector<torch::nn::Linear> decoder_;   // two with Decoder::pair
  at::Tensor generator_;                     // (seed, step), where the last forward pass was
};
TORCH_MODULE(SequenceModel);

}  // namespace rtf::nn
