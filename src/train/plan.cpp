#include "train/plan.h"

#include <algorithm>

#include "rtf/error.h"
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
  const int64_t eval_batch = train.eval_batch ? train.eval_batch : train.batch;
  for (const Split split : task.splits()) {
    if (split == Split::train || eval_batch <= task.size(split)) continue;
    fail(setting(train.eval_batch ? "train.eval_batch" : "train.batch", eval_batch) + ", and the " + name(split) +
         " split has " + std::to_string(task.size(split)) + " samples");
  }
}

// A stream is one chunk a batch unless the config cuts it shorter.
void plan_chunks(const Config& config, const Task& task, Plan& plan) {
  const TrainConfig& train = config.train;
  const nn::SequenceModelOptions model = model_options(config, task);
  const std::string carried =
      train.chunk > 0 ? setting("train.chunk", train.chunk) : "task " + config.task.name + " is a stream";
  if (model.layer.bidirectional) fail(carried + ", which needs a causal model; model.bidirectional is true");
  if (model.decoder != nn::Decoder::position) {
    fail(carried + ", which needs a target at every position; task " + config.task.name + " has none");
  }
  if (train.accumulate > 1) {
    fail(carried + ", which excludes accumulation; " + setting("train.accumulate", train.accumulate));
  }
  if (model.layer.kernel_dropout > 0)
    fail(carried + ", which makes no kernel that model.kernel_dropout could drop from");

  const int64_t first[] = {0};
  const int64_t length = task.batch(Split::train, 0, first).input.size(1);
  plan.chunk = train.chunk > 0 ? std::min(train.chunk, length) : length;
  plan.chunks = (length + plan.chunk - 1) / plan.chunk;
}

}  // namespace

Plan make_plan(Config& config, const Task& task) {
  const TrainConfig& train = config.train;
  check_batches(train, task);
  Plan plan;
  plan.batches = task.size(Split::train) / (train.batch * train.accumulate) * train.accumulate;
  if (train.chunk > 0 || task.in_order()) plan_chunks(config, task, plan);
  plan.steps = train.epochs * (plan.batches / train.accumulate) * plan.chunks;
  if (train.steps > 0) plan.steps = std::min(plan.steps, train.steps);

  OptimizerConfig& optimizer = config.optimizer;
  if (optimizer.schedule == "cosine") {
    // It goes into the run's config, so that a longer run does not bend the schedule.
    if (optimizer.total == 0) optimizer.total = plan.steps;
    if (plan.steps > optimizer.total) {
      fail("the run has " + std::to_string(plan.steps) + " steps and " + setting("optimizer.total", optimizer.total) +
           ", after which the cosine would rise again");
    }
  }
  return plan;
}

}  // namespace rtf::train
