// What a run is made of: every key of a config file, its default and its meaning. Free of torch.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace rtf::train {

struct TaskConfig {
  std::string name;        // copying, delay, reconstruct, smnist; listops, text, retrieval, image, pathfinder, pathx
  int64_t symbols = 64;    // copying: size of the vocabulary, the marker included
  int64_t memory = 1024;   // copying: tokens to copy
  int64_t noise = 0;       // copying: zeros between them and the markers
  int64_t length = 4000;   // delay, reconstruct: samples of a sequence
  double dt = 0.00025;     // delay, reconstruct: seconds a sample
  double band = 1000;      // delay, reconstruct: band limit in Hz
  double rms = 0.5;        // delay, reconstruct
  int64_t lag = 1000;      // delay
  int64_t window = 1000;   // reconstruct: samples to give back
  bool permuted = false;   // smnist: one fixed permutation of the pixels
  int64_t train_size = 0;  // samples an epoch, validation samples; 0: the task's own
  int64_t val_size = 0;
  bool operator==(const TaskConfig&) const = default;
};

struct ModelConfig {
  std::string layer = "rtf";  // rtf, s4, s4d, s5, spacetime
  int64_t layers = 6;
  int64_t channels = 256;
  int64_t order = 64;
  int64_t length = 0;  // 0: the task's own
  int64_t denominators = 1;
  std::string numerator = "wrapped";  // wrapped, exact
  bool bidirectional = false;
  double kernel_dropout = 0;
  std::string init;                    // of the layer; empty: its default
  std::string initial_gain = "paper";  // paper, release
  std::string constraint = "none";     // none; rtf: montel, montel_paper; s5: clip
  double dt_min = 0.001, dt_max = 0.1;
  std::string dt_transform = "softplus";  // softplus, exp
  std::string initial_step = "paper";     // paper, release
  std::string initial_c = "normal";       // normal, constant
  std::string discretization = "zoh";     // zoh, bilinear
  int64_t rank = 1;
  int64_t blocks = 1;
  bool skip = true;
  std::string norm = "batch";  // none, batch, layer
  bool prenorm = true;
  bool residual = true;
  double dropout = 0;
  double inner_dropout = 0;
  double output_dropout = 0;
  bool tie_dropout = true;
  bool tie_inner_dropout = false;
  std::string activation = "gelu";  // identity, gelu
  std::string glu = "true";         // true, false, half_glu1, half_glu2
  bool operator==(const ModelConfig&) const = default;
};

struct OptimizerConfig {
  double lr = 0.001;
  double weight_decay = 0;
  std::optional<double> ssm_lr, ssm_weight_decay;  // of the systems; none: the ones above
  std::optional<double> dt_lr;                     // of the steps of s4, s4d and s5; none: ssm_lr
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double clip = 0;                    // global gradient norm; 0: no clipping
  std::string schedule = "constant";  // constant, cosine
  int64_t warmup = 0;                 // steps of linear warm-up
  int64_t total = 0;                  // steps at which the cosine ends; 0: the run's own
  double ema = 0;                     // decay of the weight average that is evaluated; 0: none
  bool operator==(const OptimizerConfig&) const = default;
};

struct TrainConfig {
  int64_t epochs = 1;
  int64_t steps = 0;  // stop after this many; 0: when the epochs are over
  int64_t batch = 32;
  int64_t eval_batch = 0;  // 0: batch
  int64_t accumulate = 1;  // batches an optimiser step
  int64_t chunk = 0;       // truncated back-propagation: samples of a chunk; 0: whole sequences
  uint64_t seed = 0;
  int64_t eval_every = 1;          // epochs
  std::string device = "cpu";      // cpu, cuda, cuda:N
  std::string precision = "fp32";  // fp32, tf32, bf16, fp64
  int64_t threads = 0;             // 0: all cores
  bool deterministic = true;
  bool operator==(const TrainConfig&) const = default;
};

struct CheckpointConfig {
  int64_t every_steps = 0;    // 0: not by steps
  double every_minutes = 10;  // 0: not by time
  int64_t part_size = 0;      // MiB of a part; 0: one file
  bool operator==(const CheckpointConfig&) const = default;
};

struct LogConfig {
  int64_t every = 20;       // steps between rows of metrics.csv for the training loss
  int64_t poles_every = 1;  // epochs between pole reports; 0: never
  bool operator==(const LogConfig&) const = default;
};

struct DataConfig {
  std::string path;    // of a data set that is not generated
  std::string cache;   // folder of prepared data; empty: beside the data, or the user's own
  int64_t bucket = 1;  // batches whose samples are sorted by length
  int64_t pad_to = 1;  // batches are padded to a multiple of it
  bool operator==(const DataConfig&) const = default;
};

struct Config {
  TaskConfig task;
  ModelConfig model;
  OptimizerConfig optimizer;
  TrainConfig train;
  CheckpointConfig checkpoint;
  LogConfig log;
  DataConfig data;
  bool operator==(const Config&) const = default;
};

// One documented key.
struct ConfigKey {
  std::string path;     // "optimizer.lr"
  std::string type;     // "number", "integer", "true or false", "one of a, b", "text"
  std::string initial;  // the default, as YAML
  std::string meaning;
};
std::vector<ConfigKey> config_keys();

// Reads `path` with its includes, applies "key=value" overrides in order, and checks every key and value.
// Throws rtf::Error whose message names the file, the key and the bad value.
Config load_config(const std::string& path, const std::vector<std::string>& overrides = {});

// The whole config as YAML, each key with its meaning: what load_config() reads back to the same values. Keys of other
// tasks and layers are left out.
std::string to_yaml(const Config& config);

// Whether a run that goes on may have another value: one that leaves the mathematics as it is.
bool may_change(const std::string& path);
// All other keys and their values as YAML: what a checkpoint belongs to.
std::map<std::string, std::string> fixed_settings(const Config& config);
// The config of such settings, all other keys at their defaults; errors name `source`.
Config from_settings(const std::map<std::string, std::string>& settings, const std::string& source);

// The first key in which two configs differ, and its values as YAML.
struct ConfigDifference {
  std::string path, left, right;
};
std::optional<ConfigDifference> first_difference(const Config& left, const Config& right);

}  // namespace rtf::train
