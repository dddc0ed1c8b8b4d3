#include "rtf_torch/sequence_model.h"

#include <ATen/ATen.h>
#include <torch/nn/modules/container/modulelist.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "rtf/random.h"
#include "rtf_torch/operators.h"
#include "torch/block.h"
#include "torch/projection.h"

namespace rtf::nn {
namespace {

using at::Tensor;

// No training step reaches it, so that initial weights share no numbers with dropout or data of the same seed.
constexpr uint32_t kInitialStep = std::numeric_limits<uint32_t>::max();

void check_last(const SequenceModelOptions& options, int64_t length) {
  TORCH_CHECK(options.decoder != Decoder::last || options.last <= length, "[rtf::SequenceModel] last is ", options.last,
              ", more than the length ", length);
}

void check(const SequenceModelOptions& options) {
  const auto at_least = [](const char* what, int64_t value, int64_t least) {
    TORCH_CHECK(value >= least, "[rtf::SequenceModel] ", what, " is ", value, "; at least ", least, " is needed");
  };
  at_least("vocabulary", options.vocabulary, 0);
  if (options.vocabulary == 0) at_least("features", options.features, 1);
  at_least("layers", options.layers, 0);
  at_least("channels", options.layer.channels, 1);
  at_least("outputs", options.outputs, 1);
  if (options.decoder == Decoder::last) at_least("last", options.last, 1);
  check_last(options, options.layer.length);
  for (const double p : {options.dropout, options.inner_dropout, options.output_dropout})
    TORCH_CHECK(p >= 0 && p < 1, "[rtf::SequenceModel] a dropout of ", p, "; it must be in [0, 1)");
  TORCH_CHECK(options.output_dropout == 0 || options.kind != LayerKind::rtf, "[rtf::SequenceModel] output_dropout of ",
              options.output_dropout, " with RTF layers, which have none");
}

bool pools(Decoder decoder) { return decoder == Decoder::pool || decoder == Decoder::pair; }

void check_lengths(const Tensor& lengths, int64_t batch, int64_t length) {
  TORCH_CHECK(lengths.dim() == 1 && lengths.size(0) == batch && lengths.scalar_type() == at::kLong,
              "[rtf::SequenceModel] lengths is a ", lengths.scalar_type(), " tensor of shape ", lengths.sizes(),
              "; one of type Long for each of ", batch, " sequences is needed");
  if (!lengths.is_cpu()) return;  // elsewhere it would make the host wait
  const auto [smallest, largest] = lengths.aminmax();
  const int64_t low = smallest.item<int64_t>(), high = largest.item<int64_t>();
  TORCH_CHECK(low >= 1 && high <= length, "[rtf::SequenceModel] a length of ", low < 1 ? low : high,
              " in a batch padded to ", length, " samples");
}

// Draws weights one parameter after the other; which numbers one gets depends on the seed and its place alone.
class WeightDraws {
 public:
  explicit WeightDraws(uint64_t seed) : seed_(seed) {}

  void uniform(Tensor parameter, double bound) {
    fill(parameter, [bound](const Random& random, uint64_t i) { return bound * (2 * random.uniform(i) - 1); });
  }
  void normal(Tensor parameter) {
    fill(parameter, [](const Random& random, uint64_t i) { return random.normal(i); });
  }
  void linear(torch::nn::Linear& layer) {
    const double bound = 1 / std::sqrt(static_cast<double>(layer->weight.size(1)));
    uniform(layer->weight, bound);
    uniform(layer->bias, bound);
  }

 private:
  template <class Value>
  void fill(Tensor& parameter, Value value) {
    const Random random(seed_, kInitialStep, next_++);
    std::vector<double> values(parameter.numel());
    for (uint64_t i = 0; i < values.size(); ++i) values[i] = value(random, i);
    const at::NoGradGuard no_grad;
    parameter.copy_(at::tensor(values, at::kDouble).view(parameter.sizes()));
  }

