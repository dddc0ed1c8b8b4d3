#include "train/launch.h"

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <iostream>

#include "core/atomic_file.h"
#include "rtf/error.h"
#include "train/checkpoint.h"
#include "train/evaluation.h"
#include "train/interrupt.h"
#include "train/model_setup.h"
#include "train/plain_errors.h"
#include "train/recorder.h"
#include "train/stop_line.h"
#include "train/trainer.h"

namespace rtf::train {
namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void fail(const std::string& why, ErrorCode code = ErrorCode::argument) {
  throw Error(code, "train", why);
}

// `call` with torch's errors as one line each.
template <class F>
auto with_plain_errors(F&& call) {
  return plain_errors("train",
                      {"not enough memory for a model and batches of these sizes",
                       "the device has not enough memory for a model and batches of these sizes; a smaller train.batch "
                       "(train.accumulate makes up for it) or train.eval_batch, or train.precision=bf16, needs less"},
                      std::forward<F>(call));
}

std::string short_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

// When the run has to stop.
Clock::time_point end_of(const LaunchOptions& options) {
  using Minutes = std::chrono::duration<double, std::ratio<60>>;
  const Clock::time_point now = Clock::now(), never = Clock::time_point::max();
  // The clock counts in 64 bits, up to some centuries.
  const Minutes minutes(options.minutes > 0 ? options.minutes : 1e300);
  return minutes >= Minutes(never - now) / 2 ? never : now + std::chrono::duration_cast<Clock::duration>(minutes);
}

// `begin` is called when everything has been checked.
int go(
    Trainer& trainer, const RunFolder& folder, bool resumed, const LaunchOptions& options, Clock::time_point end,
    const std::function<void()>& begin = [] {}) {
  const Task& task = trainer.task();
  const InterruptHandler interrupts;
  bool finished;
  {
    Recorder recorder(folder, trainer.config(), task.metrics(), task.selection(), trainer.total_steps(),
                      resumed ? std::optional(trainer.position().step) : std::nullopt, options.quiet);
    begin();
    finished = trainer.run(folder, recorder, [&] { return InterruptHandler::signal() != 0 || Clock::now() >= end; });
  }
  const Position& position = trainer.position();
  if (options.profile) std::cout << trainer.profile().table();
  if (!finished) {
    const int signal = InterruptHandler::signal();
    std::cerr << "rtf train: " << (signal ? "interrupted" : "stopped after " + short_text(options.minutes) + " minutes")
              << " at step " << position.step << "; go on with: rtf train --resume " << folder.path() << "\n";
    return signal ? 128 + signal : 0;
  }
  if (!options.quiet) {
    std::cout << "finished: " << position.step << " steps in " << short_text(position.seconds) << " s";
    if (position.best) {
      std::cout << ", best val " << task.selection() << " " << short_text(*position.best) << " at step "
                << position.best_step;
    }
    std::cout << "; everything is in " << folder.path() << "\n";
  }
  return 0;
}

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

// Keys that change what is computed would make it another run.
void require_harmless(const std::vector<std::string>& overrides) {
  for (const std::string& override : overrides) {
    const std::string key = override.substr(0, override.find('='));
    if (may_change(key)) continue;
    fail("'" + key + "' cannot change when a run goes on; train.epochs, train.steps, train.device, train.threads, " +
         "data.path, data.cache, checkpoint.* and log.* can");
  }
}

// A kill may fall before the first checkpoint: then the run begins again. A run that has lost its checkpoints does not.
void begin_again(const RunFolder& folder, const LaunchOptions& options) {
  const std::optional<RunStatus> status = read_status(folder);
  // The step of a failure is that of no checkpoint.
  if (status && status->step > 0 && status->state != RunState::failed) {
    fail(folder.checkpoints() + " has neither " + latest_file + " nor " + previous_file + ", and the run was at step " +
         std::to_string(status->step) + "; put them back" +
         (exists(folder.best()) ? ", or go on with: rtf train --resume " + folder.path() + " --from best" : ""));
  }
  if (!options.quiet) std::cerr << "rtf train: " << folder.path() << " has no checkpoint yet and begins again\n";
}

}  // namespace

