// What holds of every kind of layer as the backbone sees it. Values are held against dense state spaces from Python
// (test_baselines.py).
#include "rtf_torch/baselines.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "rtf_torch/sequence_model.h"
#include "train/optimizer.h"

namespace rtf::nn {
namespace {

constexpr int64_t channels = 4, length = 12;

BaselineOptions baseline_of(SystemInit init) {
  BaselineOptions options;
  options.init = init;
  return options;
}

std::map<LayerKind, BaselineOptions> kinds() {
  return {{LayerKind::rtf, {}},
          {LayerKind::s4, baseline_of(SystemInit::legs)},
          {LayerKind::s4d, baseline_of(SystemInit::lin)},
          {LayerKind::s5, baseline_of(SystemInit::lecun_normal)},
          {LayerKind::spacetime, baseline_of(SystemInit::normal)}};
}

SequenceModel make_model(LayerKind kind, const BaselineOptions& baseline, bool bidirectional) {
  SequenceModelOptions options;
  options.layers = 1;
  options.kind = kind;
  options.baseline = baseline;
  options.layer.channels = channels;
  options.layer.order = 6;
  options.layer.length = length;
  options.layer.init = Init::montel;
  options.layer.bidirectional = bidirectional;
  options.outputs = 2;
  SequenceModel model(options);
  model->to(at::kDouble);
  return model;
}

LayerImpl& layer_of(const SequenceModel& model) {
  LayerImpl* layer = nullptr;
  for (const auto& module : model->modules())
    if (auto* found = dynamic_cast<LayerImpl*>(module.get())) layer = found;
  return *layer;
}

// One unit sample of the channels `on`.
at::Tensor impulse(const at::Tensor& on, int64_t at) {
  const at::Tensor u = at::zeros({1, length, channels}, at::kDouble);
  u.select(1, at).copy_(on);
  return u;
}

TEST(Baselines, TheKernelIsTheAnswerToAnImpulse) {
  const at::NoGradGuard no_grad;
  const at::Tensor all = at::ones({channels}, at::kDouble);
  for (const auto& [kind, baseline] : kinds()) {
    for (const bool bidirectional : {false, true}) {
      const SequenceModel model = make_model(kind, baseline, bidirectional);
      LayerImpl& layer = layer_of(model);
      if (kind == LayerKind::s5 && bidirectional) {
        EXPECT_THROW(layer.kernel(length), c10::Error);
        continue;
      }
      const at::Tensor k = layer.kernel(length);
      const auto expect_answer = [&](const at::Tensor& expected, const at::Tensor& u) {
        EXPECT_LT((layer.forward(u)[0].t() - expected).abs().max().item<double>(), 1e-10) << static_cast<int>(kind);
      };
      if (kind == LayerKind::s5) {  // from every channel to every other
        for (int64_t from = 0; from < channels; ++from)
          expect_answer(k.select(1, from), impulse(at::eye(channels, at::kDouble)[from], 0));
      } else if (bidirectional) {
        expect_answer(k[0], impulse(all, 0));
        const at::Tensor back = k[1].narrow(1, 0, length - 1).flip(1);
        expect_answer(at::cat({back, k[0].narrow(1, 0, 1)}, 1), impulse(all, length - 1));
      } else {
        expect_answer(k, impulse(all, 0));
      }
    }
  }
}

// One step of AdamW from zero moments moves a parameter by its learning rate, and decay by lr * decay * value: which
// group each parameter is in, by the names that the layers themselves give.
TEST(Baselines, EveryParameterIsInItsGroup) {
  enum Group { ssm, step, rest };
  const std::map<LayerKind, std::map<std::string, Group>> expected = {
      {LayerKind::rtf, {{"a", ssm}, {"b", ssm}, {"h0", ssm}}},
      {LayerKind::s4,
       {{"a_real", ssm}, {"a_imag", ssm}, {"b", ssm}, {"p", ssm}, {"dt", step}, {"c", rest}, {"d", rest}}},
      {LayerKind::s4d, {{"a_real", ssm}, {"a_imag", ssm}, {"b", ssm}, {"dt", step}, {"c", rest}, {"d", rest}}},
      {LayerKind::s5, {{"a_real", ssm}, {"a_imag", ssm}, {"b", ssm}, {"dt", step}, {"c", rest}, {"d", rest}}},
      {LayerKind::spacetime, {{"a", ssm}, {"b", ssm}, {"c", rest}, {"d", rest}}}};
  const std::map<Group, double> rates = {{ssm, 0.01}, {step, 0.02}, {rest, 0.1}};
  const std::map<Group, double> decays = {{ssm, 0.25}, {step, 0.25}, {rest, 0.5}};
  for (const auto& [kind, baseline] : kinds()) {
    const SequenceModel model = make_model(kind, baseline, false);
    train::NamedTensors parameters;
    for (const auto& item : model->named_parameters()) parameters.emplace_back(item.key(), item.value());
    train::OptimizerConfig config;
    config.lr = rates.at(rest);
    config.ssm_lr = rates.at(ssm);
    config.dt_lr = rates.at(step);
    config.weight_decay = decays.at(rest);
    config.ssm_weight_decay = decays.at(ssm);
    train::Optimizer optimizer(parameters, {}, config);
    for (const auto& [name, parameter] : parameters) {
      parameter.detach().fill_(1);
      parameter.mutable_grad() = at::ones_like(parameter);
    }
    optimizer.begin_step();
    optimizer.update(at::ones({}, at::kDouble), at::zeros({}, at::kFloat));
    std::set<std::string> seen;
    const std::string prefix = "blocks.0.layer.";
    for (const auto& [name, parameter] : parameters) {
      Group group = rest;
      if (name.starts_with(prefix)) {
        const std::string own = name.substr(prefix.size());
        ASSERT_TRUE(expected.at(kind).contains(own)) << name;
        group = expected.at(kind).at(own);
        seen.insert(own);
      }
      const double moved = rates.at(group) * (1 + decays.at(group));
      EXPECT_NEAR(parameter.detach().max().item<double>(), 1 - moved, 1e-7) << name << " of " << static_cast<int>(kind);
      EXPECT_NEAR(parameter.detach().min().item<double>(), 1 - moved, 1e-7) << name << " of " << static_cast<int>(kind);
    }
    EXPECT_EQ(seen.size(), expected.at(kind).size()) << static_cast<int>(kind);
  }
}

}  // namespace
}  // namespace rtf::nn