  uint64_t seed_;
  uint32_t next_ = 0;
};

}  // namespace

SequenceModelImpl::SequenceModelImpl(SequenceModelOptions options_) : options(std::move(options_)) {
  check(options);
  const int64_t channels = options.layer.channels;
  if (options.vocabulary > 0) {
    embedding_ = register_module("encoder", torch::nn::Embedding(options.vocabulary, channels));
  } else {
    projection_ = register_module("encoder", torch::nn::Linear(options.features, channels));
  }
  torch::nn::ModuleList blocks;
  for (int64_t i = 0; i < options.layers; ++i) {
    blocks_.push_back(std::make_shared<BlockImpl>(options, i));
    blocks->push_back(blocks_.back());
  }
  register_module("blocks", blocks);
  if (options.residual && options.prenorm && options.norm != Norm::none)
    norm_ = register_module("norm", std::make_shared<NormalizationImpl>(options.norm, channels));
  if (options.decoder == Decoder::pair) {
    decoder_ = {torch::nn::Linear(4 * channels, channels), torch::nn::Linear(channels, options.outputs)};
    register_module("decoder", torch::nn::ModuleList(decoder_[0], decoder_[1]));
  } else {
    decoder_ = {torch::nn::Linear(channels, options.outputs)};
    register_module("decoder", decoder_[0]);
  }
  initialize();
  set_generator(options.seed, 0);
}

void SequenceModelImpl::initialize() {
  WeightDraws draws(options.seed);
  if (embedding_) {
    draws.normal(embedding_->weight);
  } else {
    draws.linear(projection_);
  }
  for (auto& block : blocks_)
    if (block->output) draws.linear(block->output);
  for (auto& layer : decoder_) draws.linear(layer);
}

Tensor SequenceModelImpl::encode(const Tensor& x) {
  TORCH_CHECK(x.size(0) >= 1, "[rtf::SequenceModel] x has shape ", x.sizes(), "; at least one sequence is needed");
  if (projection_) {
    TORCH_CHECK(x.dim() == 3 && x.size(2) == options.features, "[rtf::SequenceModel] x has shape ", x.sizes(),
                "; (batch, length, ", options.features, ") is needed");
    return project(x, projection_->weight, projection_->bias);
  }
  TORCH_CHECK(x.dim() == 2 && x.scalar_type() == at::kLong, "[rtf::SequenceModel] x is a ", x.scalar_type(),
              " tensor of shape ", x.sizes(), "; tokens (batch, length) of type Long are needed");
  if (x.is_cpu() && x.numel() > 0) {  // elsewhere it would make the host wait
    const auto [smallest, largest] = x.aminmax();
    const int64_t low = smallest.item<int64_t>(), high = largest.item<int64_t>();
    TORCH_CHECK(low >= 0 && high < options.vocabulary, "[rtf::SequenceModel] token ", low < 0 ? low : high,
                " is outside the vocabulary of ", options.vocabulary);
  }
  return ops::embedding(x, embedding_->weight);
}

Tensor SequenceModelImpl::decode(const Tensor& x) {
  const auto through = [](const torch::nn::Linear& layer, const Tensor& in) {
    return project(in, layer->weight, layer->bias);
  };
  if (options.decoder != Decoder::pair) return through(decoder_[0], x);
  const int64_t pairs = x.size(0) / 2;
  TORCH_CHECK(x.size(0) == 2 * pairs, "[rtf::SequenceModel] a batch of ", x.size(0),
              " sequences; pairs need an even number");
  const Tensor first = x.narrow(0, 0, pairs), second = x.narrow(0, pairs, pairs);
  const Tensor features = at::cat({first, second, first - second, first * second}, -1);
  return through(decoder_[1], at::gelu(through(decoder_[0], features)));
}

Tensor SequenceModelImpl::through_blocks(const Tensor& h, const std::function<Stream(size_t, const Stream&)>& run) {
  if (blocks_.empty()) return norm_ ? norm_->forward(h) : h;
  Stream stream = blocks_[0]->begin(h);
  for (size_t i = 0; i < blocks_.size(); ++i) stream = run(i, stream);
  return norm_ ? norm_->forward(stream.x) : stream.x;
}

Tensor SequenceModelImpl::forward(const Tensor& x, const std::optional<Tensor>& lengths) {
  TORCH_CHECK(!lengths || options.decoder != Decoder::last,
              "[rtf::SequenceModel] the decoder of the last positions takes no lengths: they would be padding");
  Tensor h = encode(x);
  if (lengths) check_lengths(*lengths, h.size(0), h.size(1));
  if (options.decoder == Decoder::last)
    TORCH_CHECK(h.size(1) >= options.last, "[rtf::SequenceModel] a sequence of ", h.size(1),
                " samples; the decoder needs the last ", options.last);
  const Tensor drawn = generator().clone();  // kept for the gradients, while the owner moves it on
  h = through_blocks(h, [&](size_t i, const Stream& in) { return blocks_[i]->forward(in, lengths, drawn); });
  if (pools(options.decoder)) return decode(pool(h, lengths));
  return decode(options.decoder == Decoder::last ? last_positions(h, options.last) : h);
}

void SequenceModelImpl::set_generator(uint64_t seed, uint64_t step) {
  const Tensor numbers = at::tensor({static_cast<int64_t>(seed), static_cast<int64_t>(step)}, at::kLong);
  if (generator_.defined())
    // From pinned memory a GPU takes it without the host waiting.
    generator().copy_(generator().is_cuda() ? numbers.pin_memory() : numbers, /*non_blocking=*/true);
  else
    generator_ = numbers;
}

const Tensor& SequenceModelImpl::generator() {
  const at::Device device = decoder_[0]->weight.device();
  if (generator_.device() != device) generator_ = generator_.to(device);
  return generator_;
}

void SequenceModelImpl::set_length(int64_t length) {
  check_last(options, length);
  std::vector<std::vector<Tensor>> before;  // the parameters of each layer
  try {
    for (auto& block : blocks_) {
      auto& kept = before.emplace_back();
      for (const Tensor& parameter : block->layer->parameters()) kept.push_back(parameter.detach().clone());
      block->layer->set_length(length);
    }
  } catch (...) {
    // A layer that refuses has changed nothing; those ahead of it go back to what they were.
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i + 1 < before.size(); ++i) {
      LayerImpl& layer = *blocks_[i]->layer;
      for (size_t j = 0; j < before[i].size(); ++j) layer.parameters()[j].copy_(before[i][j]);
      layer.sizes().length = options.layer.length;
    }
    throw;
  }
  options.layer.length = length;
}

