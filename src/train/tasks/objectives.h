// What tasks of one kind share: the loss and the metrics.
#pragma once

#include "train/task.h"

namespace rtf::train {

// Classes at one or several positions: cross-entropy averaged over all targets, and the share of right answers.
class Classification : public Task {
 public:
  at::Tensor loss(const at::Tensor& output, const Batch& batch) const override;
  std::vector<std::string> metrics() const override { return {"accuracy"}; }
  void measure(const at::Tensor& output, const Batch& batch, Tally& tally) const override;
  Score score(const Tally& tally) const override;
};

// Numbers: mean squared error over all of them, and its root.
class Regression : public Task {
 public:
  at::Tensor loss(const at::Tensor& output, const Batch& batch) const override;
  std::vector<std::string> metrics() const override { return {"rmse"}; }
  void measure(const at::Tensor& output, const Batch& batch, Tally& tally) const override;
  Score score(const Tally& tally) const override;
  std::string selection() const override { return "loss"; }
  bool higher_is_better() const override { return false; }
};

}  // namespace rtf::train
