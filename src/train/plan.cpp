#include "train/plan.h"

#include <algorithm>
#include <limits>

#include "rtf/error.h"
#include "train/evaluation.h"
#include "train/model_setup.h"

namespace rtf::train {
namespace {

[[noreturn]] void fail(const std::string& why) { throw Error(ErrorCode::argument, "train", why); }

std::string setting(const char* key, int64_t value) { return std::string(key) + " is " + std::to_string(value); }

void check_batches(const TrainConfig& train, const Task& task) {
  if (const int64_t size = task.size(Split::train); train.batch * train.accumulate > size) {
    fail(setting("train.batch", train.batch) + " and " + setting("train.accumulate", train.accumulate) +
         ", and an epoch has " + std::to_string(size) + " samples");
  }
  for (const Split split : task.splits()) {
    if (split != Split::train) (void)evaluation_batch(train, task, split);
  }
}

// Of one position there is no variance.
void check_batch_norm(const Config& config, const Plan& plan, int64_t length) {
  const TrainConfig& train = config.train;
  const int64_t rest = plan.chunk > 0 ? length % plan.chunk : 0;
  const int64_t shortest = rest > 0 ? rest : plan.chunk > 0 ? plan.chunk : length;
  if (config.model.norm != "batch" || train.batch * shortest > 1) return;
  fail("model.norm is batch, which needs more than one position; " + setting("train.batch", 1) + " and " +
       (train.chunk > 0 ? setting("train.chunk", train.chunk) + ", which leaves a chunk of one sample"
                        : "sequences have one sample"));
}

// A stream is one chunk a batch unless the config cuts it shorter.
void plan_chunks(const Config& config, const Task& task, int64_t length, Plan& plan) {
  const TrainConfig& train = config.train;
  const nn::SequenceModelOptions model = model_options(config, task);
  const std::string carried =
      train.chunk > 0 ? setting("train.chunk", train.chunk) : "task " + config.task.name + " is a stream";
  if (model.decoder != nn::Decoder::position) {
    fail(carried + ", which needs a target at every position; task " + config.task.name + " has none");
  }
  if (train.accumulate > 1) {
    fail(carried + ", which excludes accumulation; " + setting("train.accumulate", train.accumulate));
  }
  if (model.layer.kernel_dropout > 0)
    fail(carried + ", which makes no kernel that model.kernel_dropout could drop from");

  plan.chunk = train.chunk > 0 ? std::min(train.chunk, length) : length;
  plan.chunks = (length + plan.chunk - 1) / plan.chunk;
}

}  // namespace

Plan make_plan(Config& config, const Task& task) {
  const TrainConfig& train = config.train;
  check_batches(train, task);
  Plan plan;
  plan.batches = task.size(Split::train) / (train.batch * train.accumulate) * train.accumulate;
  const int64_t first[] = {0};
  const int64_t length = task.batch(Split::train, 0, first).input.size(1);
  if (train.chunk > 0 || task.in_order()) plan_chunks(config, task, length, plan);
  check_batch_norm(config, plan, length);

  const int64_t epoch = plan.batches / train.accumulate * plan.chunks;
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  const bool endless = epoch > most / train.epochs;
  if (endless && train.steps == 0) {
    fail(setting("train.epochs", train.epochs) + " of " + std::to_string(epoch) + " steps each, more than the " +
         std::to_string(most) + " of a run; train.steps can end it earlier");
  }
  plan.steps = endless ? train.steps : train.epochs * epoch;
  if (train.steps > 0) plan.steps = std::min(plan.steps, train.steps);

  OptimizerConfig& optimizer = config.optimizer;
  if (optimizer.schedule == "cosine") {
    // It goes into the run's config, so that a longer run does not bend the schedule.
    if (optimizer.total == 0) {
      if (optimizer.warmup >= plan.steps) {
        fail(setting("optimizer.warmup", optimizer.warmup) + ", and the run has " + std::to_string(plan.steps) +
             " steps: nothing is left for the cosine");
      }
      optimizer.total = plan.steps;
    }
    if (plan.steps > optimizer.total) {
      fail("the run has " + std::to_string(plan.steps) + " steps and " + setting("optimizer.total", optimizer.total) +
           ", after which the cosine would rise again; a longer schedule is a new run");
    }
  }
  return plan;
}

}  // namespace rtf::train
