// rtf bench lra: one layer as it stands in each of the Long Range Arena models, over state sizes.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>

#include "core/atomic_file.h"
#include "device_timing.h"
#include "lra_figure.h"
#include "rtf/error.h"
#include "train/config.h"
#include "train/model_setup.h"
#include "train/plain_errors.h"
#include "train_common.h"

namespace rtf::cli {
namespace {

// What a task's batches are to the layer.
struct ArenaTask {
  const char* name;
  int64_t sequences;  // of a sample
  bool padded;        // they come with lengths
};
constexpr ArenaTask arena[] = {{"listops", 1, true}, {"text", 1, true},        {"retrieval", 2, true},
                               {"image", 1, false},  {"pathfinder", 1, false}, {"pathx", 1, false}};

struct BenchOptions {
  std::string configs = "experiments/lra", device = "cuda", precision = "fp32", json, svg;
  std::vector<std::string> tasks, layers = {"rtf", "s4d", "s4"}, overrides;
  std::vector<int64_t> orders = {4, 16, 64, 256, 1024};
  int64_t repeats = 75;
  bool quiet = false;
};

// One layer out of a model of its config, with a batch as the model hands it.
class BenchLayer {
 public:
  BenchLayer(const train::Config& config, const ArenaTask& task, c10::Device device) {
    nn::SequenceModelOptions options = train::backbone_options(config);
    options.layers = options.outputs = 1;
    nn::SequenceModel model(options);
    model->to(device, train::number_type(config.train));
    model->train();
    model->set_generator(config.train.seed, 0);
    generator_ = model->generator();
    for (const auto& module : model->modules())
      if (auto layer = std::dynamic_pointer_cast<nn::LayerImpl>(module)) layer_ = layer;
    batch_ = task.sequences * config.train.batch;
    const int64_t length = config.model.length, channels = config.model.channels;
    const auto type = at::TensorOptions().device(device).dtype(
        config.train.precision == "bf16" ? at::kBFloat16 : train::number_type(config.train));
    // The samples of a row lie side by side on a GPU, the channels of a sample on the CPU.
    const auto draw = [&] {
      return device.is_cpu() ? at::randn({batch_, length, channels}, type)
                             : at::randn({batch_, channels, length}, type).transpose(1, 2);
    };
    dy_ = draw();
    u_ = draw().requires_grad_();
    if (task.padded) lengths_ = at::full({batch_}, length, type.dtype(at::kLong));
  }

  int64_t batch() const { return batch_; }
  void forward() const {
    const at::NoGradGuard no_grad;
    layer_->forward(u_, lengths_, generator_);
  }
  // To the samples and to every parameter. Gradients take the place of the last ones, as in training.
  void forward_backward() {
    u_.mutable_grad().reset();
    for (const at::Tensor& parameter : layer_->parameters()) parameter.mutable_grad().reset();
    layer_->forward(u_, lengths_, generator_).backward(dy_);
  }

