#include "train/optimizer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adamw.h>

#include <numbers>

#include "temporary_folder.h"

namespace rtf::train {
namespace {

using test::error_of;

at::Tensor parameter(std::initializer_list<int64_t> shape, int64_t seed) {
  at::Tensor values = at::empty(shape, at::kDouble);
  double* data = values.mutable_data_ptr<double>();
  for (int64_t i = 0; i < values.numel(); ++i) data[i] = std::sin(static_cast<double>(7 * i + 3 * seed));
  return values.set_requires_grad(true);
}

NamedTensors model_like() {
  return {{"encoder.weight", parameter({3, 4}, 1)},
          {"blocks.0.layer.a", parameter({1, 5}, 2)},
          {"blocks.0.layer.b", parameter({3, 5}, 3)},
          {"blocks.0.layer.h0", parameter({3}, 4)},
          {"blocks.0.layer.sigma", parameter({1}, 5)}};
}

// Some loss in which every parameter counts, differently at each step.
at::Tensor loss_of(const NamedTensors& parameters, int step) {
  at::Tensor sum = at::zeros({}, at::kDouble);
  for (const auto& [name, p] : parameters) sum = sum + (p * (step + 1.5)).sin().sum() + p.pow(4).sum();
  return sum;
}

at::Tensor norm_of(const Optimizer& optimizer) {
  at::Tensor norm = at::empty({}, at::kDouble);
  optimizer.gradient_norm(norm);
  return norm;
}

void take_step(Optimizer& optimizer) {
  optimizer.begin_step();
  optimizer.update(norm_of(optimizer), at::zeros({}, at::kFloat));
}

void expect_same(const NamedTensors& x, const NamedTensors& y, double tolerance) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_LT((x[i].second - y[i].second).abs().max().item<double>(), tolerance) << x[i].first;
  }
}

TEST(Optimizer, IsTorchsAdamWWithTheGroupsAndClipping) {
  OptimizerConfig config;
  config.lr = 0.02;
  config.weight_decay = 0.1;
  config.ssm_lr = 0.005;
  config.ssm_weight_decay = 0.3;
  config.beta1 = 0.8;
  config.beta2 = 0.95;
  config.eps = 1e-6;
  config.clip = 2;
  config.schedule = "cosine";
  config.warmup = 5;
  config.total = 30;
  const NamedTensors ours = model_like(), theirs = model_like();
  Optimizer optimizer(ours, {}, config);

  const auto group = [&](std::vector<at::Tensor> parameters, double lr, double weight_decay) {
    return torch::optim::OptimizerParamGroup(
        std::move(parameters),
        std::make_unique<torch::optim::AdamWOptions>(
            torch::optim::AdamWOptions(lr).betas({0.8, 0.95}).eps(1e-6).weight_decay(weight_decay)));
  };
  torch::optim::AdamW reference({group({theirs[0].second, theirs[4].second}, 0.02, 0.1),
                                 group({theirs[1].second, theirs[2].second, theirs[3].second}, 0.005, 0.3)});
  for (int step = 0; step < 30; ++step) {
    optimizer.drop_gradients();
    loss_of(ours, step).backward();
    take_step(optimizer);

    reference.zero_grad();
    loss_of(theirs, step).backward();
    std::vector<at::Tensor> all;
    for (const auto& [name, p] : theirs) all.push_back(p);
    torch::nn::utils::clip_grad_norm_(all, 2);
    for (auto& each : reference.param_groups()) {
      auto& options = static_cast<torch::optim::AdamWOptions&>(each.options());
      const double base = &each == &reference.param_groups()[0] ? 0.02 : 0.005;
      options.lr(base * schedule_factor(config, step));
    }
    reference.step();
  }
  // Rounding of 30 steps whose sizes add up to less than 1.
  expect_same(ours, theirs, 1e-13);
}

TEST(Optimizer, ScheduleIsWarmUpThenCosine) {
  OptimizerConfig config;
  config.schedule = "cosine";
  config.warmup = 10;
  config.total = 110;
  EXPECT_EQ(schedule_factor(config, 0), 0);
  EXPECT_EQ(schedule_factor(config, 5), 0.5);
  EXPECT_EQ(schedule_factor(config, 10), 1);
  for (const int step : {11, 37, 60, 99, 109}) {
    EXPECT_DOUBLE_EQ(schedule_factor(config, step), 0.5 * (1 + std::cos(std::numbers::pi * (step - 10) / 100.0)));
  }
  EXPECT_NEAR(schedule_factor(config, 110), 0, 1e-16);
  config.schedule = "constant";
  EXPECT_EQ(schedule_factor(config, 5), 0.5);
  EXPECT_EQ(schedule_factor(config, 1000), 1);
  config.warmup = 0;
  EXPECT_EQ(schedule_factor(config, 0), 1);
}

TEST(Optimizer, ALearningRateOfZeroFreezesAGroup) {
  OptimizerConfig config;
  config.lr = 0.1;
  config.ssm_lr = 0;
  NamedTensors parameters;
  for (const char* name : {"a_real", "a_imag", "b", "p", "dt", "c", "d"})
    parameters.emplace_back(std::string("blocks.0.layer.") + name, at::ones({2}, at::kDouble).set_requires_grad(true));
  EXPECT_EQ(Optimizer(parameters, {}, config).trained().size(), 2u);
  config.dt_lr = 0.02;
  EXPECT_EQ(Optimizer(parameters, {}, config).trained().size(), 3u);
}

