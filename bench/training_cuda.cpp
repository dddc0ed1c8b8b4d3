// training_cuda: milliseconds of a whole training step on the GPU and its peak memory, one JSON line for each
// precision. Random data, streamed from the host as in training. bench/cuda_training.py knows the sizes of the paper's
// models.
#include <ATen/ATen.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>

#include "train/batch_stream.h"
#include "train/device.h"
#include "train/model_setup.h"
#include "train/tasks/objectives.h"
#include "train/training_step.h"

namespace rtf::train {
namespace {

struct Model {
  std::string name = "model";
  ModelConfig sizes;
  int64_t batch = 32;
  int64_t vocabulary = 0, last = 0, outputs = 10;  // no vocabulary: numbers in; no last: the mean is decoded
};

// Random tokens or numbers, and random classes.
class RandomData : public Classification {
 public:
  explicit RandomData(const Model& model) : model_(model) {}
  void shape(nn::SequenceModelOptions& options) const override {
    options.vocabulary = model_.vocabulary;
    options.features = 1;
    options.outputs = model_.outputs;
    options.decoder = model_.last > 0 ? nn::Decoder::last : nn::Decoder::pool;
    options.last = std::max<int64_t>(model_.last, 1);
  }
  std::vector<Split> splits() const override { return {Split::train}; }
  int64_t size(Split) const override { return model_.batch; }
  Batch batch(Split, int64_t, std::span<const int64_t> indices) const override {
    const auto count = static_cast<int64_t>(indices.size());
    const int64_t length = model_.sizes.length;
    Batch batch;
    batch.input = model_.vocabulary > 0 ? at::randint(model_.vocabulary, {count, length}, at::kLong)
                                        : at::randn({count, length, 1});
    batch.target = at::randint(model_.outputs, {count, std::max<int64_t>(model_.last, 1)}, at::kLong);
    return batch;
  }
  std::string selection() const override { return "loss"; }
  bool higher_is_better() const override { return false; }