std::vector<PoleReport> SequenceModelImpl::poles(int64_t most) const {
  std::vector<PoleReport> reports;
  for (const auto& block : blocks_)
    if (const auto report = block->layer->poles(most)) reports.push_back(*report);
  return reports;
}

ModelState SequenceModelImpl::make_training_state(int64_t batch) const {
  TORCH_CHECK(batch >= 1, "[rtf::SequenceModel] a state for ", batch, " streams; at least 1 is needed");
  ModelState state;
  const Tensor& weight = decoder_[0]->weight;
  const auto zeros = [&](at::IntArrayRef shape) { return at::zeros(shape, weight.options().dtype(at::kDouble)); };
  for (const auto& block : blocks_) {
    state.layers.push_back(block->layer->realize());
    state.states.push_back(block->layer->zero_state(batch));
  }
  if (pools(options.decoder)) {
    state.sum = zeros({batch, options.layer.channels});
    state.count = zeros({batch});
  }
  return state;
}

ModelState SequenceModelImpl::make_state(int64_t batch) const {
  const at::NoGradGuard no_grad;
  return make_training_state(batch);
}

void SequenceModelImpl::check_state(const ModelState& state, const Tensor& h) const {
  TORCH_CHECK(state.states.size() == blocks_.size() && state.layers.size() == blocks_.size(),
              "[rtf::SequenceModel] a state of ", state.states.size(), " layers; the model has ", blocks_.size());
  for (const Tensor& layer : state.states)
    TORCH_CHECK(layer.size(0) == h.size(0), "[rtf::SequenceModel] a batch of ", h.size(0), " with a state of ",
                layer.size(0), " streams");
}

// The pooled decoders answer for everything so far, the others for each position alone.
Tensor SequenceModelImpl::decode_stream(const Tensor& h, ModelState& state) {
  if (!pools(options.decoder)) return decode(h);
  const int64_t length = h.size(1);
  const Tensor sums = state.sum.unsqueeze(1) + h.to(at::kDouble).cumsum(1);
  const Tensor counts = state.count.unsqueeze(1) + at::arange(1, length + 1, state.count.options());
  if (length > 0) {
    state.sum = sums.select(1, length - 1);
    state.count = counts.select(1, length - 1);
  }
  return decode((sums / counts.unsqueeze(2)).to(h.scalar_type()));
}

Tensor SequenceModelImpl::prefill(const Tensor& x, ModelState& state) {
  // Streaming keeps no tape: it would grow with every sample.
  const at::AutoGradMode tape(is_training() && at::GradMode::is_enabled());
  Tensor h = encode(x);
  check_state(state, h);
  if (is_training()) {
    TORCH_CHECK(options.layer.kernel_dropout == 0, "[rtf::SequenceModel] kernel dropout of ",
                options.layer.kernel_dropout, " cannot be trained from a state, where no kernel is made");
    const auto differentiable = [](const std::vector<Tensor>& tensors) {
      return std::any_of(tensors.begin(), tensors.end(), [](const Tensor& tensor) { return tensor.requires_grad(); });
    };
    for (size_t i = 0; i < blocks_.size(); ++i)
      TORCH_CHECK(!at::GradMode::is_enabled() || !differentiable(blocks_[i]->layer->parameters()) ||
                      differentiable(state.layers[i]),
                  "[rtf::SequenceModel] prefill in training mode needs a state of make_training_state");
  }
  const Tensor drawn = generator().clone();
  h = through_blocks(
      h, [&](size_t i, const Stream& in) { return blocks_[i]->prefill(in, state.layers[i], state.states[i], drawn); });
  return decode_stream(h, state);
}

Tensor SequenceModelImpl::step(const Tensor& x, ModelState& state) {
  TORCH_CHECK(!is_training(), "[rtf::SequenceModel] step runs in evaluation mode; the model is in training mode");
  const at::NoGradGuard no_grad;
  Tensor h = encode(x.unsqueeze(1));
  check_state(state, h);
  h = through_blocks(h, [&](size_t i, const Stream& in) {
    return blocks_[i]->step(in, state.layers[i], state.states[i], generator());
  });
  return decode_stream(h, state).squeeze(1);
}

}  // namespace rtf::nn
