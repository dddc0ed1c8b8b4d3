#include "train/task.h"

#include <ATen/ATen.h>
#include <ATen/core/Reduction.h>

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

std::unique_ptr<Task> make_task(const Config& config, at::ScalarType type) {
  const std::string& task = config.task.name;
  if (task == "copying") return make_copying(config);
  if (task == "delay") return make_delay(config, type);
  if (task == "reconstruct") return make_reconstruct(config, type);
  if (task == "smnist") return make_smnist(config, type);
  return make_arena(config, type);
}

void set_length(nn::SequenceModelOptions& model, int64_t length) {
  if (model.layer.length == 0) model.layer.length = length;
  if (model.layer.length < length) {
    throw Error(ErrorCode::argument, "task",
                "model.length is " + std::to_string(model.layer.length) + ", and the task's sequences have length " +
                    std::to_string(length));
  }
}

void Tally::add(double samples, const std::vector<at::Tensor>& means) {
  std::vector<at::Tensor> values;
  for (const at::Tensor& mean : means) values.push_back(mean.to(at::kDouble));
  const at::Tensor more = samples * at::stack(values);
  count += samples;
  sums = sums.defined() ? sums + more : more;
}

std::vector<double> Tally::means() const {
  const at::Tensor values = (sums / count).cpu();
  return {values.const_data_ptr<double>(), values.const_data_ptr<double>() + values.numel()};
}

// The mean apart from the losses: torch's own sums them one after the other on a GPU.
at::Tensor Classification::loss(const at::Tensor& output, const Batch& batch) const {
  return at::cross_entropy_loss(output.flatten(0, -2), batch.target.flatten(), {}, at::Reduction::None).mean();
}

void Classification::measure(const at::Tensor& output, const Batch& batch, Tally& tally) const {
  const at::Tensor right = output.argmax(-1).eq(batch.target.view(output.sizes().slice(0, output.dim() - 1)));
  tally.add(static_cast<double>(batch.input.size(0)), {loss(output, batch), right.to(at::kDouble).mean()});
}

Score Classification::score(const Tally& tally) const {
  const std::vector<double> means = tally.means();
  return {means.at(0), {means.at(1)}};
}

at::Tensor Regression::loss(const at::Tensor& output, const Batch& batch) const {
  return at::mse_loss(output, batch.target);
}

void Regression::measure(const at::Tensor& output, const Batch& batch, Tally& tally) const {
  tally.add(static_cast<double>(batch.input.size(0)), {loss(output, batch)});
}

// The root of the mean over all batches, not a mean of roots.
Score Regression::score(const Tally& tally) const {
  const double loss = tally.means().at(0);
  return {loss, {std::sqrt(loss)}};
}

}  // namespace rtf::train