 private:
  Model model_;
};

// Share of the GPU's time by kernel over `steps` steps.
void print_profile(const std::function<void()>& step, int64_t steps, c10::Device device) {
  namespace profiler = torch::autograd::profiler;
  const torch::profiler::impl::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO);
  const std::set<torch::profiler::impl::ActivityType> activities = {torch::profiler::impl::ActivityType::CUDA};
  profiler::prepareProfiler(config, activities);
  profiler::enableProfiler(config, activities);
  for (int64_t i = 0; i < steps; ++i) step();
  synchronize(device);
  const auto result = profiler::disableProfiler();
  struct Entry {
    double nanoseconds = 0;
    int64_t calls = 0;
  };
  std::map<std::string, Entry> entries;
  double total = 0;
  uint64_t begin = UINT64_MAX, end = 0;
  for (const profiler::KinetoEvent& event : result->events()) {
    if (event.deviceType() != c10::kCUDA) continue;
    Entry& entry = entries[event.name()];
    entry.nanoseconds += static_cast<double>(event.durationNs());
    ++entry.calls;
    total += static_cast<double>(event.durationNs());
    begin = std::min(begin, event.startNs());
    end = std::max(end, event.endNs());
  }
  std::vector<std::pair<std::string, Entry>> sorted(entries.begin(), entries.end());
  std::sort(sorted.begin(), sorted.end(), [](auto& x, auto& y) { return x.second.nanoseconds > y.second.nanoseconds; });
  const double count = static_cast<double>(steps), span = static_cast<double>(end - begin);
  std::fprintf(stderr, "%6s %9s %6s  kernel\n", "share", "us/step", "calls");
  for (const auto& [name, entry] : sorted) {
    std::fprintf(stderr, "%5.1f%% %9.1f %6.1f  %s\n", 100 * entry.nanoseconds / span, entry.nanoseconds / 1e3 / count,
                 static_cast<double>(entry.calls) / count, name.substr(0, 150).c_str());
  }
  std::fprintf(stderr, "%5.1f%% %9.1f         no kernel running\n", 100 * (1 - total / span),
               (span - total) / 1e3 / count);
}

void measure(const Model& model, const std::string& precision, const std::string& device_name, double seconds,
             bool profile) {
  Config config;
  config.model = model.sizes;
  config.optimizer.weight_decay = 0.05;
  config.train.batch = model.batch;
  config.train.precision = precision;
  config.train.device = device_name;
  const c10::Device device = set_up_torch(config.train);
  c10::cuda::CUDACachingAllocator::emptyCache();
  c10::cuda::CUDACachingAllocator::resetPeakStats(device.index());
  const RandomData task(model);
  nn::SequenceModel backbone = make_model(config, task, device);
  backbone->train();
  NamedTensors parameters;
  for (const auto& item : backbone->named_parameters()) parameters.emplace_back(item.key(), item.value());
  Optimizer optimizer(parameters, {}, config.optimizer);
  Profile unused;
  TrainingStep training(backbone, task, optimizer, config.train, device, unused, make_graph);
  const std::vector<int64_t> indices(static_cast<std::size_t>(model.batch));
  BatchStream batches([&](int64_t) { return task.batch(Split::train, 0, indices); }, INT64_MAX, ahead_for(device));

  int64_t done = 0;
  double loss = 0;
  const auto step = [&] {
    const Batch batch = batches.take(done);
    training.run(done++, 0, {&batch, 1});
    while (const auto result = training.result(false)) loss = result->loss;
  };
  using Clock = std::chrono::steady_clock;
  const auto time = [&](int64_t steps) {
    synchronize(device);
    const Clock::time_point begin = Clock::now();
    for (int64_t i = 0; i < steps; ++i) step();
    synchronize(device);
    return 1e3 * std::chrono::duration<double>(Clock::now() - begin).count() / static_cast<double>(steps);
  };
  time(10);
  // The median of twenty stretches that are long against a synchronisation.
  const auto stretch = std::max<int64_t>(2, static_cast<int64_t>(50 * seconds / time(5)));
  std::vector<double> times;
  for (int i = 0; i < 20; ++i) times.push_back(time(stretch));
  std::nth_element(times.begin(), times.begin() + 10, times.end());
  while (const auto result = training.result(true)) loss = result->loss;

  using c10::CachingAllocator::StatType;
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(device.index());
  const auto all = static_cast<std::size_t>(StatType::AGGREGATE);
  std::printf(
      "{\"name\": \"%s\", \"precision\": \"%s\", \"ms_per_step\": %.4f, \"fastest_ms\": %.4f, \"peak_memory\": %lld, "
      "\"reserved_memory\": %lld, \"loss\": %.6g}\n",
      model.name.c_str(), precision.c_str(), times[10], *std::min_element(times.begin(), times.end()),
      static_cast<long long>(stats.allocated_bytes[all].peak), static_cast<long long>(stats.reserved_bytes[all].peak),
      loss);
  std::fflush(stdout);
  if (profile) print_profile(step, 10, device);
}

}  // namespace
}  // namespace rtf::train

int main(int argc, char** argv) {
  using namespace rtf::train;
  std::vector<std::string> precisions = {"tf32"};
  std::string device = "cuda";
  double seconds = 1;
  bool profile = false;
  Model model;
  model.sizes.init = "zero";
  model.sizes.initial_gain = "release";
  CLI::App app("A training step of a model on the GPU: milliseconds and peak memory, as JSON lines.");
  app.add_option("--precision", precisions, "fp32, tf32, bf16, fp64")->delimiter(',');
  app.add_option("--device", device, "cuda or cuda:N");
  app.add_option("--seconds", seconds, "of measuring, each (default 1)");
  app.add_flag("--profile", profile, "share of each kernel, on standard error");
  app.add_option("--name", model.name, "said in the output");
  app.add_option("--batch", model.batch);
  app.add_option("--length", model.sizes.length)->required();
  app.add_option("--channels", model.sizes.channels);
  app.add_option("--layers", model.sizes.layers);
  app.add_option("--order", model.sizes.order);
  app.add_option("--denominators", model.sizes.denominators);
  app.add_option("--norm", model.sizes.norm);
  app.add_option("--prenorm", model.sizes.prenorm);
  app.add_option("--bidirectional", model.sizes.bidirectional);
  app.add_option("--dropout", model.sizes.dropout);
  app.add_option("--inner-dropout", model.sizes.inner_dropout);
  app.add_option("--vocabulary", model.vocabulary, "0: numbers in");
  app.add_option("--last", model.last, "positions that are decoded; 0: their mean");
  app.add_option("--outputs", model.outputs);
  CLI11_PARSE(app, argc, argv);
  try {
    for (const std::string& precision : precisions) measure(model, precision, device, seconds, profile);
    return 0;
  } catch (const c10::Error& error) {
    std::fprintf(stderr, "training_cuda: %s\n", error.what_without_backtrace());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "training_cuda: %s\n", error.what());
  }
  return 2;
}