TEST(Optimizer, FallsBackToTheGlobalValuesAndFreezesAtZero) {
  OptimizerConfig config;
  config.lr = 0.01;
  config.ssm_lr = 0;
  const NamedTensors parameters = model_like(), before = model_like();
  Optimizer frozen(parameters, {}, config);
  EXPECT_EQ(frozen.trained().size(), 2u);
  EXPECT_FALSE(parameters[1].second.requires_grad());
  loss_of(parameters, 0).backward();
  take_step(frozen);
  EXPECT_TRUE(at::equal(parameters[1].second, before[1].second));
  EXPECT_FALSE(at::equal(parameters[0].second, before[0].second));
  config.ssm_lr.reset();
  EXPECT_EQ(Optimizer(model_like(), {}, config).trained().size(), 5u);
  config.lr = 0;
  EXPECT_NE(error_of([&] { Optimizer(model_like(), {}, config); }).find("nothing is trained"), std::string::npos);
}

TEST(Optimizer, AverageFollowsItsFormulaAndIsPutBack) {
  OptimizerConfig config;
  config.lr = 0.1;
  config.ema = 0.75;
  const NamedTensors parameters = model_like();
  const at::Tensor statistics = at::zeros({2}, at::kDouble);
  Optimizer optimizer(parameters, {{"norm.running_mean", statistics}}, config);
  at::Tensor average = parameters[0].second.detach().clone(), average_statistics = statistics.clone();
  for (int step = 0; step < 4; ++step) {
    optimizer.drop_gradients();
    loss_of(parameters, step).backward();
    statistics.fill_(step + 1);
    take_step(optimizer);
    average = 0.75 * average + 0.25 * parameters[0].second.detach();
    average_statistics = 0.75 * average_statistics + 0.25 * statistics;
  }
  const at::Tensor trained = parameters[0].second.detach().clone();
  {
    const AveragedWeights guard(optimizer);
    EXPECT_LT((parameters[0].second - average).abs().max().item<double>(), 1e-15);
    EXPECT_LT((statistics - average_statistics).abs().max().item<double>(), 1e-15);
  }
  EXPECT_EQ(statistics[0].item<double>(), 4);
  EXPECT_TRUE(at::equal(parameters[0].second, trained));
}

TEST(Optimizer, ASkippedStepLeavesParametersAndGradients) {
  OptimizerConfig config;
  config.lr = 0.1;
  config.clip = 1e-3;
  const NamedTensors parameters = model_like(), before = model_like();
  Optimizer optimizer(parameters, {}, config);
  loss_of(parameters, 0).backward();
  const at::Tensor gradient = parameters[0].second.grad().clone();
  optimizer.begin_step();
  optimizer.update(norm_of(optimizer), at::ones({}, at::kFloat));
  expect_same(parameters, before, 1e-300);
  EXPECT_TRUE(at::equal(parameters[0].second.grad(), gradient));
  for (const auto& [name, tensor] : optimizer.state()) EXPECT_EQ(tensor.abs().max().item<double>(), 0) << name;
}

TEST(Optimizer, ZeroedGradientsAddUp) {
  const NamedTensors parameters = model_like();
  Optimizer optimizer(parameters, {}, OptimizerConfig());
  optimizer.zero_gradients();
  loss_of(parameters, 0).backward();
  const at::Tensor one = parameters[0].second.grad().clone();
  loss_of(parameters, 0).backward();
  EXPECT_TRUE(at::equal(parameters[0].second.grad(), 2 * one));
  optimizer.zero_gradients();
  EXPECT_EQ(norm_of(optimizer).item<double>(), 0);
}

// A second optimiser that gets the state goes on with the same bits.
TEST(Optimizer, StateCarriesOn) {
  OptimizerConfig config;
  config.lr = 0.1;
  config.ema = 0.9;
  config.warmup = 10;
  const NamedTensors one = model_like(), two = model_like();
  Optimizer first(one, {}, config), second(two, {}, config);
  const auto step = [](Optimizer& optimizer, const NamedTensors& parameters, int s) {
    optimizer.drop_gradients();
    loss_of(parameters, s).backward();
    take_step(optimizer);
  };
  for (int s = 0; s < 3; ++s) step(first, one, s);
  {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < one.size(); ++i) two[i].second.copy_(one[i].second);
    const NamedTensors from = first.state(), to = second.state();
    for (std::size_t i = 0; i < from.size(); ++i) to[i].second.copy_(from[i].second);
  }
  second.set_steps(3);
  for (int s = 3; s < 6; ++s) {
    step(first, one, s);
    step(second, two, s);
  }
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(at::equal(one[i].second, two[i].second)) << one[i].first;
  for (std::size_t i = 0; i < first.state().size(); ++i)
    EXPECT_TRUE(at::equal(first.state()[i].second, second.state()[i].second)) << first.state()[i].first;
}

}  // namespace
}  // namespace rtf::train
