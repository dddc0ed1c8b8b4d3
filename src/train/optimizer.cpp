#include "train/optimizer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <numbers>

#include "rtf/error.h"

namespace rtf::train {
namespace {

// Parameters of layers have short names, which nothing else in a model has.
enum class Kind { rest, ssm, dt };
Kind kind_of(const std::string& name) {
  const std::string last = name.substr(name.rfind('.') + 1);
  if (last == "dt") return Kind::dt;
  for (const char* ssm : {"a", "b", "h0", "a_real", "a_imag", "p"})
    if (last == ssm) return Kind::ssm;
  return Kind::rest;
}

}  // namespace

double schedule_factor(const OptimizerConfig& config, int64_t step) {
  if (step < config.warmup) return static_cast<double>(step) / static_cast<double>(config.warmup);
  if (config.schedule == "constant") return 1;
  const double along = static_cast<double>(step - config.warmup) / static_cast<double>(config.total - config.warmup);
  return std::max(0.0, 0.5 * (1 + std::cos(std::numbers::pi * along)));
}

Optimizer::Optimizer(const NamedTensors& parameters, const NamedTensors& buffers, const OptimizerConfig& config)
    : config_(config) {
  const auto average = [&](const std::string& name, const at::Tensor& tensor) {
    if (config.ema == 0) return;
    averaged_.push_back(tensor);
    averages_.push_back(tensor.detach().clone());
    state_.emplace_back("ema." + name, averages_.back());
  };
  const double ssm_lr = config.ssm_lr.value_or(config.lr);
  Group rest{config.lr, config.weight_decay, {}, {}, {}};
  const double ssm_weight_decay = config.ssm_weight_decay.value_or(config.weight_decay);
  Group ssm{ssm_lr, ssm_weight_decay, {}, {}, {}};
  Group dt{config.dt_lr.value_or(ssm_lr), ssm_weight_decay, {}, {}, {}};
  for (const auto& [name, parameter] : parameters) {
    const Kind kind = kind_of(name);
    Group& group = kind == Kind::ssm ? ssm : kind == Kind::dt ? dt : rest;
    if (group.lr == 0) {
      parameter.set_requires_grad(false);
      continue;
    }
    trained_.emplace_back(name, parameter);
    parameters_.push_back(parameter);
    group.parameters.push_back(parameter);
    group.exp_avg.push_back(at::zeros_like(parameter));
    group.exp_avg_sq.push_back(at::zeros_like(parameter));
    state_.emplace_back("optimizer.exp_avg." + name, group.exp_avg.back());
    state_.emplace_back("optimizer.exp_avg_sq." + name, group.exp_avg_sq.back());
    average(name, parameter);
  }
  for (const auto& [name, buffer] : buffers) average(name, buffer);
  if (trained_.empty()) {
    throw Error(ErrorCode::argument, "optimizer", "optimizer.lr and optimizer.ssm_lr are 0: nothing is trained");
  }
  for (Group& group : {std::ref(rest), std::ref(ssm), std::ref(dt)}) {
    if (!group.parameters.empty()) groups_.push_back(std::move(group));
  }
  // The fused update reads its numbers as float on a GPU, as double on the CPU.
  const auto options = parameters_[0].options().requires_grad(false);
  count_ = at::zeros({}, options.dtype(at::kFloat));
  rates_ = at::zeros({static_cast<int64_t>(groups_.size())}, options.dtype(on_gpu() ? at::kFloat : at::kDouble));
  for (std::size_t i = 0; i < groups_.size(); ++i) groups_[i].current_lr = rates_[static_cast<int64_t>(i)];
}

bool Optimizer::on_gpu() const { return !parameters_[0].is_cpu(); }

void Optimizer::drop_gradients() {
  for (const at::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
}

void Optimizer::zero_gradients() {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : parameters_) {
    if (!parameter.grad().defined()) parameter.mutable_grad() = at::empty_like(parameter);
    gradients.push_back(parameter.grad());
  }
  at::_foreach_zero_(gradients);
}

void Optimizer::gradient_norm(at::Tensor& norm) const {
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : parameters_) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  }
  if (gradients.empty()) {
    norm.zero_();
  } else {
    at::linalg_vector_norm_out(norm, at::stack(at::_foreach_norm(gradients)), 2, {}, /*keepdim=*/false, at::kDouble);
  }
}

void Optimizer::begin_step() {
  const double factor = schedule_factor(config_, steps_);
  ++steps_;
  if (factor == factor_) return;
  factor_ = factor;
  at::Tensor rates = at::empty(rates_.sizes(), at::TensorOptions().dtype(at::kDouble));
  for (std::size_t i = 0; i < groups_.size(); ++i) rates[static_cast<int64_t>(i)] = groups_[i].lr * factor;
  if (on_gpu()) rates = rates.to(at::kFloat).pin_memory();  // from where it is copied without waiting
  rates_.copy_(rates, /*non_blocking=*/true);
}

void Optimizer::update(const at::Tensor& gradient_norm, const at::Tensor& skip) {
  const at::NoGradGuard no_grad;
  at::Tensor scale;
  // The 1e-6 is that of torch's clip_grad_norm_.
  if (config_.clip > 0) {
    scale = (config_.clip / (gradient_norm + 1e-6)).clamp_max(1);
    scale.masked_fill_(skip.to(at::kBool), 1);  // the gradients of a step that is skipped are what one looks at
  }
  count_.add_(1);
  for (const Group& group : groups_) {
    std::vector<at::Tensor> parameters, gradients, exp_avg, exp_avg_sq;
    for (std::size_t i = 0; i < group.parameters.size(); ++i) {
      const at::Tensor& parameter = group.parameters[i];
      const at::Tensor& gradient = parameter.grad();
      if (!gradient.defined()) continue;
      parameters.push_back(parameter);
      // The fused loop walks both as flat arrays.
      gradients.push_back(gradient.strides() == parameter.strides() ? gradient : gradient.contiguous());
      exp_avg.push_back(group.exp_avg[i]);
      exp_avg_sq.push_back(group.exp_avg_sq[i]);
    }
    if (parameters.empty()) continue;
    if (scale.defined()) at::_foreach_mul_(gradients, scale.to(parameters[0].scalar_type()));
    const std::vector<at::Tensor> counts(parameters.size(), count_);
    at::_fused_adamw_(parameters, gradients, exp_avg, exp_avg_sq, {}, counts, group.current_lr, config_.beta1,
                      config_.beta2, group.weight_decay, config_.eps, /*amsgrad=*/false, /*maximize=*/false,
                      /*grad_scale=*/{}, skip);
  }
  if (!averages_.empty()) at::_foreach_lerp_(averages_, averaged_, 1 - config_.ema);
}

void Optimizer::set_steps(int64_t steps) {
  steps_ = steps;
  count_.fill_(steps);
}

NamedTensors Optimizer::state() const { return state_; }

AveragedWeights::AveragedWeights(Optimizer& optimizer) : optimizer_(optimizer) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < optimizer.averages_.size(); ++i) {
    kept_.push_back(optimizer.averaged_[i].detach().clone());
    optimizer.averaged_[i].copy_(optimizer.averages_[i]);
  }
}

AveragedWeights::~AveragedWeights() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < kept_.size(); ++i) optimizer_.averaged_[i].copy_(kept_[i]);
}

}  // namespace rtf::train
