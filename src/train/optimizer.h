// AdamW with the parameter groups, schedules and clipping of the experiments, and an average of the weights.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "train/config.h"

namespace rtf::train {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// What the schedule makes of every base learning rate at a step, counted from 0. `config.total` must be given for a
// cosine.
double schedule_factor(const OptimizerConfig& config, int64_t step);

class Optimizer {
 public:
  // A layer's a, b and h0, or A, B and P, take optimizer.ssm_lr and optimizer.ssm_weight_decay; dt takes
  // optimizer.dt_lr. Parameters whose learning rate is 0 are not trained: they stop requiring gradients. `buffers`, the
  // running statistics, are averaged like weights.
  Optimizer(const NamedTensors& parameters, const NamedTensors& buffers, const OptimizerConfig& config);

  void drop_gradients();                       // the next ones take their place
  void zero_gradients();                       // the next ones are added to zeros
  void gradient_norm(at::Tensor& norm) const;  // over all parameters, into a float64 number on their device

  // A step is begin_step(), where the host sets what differs from step to step, and then update(), which runs on the
  // parameters' device without waiting for it, so that a graph can replay it.
  void begin_step();
  // With the gradients that the parameters hold, clipped by their norm. Where `skip`, a float, is 1, the parameters
  // stay as they are.
  void update(const at::Tensor& gradient_norm, const at::Tensor& skip);

  double lr() const { return config_.lr * schedule_factor(config_, steps_); }  // of the next step
  void set_steps(int64_t steps);

  // Live tensors: optimizer.exp_avg.<name>, optimizer.exp_avg_sq.<name> and, with averaging, ema.<name>.
  NamedTensors state() const;
  const NamedTensors& trained() const { return trained_; }

 private:
  bool on_gpu() const;

  friend class AveragedWeights;
  struct Group {
    double lr, weight_decay;
    std::vector<at::Tensor> parameters, exp_avg, exp_avg_sq;
    at::Tensor current_lr = {};  // of the step, on the device
  };

  OptimizerConfig config_;
  NamedTensors trained_, state_;
  std::vector<Group> groups_;
  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> averaged_, averages_;  // what is averaged, and its averages; empty without averaging
  int64_t steps_ = 0;
  at::Tensor count_;  // the same on the device
  at::Tensor rates_;  // the groups' learning rates there, and the factor that they were set with
  double factor_ = -1;
};

// While it lives, parameters and buffers hold their averages, if there are any: the weights that are evaluated.
class AveragedWeights {
 public:
  explicit AveragedWeights(Optimizer& optimizer);
  ~AveragedWeights();
  AveragedWeights(const AveragedWeights&) = delete;
  AveragedWeights& operator=(const AveragedWeights&) = delete;

 private:
  Optimizer& optimizer_;
  std::vector<at::Tensor> kept_;
};

}  // namespace rtf::train
