#include "train/config_table.h"

#include <algorithm>
#include <limits>

namespace rtf::train {
namespace {

template <class S, class T>
Member<T> member(S Config::*section, T S::*field) {
  return [=](Config& config) -> T& { return config.*section.*field; };
}

// Counts stay far from where products of two of them would overflow.
constexpr double most = std::numeric_limits<int32_t>::max();
const Range count_from_0{0, most}, count_from_1{1, most};
const Range width{1, 1'000'000}, from_0{0}, above_0{.low = 0, .low_open = true};
const Range probability{.low = 0, .high = 1, .high_open = true};

// Of all layers together, each once. Text may be empty: the layer's default.
std::vector<std::string> all_choices(const std::string& path, const std::vector<std::string>& layers) {
  std::vector<std::string> all;
  for (const std::string& layer : layers)
    for (const std::string& choice : layer_choices(path, layer))
      if (std::find(all.begin(), all.end(), choice) == all.end()) all.push_back(choice);
  return all;
}

std::vector<Key> make_table() {
  const auto task = [](auto field) { return member(&Config::task, field); };
  const auto model = [](auto field) { return member(&Config::model, field); };
  const auto optimizer = [](auto field) { return member(&Config::optimizer, field); };
  const auto train = [](auto field) { return member(&Config::train, field); };
  using T = TaskConfig;
  using M = ModelConfig;
  using O = OptimizerConfig;
  using R = TrainConfig;
  const std::vector<std::string> texts = {"listops", "text", "retrieval"};
  const std::vector<std::string> arena = {"listops", "text", "retrieval", "image", "pathfinder", "pathx"};
  std::vector<std::string> tasks = {"copying", "delay", "reconstruct", "smnist"};
  tasks.insert(tasks.end(), arena.begin(), arena.end());
  const std::vector<std::string> layers = {"rtf", "s4", "s4d", "s5", "spacetime"};
  const std::vector<std::string> rtf = {"rtf"}, s4 = {"s4"}, s4d = {"s4d"}, s5 = {"s5"};
  const std::vector<std::string> pairs = {"s4", "s4d"}, stepped = {"s4", "s4d", "s5"};
  const std::vector<std::string> baselines = {"s4", "s4d", "s5", "spacetime"};
  const std::vector<std::string> copying = {"copying"}, signals = {"delay", "reconstruct"};
  return {
      {"task.name", task(&T::name), "what is learned; every config has to say it", {}, tasks},
      {"task.symbols", task(&T::symbols), "vocabulary, the zero and the marker included", {3, most}, {}, copying},
      {"task.memory", task(&T::memory), "tokens to copy", count_from_1, {}, copying},
      {"task.noise", task(&T::noise), "zeros between the tokens and the markers", count_from_0, {}, copying},
      {"task.length", task(&T::length), "samples of a sequence", {2, most}, {}, signals},
      {"task.dt", task(&T::dt), "seconds between samples", above_0, {}, signals},
      {"task.band", task(&T::band), "band limit of the noise in Hz", above_0, {}, signals},
      {"task.rms", task(&T::rms), "root mean square of the noise", above_0, {}, signals},
      {"task.lag", task(&T::lag), "samples by which the output lags behind", count_from_0, {}, {"delay"}},
      {"task.window", task(&T::window), "last samples to give back", count_from_1, {}, {"reconstruct"}},
      {"task.permuted", task(&T::permuted), "pixels in one fixed random order", {}, {}, {"smnist"}},
      {"task.train_size", task(&T::train_size), "training samples an epoch; 0: the task's own", count_from_0},
      {"task.val_size", task(&T::val_size), "validation samples; 0: the task's own", count_from_0},

      {"model.layer", model(&M::layer), "kind of layer; the others are baselines", {}, layers},
      {"model.layers", model(&M::layers), "residual blocks", {1, 10'000}},
      {"model.channels", model(&M::channels), "width of the model", width},
      {"model.order", model(&M::order), "state size of each channel; s5: of all together", width},
      {"model.length", model(&M::length), "longest sequence, and where kernels are truncated; 0: the task's own",
       count_from_0},
      {"model.denominators", model(&M::denominators),
       "different denominators in a layer, or different A and B; divides channels", width},
      {"model.numerator",
       model(&M::numerator),
       "trained at model.length (Algorithm 1), or the recurrence's own",
       {},
       {"wrapped", "exact"},
       {},
       rtf},
      {"model.bidirectional", model(&M::bidirectional), "a second, backward system in every layer"},
      {"model.kernel_dropout", model(&M::kernel_dropout), "dropout on the kernels", probability, {}, {}, rtf},
      {"model.init",
       model(&M::init),
       "first values of a and b, or of A, B or C; empty: the first of those of the layer",
       {},
       all_choices("model.init", layers)},
      {"model.initial_gain",
       model(&M::initial_gain),
       "first h0: 1 (paper) or normal random numbers (release)",
       {},
       {"paper", "release"},
       {},
       rtf},
      {"model.constraint",
       model(&M::constraint),
       "what keeps the poles inside the unit circle",
       {},
       all_choices("model.constraint", layers),
       {},
       {"rtf", "s5"}},
      {"model.dt_min", model(&M::dt_min), "smallest first time step", above_0, {}, {}, stepped},
      {"model.dt_max", model(&M::dt_max), "largest first time step", above_0, {}, {}, stepped},
      {"model.dt_transform",
       model(&M::dt_transform),
       "from the trained number to the time step",
       {},
       {"softplus", "exp"},
       {},
       pairs},
      {"model.initial_step",
       model(&M::initial_step),
       "first time step: as drawn (paper), or what dt_transform makes of it (release)",
       {},
       {"paper", "release"},
       {},
       pairs},
      {"model.initial_c",
       model(&M::initial_c),
       "first C: normal random numbers, or the constant basis function's",
       {},
       {"normal", "constant"},
       {},
       s4},
      {"model.discretization",
       model(&M::discretization),
       "from continuous to discrete time",
       {},
       {"zoh", "bilinear"},
       {},
       s4d},
      {"model.rank", model(&M::rank), "of what is added to the diagonal", {1, 2}, {}, {}, s4},
      {"model.blocks", model(&M::blocks), "equal blocks of poles at first; twice it divides order", width, {}, {}, s5},
      {"model.skip",
       model(&M::skip),
       "add the input, weighted by channel, to the layer's output",
       {},
       {},
       {},
       baselines},
      {"model.norm", model(&M::norm), "normalisation in the residual blocks", {}, {"none", "batch", "layer"}},
      {"model.prenorm", model(&M::prenorm), "normalise ahead of the layer instead of after the sum"},
      {"model.residual", model(&M::residual), "add the layer's input to its output; without it no norm either"},
      {"model.dropout", model(&M::dropout), "dropout at the end of each block", probability},
      {"model.inner_dropout", model(&M::inner_dropout), "dropout after the activation", probability},
      {"model.output_dropout",
       model(&M::output_dropout),
       "dropout ahead of the activation, one mask for all positions",
       probability,
       {},
       {},
       pairs},
      {"model.tie_dropout", model(&M::tie_dropout), "one mask of model.dropout for all positions of a sequence"},
      {"model.tie_inner_dropout", model(&M::tie_inner_dropout), "the same for model.inner_dropout"},
      {"model.activation", model(&M::activation), "after the convolution", {}, {"identity", "gelu"}},
      {"model.glu",
       model(&M::glu),
       "gated linear output projection in each block; the half ones gate what they project",
       {},
       {"true", "false", "half_glu1", "half_glu2"}},

      {"optimizer.lr", optimizer(&O::lr), "learning rate of AdamW", from_0},
      {"optimizer.weight_decay", optimizer(&O::weight_decay), "decoupled weight decay", from_0},
      {"optimizer.ssm_lr", optimizer(&O::ssm_lr), "learning rate of a, b and h0, or of A, B and P; null: optimizer.lr",
       from_0},
      {"optimizer.ssm_weight_decay", optimizer(&O::ssm_weight_decay),
       "weight decay of the same, and of time steps; null: optimizer.weight_decay", from_0},
      {"optimizer.dt_lr",
       optimizer(&O::dt_lr),
       "learning rate of the time steps; null: optimizer.ssm_lr",
       from_0,
       {},
       {},
       stepped},
      {"optimizer.beta1", optimizer(&O::beta1), "decay of the gradients' mean", probability},
      {"optimizer.beta2", optimizer(&O::beta2), "decay of the mean of their squares", probability},
      {"optimizer.eps", optimizer(&O::eps), "added to the root of that mean", above_0},
      {"optimizer.clip", optimizer(&O::clip), "largest norm of all gradients together; 0: no clipping", from_0},
      {"optimizer.schedule", optimizer(&O::schedule), "of the learning rate", {}, {"constant", "cosine"}},
      {"optimizer.warmup", optimizer(&O::warmup), "steps of linear warm-up", count_from_0},
      {"optimizer.total", optimizer(&O::total), "step at which the cosine ends; 0: the run's last", count_from_0},
      {"optimizer.ema", optimizer(&O::ema),
       "decay of the average of weights and running statistics, which is evaluated; 0: none", probability},

      {"train.epochs", train(&R::epochs), "passes over the training data", count_from_1},
      {"train.steps", train(&R::steps), "optimiser steps after which to stop; 0: when the epochs are over",
       count_from_0},
      {"train.batch", train(&R::batch), "sequences in a batch", count_from_1},
      {"train.eval_batch", train(&R::eval_batch), "sequences in a batch of evaluation; 0: train.batch", count_from_0},
      {"train.accumulate", train(&R::accumulate), "batches whose gradients make one optimiser step", count_from_1},
      {"train.chunk", train(&R::chunk), "samples of a chunk of truncated back-propagation; 0: whole sequences",
       count_from_0},
      {"train.seed", train(&R::seed), "of first values, data, order and dropout", from_0},
      {"train.eval_every", train(&R::eval_every), "epochs between evaluations", count_from_1},
      {"train.device", train(&R::device), "where it computes; N counts from 0", {}, {"cpu", "cuda", "cuda:N"}},
      {"train.precision",
       train(&R::precision),
       "of weights and activations; tf32: matrix products in TF32; bf16: activations in bfloat16",
       {},
       {"fp32", "tf32", "bf16", "fp64"}},
      {"train.threads", train(&R::threads), "0: all cores", {0, 1024}},
      {"train.deterministic", train(&R::deterministic), "the same bits in every run"},

      {"checkpoint.every_steps", member(&Config::checkpoint, &CheckpointConfig::every_steps),
       "steps between checkpoints; 0: not by steps", count_from_0},
      {"checkpoint.every_minutes", member(&Config::checkpoint, &CheckpointConfig::every_minutes),
       "minutes between checkpoints; 0: not by time", from_0},
      {"checkpoint.part_size",
       member(&Config::checkpoint, &CheckpointConfig::part_size),
       "MiB of the parts that a larger checkpoint is written in; 0: one file",
       {0, 1'048'576}},
      {"log.every", member(&Config::log, &LogConfig::every), "steps between rows of the training loss", count_from_1},
      {"log.poles_every", member(&Config::log, &LogConfig::poles_every), "epochs between pole reports; 0: never",
       count_from_0},
      {"data.path", member(&Config::data, &DataConfig::path),
       "folder of a data set that is not generated, as seen from where the command runs"},
      {"data.cache",
       member(&Config::data, &DataConfig::cache),
       "folder of prepared data; empty: `prepared` beside the data, or the user's cache folder",
       {},
       {},
       arena},
      {"data.bucket",
       member(&Config::data, &DataConfig::bucket),
       "batches whose samples are sorted by length together; 1: none",
       count_from_1,
       {},
       texts},
      {"data.pad_to",
       member(&Config::data, &DataConfig::pad_to),
       "batches are padded to a multiple of this length; 1: to their longest sequence",
       count_from_1,
       {},
       texts},
  };
}

}  // namespace

const std::vector<Key>& config_table() {
  static const std::vector<Key> table = make_table();
  return table;
}

bool used_by(const Key& key, const Config& config) {
  const auto among = [](const std::vector<std::string>& users, const std::string& name) {
    return users.empty() || std::find(users.begin(), users.end(), name) != users.end();
  };
  return among(key.tasks, config.task.name) && among(key.layers, config.model.layer);
}

std::vector<std::string> layer_choices(const std::string& path, const std::string& layer) {
  if (path == "model.init") {
    if (layer == "rtf") return {"zero", "xavier", "montel", "uniform_montel"};
    if (layer == "s4") return {"legs", "fourier"};
    if (layer == "s4d") return {"lin", "inv", "legs"};
    if (layer == "s5") return {"trunc_standard_normal", "lecun_normal", "complex_normal"};
    if (layer == "spacetime") return {"normal"};
  }
  if (path == "model.constraint") {
    if (layer == "rtf") return {"none", "montel", "montel_paper"};
    if (layer == "s5") return {"none", "clip"};
  }
  return {};
}

}  // namespace rtf::train
