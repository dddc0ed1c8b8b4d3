#include "train/task.h"

#include <ATen/Functions.h>

#include <cmath>

#include "rtf/error.h"
#include "train/tasks/objectives.h"
#include "train/tasks/tasks.h"

namespace rtf::train {

const char* name(Split split) {
  switch (split) {
    case Split::train:
      return "train";
    case Split::val:
      return "val";
    default:
      return "test";
  }
}

std::unique_ptr<Task> make_task(const Config& config, const at::TensorOptions& like) {
  const std::string& task = config.task.name;
  if (task == "copying") return make_copying(config, like);
  if (task == "delay") return make_delay(config, like);
  if (task == "reconstruct") return make_reconstruct(config, like);
  if (task == "smnist") return make_smnist(config, like);
  throw Error(ErrorCode::argument, "task",
              "task.name is '" + task + "'; expected one of copying, delay, reconstruct, smnist");
}

void set_length(nn::SequenceModelOptions& model, int64_t length) {
  if (model.layer.length == 0) model.layer.length = length;
  if (model.layer.length < length) {
    throw Error(ErrorCode::argument, "task",
                "model.length is " + std::to_string(model.layer.length) + ", and the task's sequences have length " +
                    std::to_string(length));
  }
}

at::Tensor Classification::loss(const at::Tensor& output, const Batch& batch) const {
  return at::cross_entropy_loss(output.flatten(0, -2), batch.target.flatten());
}

void Classification::measure(const at::Tensor& output, const Batch& batch, Tally& tally) const {
  const double samples = static_cast<double>(batch.input.size(0));
  const at::Tensor right = output.argmax(-1).eq(batch.target.view(output.sizes().slice(0, output.dim() - 1)));
  tally.metrics.resize(1);
  tally.count += samples;
  tally.loss += samples * loss(output, batch).item<double>();
  tally.metrics[0] += samples * right.to(at::kDouble).mean().item<double>();
}

Score Classification::score(const Tally& tally) const {
  return {tally.loss / tally.count, {tally.metrics.at(0) / tally.count}};
}

at::Tensor Regression::loss(const at::Tensor& output, const Batch& batch) const {
  return at::mse_loss(output, batch.target);
}

void Regression::measure(const at::Tensor& output, const Batch& batch, Tally& tally) const {
  const double samples = static_cast<double>(batch.input.size(0));
  tally.count += samples;
  tally.loss += samples * loss(output, batch).item<double>();
}

// The root of the mean over all batches, not a mean of roots.
Score Regression::score(const Tally& tally) const {
  return {tally.loss / tally.count, {std::sqrt(tally.loss / tally.count)}};
}

}  // namespace rtf::train