int start_run(const Config& config, const std::string& path, const LaunchOptions& options) {
  const Clock::time_point end = end_of(options);  // reading the data counts
  return with_plain_errors([&] {
    Trainer trainer(config);
    const RunFolder folder = RunFolder::create(path);
    const RunLock lock(folder);
    folder.begin(trainer.config());
    return go(trainer, folder, false, options, end);
  });
}

int resume_run(const std::string& path, const std::string& from, const std::vector<std::string>& overrides,
               const LaunchOptions& options) {
  const Clock::time_point end = end_of(options);
  const RunFolder folder = RunFolder::open(path);
  require_harmless(overrides);
  const RunLock lock(folder);
  const Config config = load_config(folder.config(), overrides);
  remove_temporaries(folder.checkpoints());

  std::string checkpoint = folder.checkpoint(from);
  if (from == "latest" && !exists(checkpoint)) checkpoint = folder.previous();
  const bool restores = from != "latest" || exists(checkpoint);
  if (!restores) begin_again(folder, options);
  return with_plain_errors([&] {
    Trainer trainer(config);
    try {
      if (restores) trainer.restore(checkpoint);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::format || from != "latest" || !exists(folder.previous())) throw;
      fail(without_operation(error.what()) + "; go on with: rtf train --resume " + path + " --from previous",
           error.code());
    }
    std::optional<StagedFile> changed;
    if (!overrides.empty()) changed.emplace(folder.config(), to_yaml(trainer.config()), "train");
    return go(trainer, folder, true, options, end, [&] {
      if (restores && checkpoint != folder.latest()) make_latest(folder.checkpoints(), checkpoint);
      if (changed) changed->commit();
    });
  });
}

RunReport evaluate_run(const std::string& path, const std::string& checkpoint, const std::string& split,
                       const std::string& mode, const std::string& device_name) {
  const RunFolder folder = RunFolder::open(path);
  Config config = load_config(folder.config());
  if (!device_name.empty()) {
    std::vector<std::string> overrides = {"train.device=" + device_name};
    // What a GPU computes in tf32 or bf16 has weights in float32.
    if (device_name == "cpu" && config.train.precision != "fp64") overrides.push_back("train.precision=fp32");
    config = load_config(folder.config(), overrides);
  }
  // A pooled answer at every position is a running sum, which torch has no reproducible form of on a GPU.
  if (mode != "convolution" && config.train.device != "cpu") config.train.deterministic = false;
  const Mode way = mode == "step" ? Mode::step : mode == "prefill" ? Mode::prefill : Mode::convolution;
  return with_plain_errors([&] {
    RunReport report;
    report.checkpoint = folder.weights(checkpoint);
    const c10::Device device = set_up_torch(config.train);
    const Checkpoint saved = read_checkpoint(report.checkpoint);
    report.step = saved.position.step;
    report.epoch = saved.position.epoch;
    const std::unique_ptr<Task> task = make_task(config, number_type(config.train));
    nn::SequenceModel model = make_model(config, *task, device);
    load_tensors(saved, model_tensors(model), "model.", report.checkpoint);
    load_averages(saved, model);

    std::vector<Split> chosen;
    std::string known;
    for (const Split each : task->splits()) {
      known += (known.empty() ? "" : ", ") + std::string(name(each));
      if (split.empty() ? each != Split::train : split == name(each)) chosen.push_back(each);
    }
    if (chosen.empty()) fail("task " + config.task.name + " has no split '" + split + "'; it has " + known);
    for (const Split each : chosen) {
      PartialEvaluation done;
      const Evaluation evaluation =
          evaluate(model, *task, each, evaluation_batch(config.train, *task, each), way, done);
      SplitReport row{name(each), evaluation.samples, {{"loss", evaluation.score.loss}}, {}};
      const std::vector<std::string> metrics = task->metrics();
      for (std::size_t i = 0; i < metrics.size(); ++i) row.scores.emplace_back(metrics[i], evaluation.score.metrics[i]);
      if (way != Mode::convolution) row.difference = evaluation.difference;
      report.splits.push_back(std::move(row));
    }
    return report;
  });
}

}  // namespace rtf::train