 private:
  std::shared_ptr<nn::LayerImpl> layer_;
  int64_t batch_ = 0;
  at::Tensor u_, dy_, generator_;
  std::optional<at::Tensor> lengths_;
};

// At the order of its config, or at another.
train::Config config_of(const BenchOptions& options, const std::string& task, const std::string& layer,
                        std::optional<int64_t> order = std::nullopt) {
  const std::string name = task + (layer == "rtf" ? "" : "_" + layer) + ".yaml";
  std::vector<std::string> overrides = {"train.device=" + options.device, "train.precision=" + options.precision};
  overrides.insert(overrides.end(), options.overrides.begin(), options.overrides.end());
  if (order) overrides.push_back("model.order=" + std::to_string(*order));
  return train::load_config((std::filesystem::path(options.configs) / name).string(), overrides);
}

LayerTime measure(train::Config config, const ArenaTask& task, bool own, int64_t repeats, c10::Device device) {
  const train::ModelConfig& model = config.model;
  LayerTime time{task.name, model.layer, 0, model.length, model.channels, model.order, own, 0, 0};
  // With one step for all channels the first C of S4 takes one power of A. The times do not depend on it.
  config.model.dt_min = config.model.dt_max;
  BenchLayer layer(config, task, device);
  time.batch = layer.batch();
  const auto run = [&](auto&& pass) {
    try {
      return median_milliseconds_of_graph(device, {.repeats = repeats}, pass);
    } catch (const c10::OutOfMemoryError&) {  // the table says so
      return std::nan("");
    }
  };
  time.forward = run([&] { layer.forward(); });
  time.training = run([&] { layer.forward_backward(); });
  return time;
}

std::vector<std::string> each_once(const std::vector<std::string>& names) {
  std::vector<std::string> once;
  for (const std::string& name : names)
    if (std::find(once.begin(), once.end(), name) == once.end()) once.push_back(name);
  return once;
}

void run(const BenchOptions& options) {
  if (!std::filesystem::is_directory(options.configs))
    throw Error(ErrorCode::argument, "bench",
                "there is no folder " + options.configs + "; --configs DIR names experiments/lra of the source tree");
  for (const std::string& path : {options.json, options.svg})
    if (!path.empty()) check_output(path, "bench");
  LraFigures figures{{}, {}, options.repeats, each_once(options.tasks), each_once(options.layers), {}};
  if (figures.tasks.empty())
    for (const ArenaTask& task : arena) figures.tasks.emplace_back(task.name);
  // All of them are read first: one that cannot be read is told before the first minute has gone.
  struct Job {
    const ArenaTask* task;
    train::Config config;
    bool own;
  };
  std::vector<Job> jobs;
  for (const std::string& name : figures.tasks)
    for (const std::string& layer : figures.layers) {
      const auto* task = std::find_if(std::begin(arena), std::end(arena), [&](auto& one) { return one.name == name; });
      const train::ModelConfig own = config_of(options, name, layer).model;
      std::set<int64_t> orders = {own.order};
      for (const int64_t order : options.orders)
        if (order <= own.length) orders.insert(order);
      for (const int64_t order : orders)
        jobs.push_back({task, config_of(options, name, layer, order), order == own.order});
    }
  const train::TrainConfig& settings = jobs.front().config.train;
  figures.device = settings.device;
  figures.precision = settings.precision;
  const c10::Device device = train::set_up_torch(settings);
  each_with_bar(jobs.size(), options.quiet, [&](std::size_t i) {
    figures.times.push_back(measure(jobs[i].config, *jobs[i].task, jobs[i].own, options.repeats, device));
  });
  std::fputs(lra_text(figures).c_str(), stdout);
  std::optional<StagedFile> json, svg;
  if (!options.json.empty()) json.emplace(options.json, lra_json(figures), "bench");
  if (!options.svg.empty()) svg.emplace(options.svg, lra_svg(figures), "bench");
  if (json) json->commit();
  if (svg) svg->commit();
}

}  // namespace

void add_bench_lra(CLI::App& bench) {
  CLI::App& command = add_training_command(
      bench, "lra",
      "  rtf bench lra --precision tf32 --json lra.json --svg lra.svg\n"
      "  rtf bench lra --device cpu --tasks image --layers rtf,s4 --orders 4,64 --repeats 5 train.batch=2\n"
      "The layer alone, with the channels, length, batch, directions and denominators of the task's model, as the\n"
      "files TASK.yaml and TASK_LAYER.yaml of --configs say: forward, and forward with all gradients. On a GPU\n"
      "both run as CUDA graphs, as training does, so that the time is the device's and not that of launching;\n"
      "stretches of 5 ms, or 100 calls, between two synchronisations, after 10 to warm up, and the median of them.\n"
      "A pair of Retrieval is two sequences. Orders above the length are left out. The means are of the ratios\n"
      "over the tasks, each layer at the order of its own config: the paper's 1.35 is that of s4/rtf in training.");
  auto options = std::make_shared<BenchOptions>();
  std::vector<std::string> names;
  for (const ArenaTask& task : arena) names.emplace_back(task.name);
  command.add_option("KEY=VALUE", options->overrides, "keys that override every config's (docs/config.md)")
      ->type_name("");
  command.add_option("--configs", options->configs, "folder of the configs (default experiments/lra)")
      ->type_name("DIR");
  command.add_option("--tasks", options->tasks, "which of the models (default all)")
      ->delimiter(',')
      ->allow_extra_args(false)  // key=value may come next
      ->check(CLI::IsMember(names))
      ->type_name("NAME,...");
  command.add_option("--layers", options->layers, "kinds of layer, ratios are to the first (default rtf,s4d,s4)")
      ->delimiter(',')
      ->allow_extra_args(false)  // key=value may come next
      ->check(CLI::IsMember({"rtf", "s4d", "s4", "s5", "spacetime"}))
      ->type_name("NAME,...");
  command.add_option("--orders", options->orders, "state sizes beside the config's (default 4,16,64,256,1024)")
      ->delimiter(',')
      ->allow_extra_args(false)  // key=value may come next
      ->check(CLI::PositiveNumber)
      ->type_name("N,...");
  command.add_option("--repeats", options->repeats, "stretches whose median counts (default 75)")
      ->check(CLI::PositiveNumber)
      ->type_name("N");
  add_device(command, options->device);
  command.add_option("--precision", options->precision, "fp32 (the default), tf32, bf16 or fp64")
      ->check(CLI::IsMember({"fp32", "tf32", "bf16", "fp64"}))
      ->type_name("NAME");
  command.add_option("--json", options->json, "file for all figures")->type_name("FILE");
  command.add_option("--svg", options->svg, "file for a picture of them")->type_name("FILE");
  command.add_flag("-q,--quiet", options->quiet, "no progress bar");
  command.callback([options] {
    train::plain_errors("bench",
                        {"not enough memory for these sizes; a smaller train.batch needs less",
                         "the device has not enough memory for these sizes; a smaller train.batch needs less"},
                        [&] { run(*options); });
  });
}

}  // namespace rtf::cli
