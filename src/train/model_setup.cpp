#include "train/model_setup.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include "rtf/error.h"
#include "train/caching_allocator.h"
#include "train/device.h"

namespace rtf::train {
namespace {

template <class T>
T choose(const char* key, const std::string& value, std::initializer_list<std::pair<const char*, T>> choices) {
  std::string names;
  for (const auto& [name, choice] : choices) {
    if (value == name) return choice;
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  throw Error(ErrorCode::argument, "model", std::string(key) + " is '" + value + "'; expected one of " + names);
}

void set_rtf(const ModelConfig& from, nn::RTFOptions& layer) {
  layer.numerator = choose<nn::Numerator>("model.numerator", from.numerator,
                                          {{"wrapped", nn::Numerator::wrapped}, {"exact", nn::Numerator::exact}});
  layer.kernel_dropout = from.kernel_dropout;
  layer.init = choose<Init>("model.init", from.init,
                            {{"zero", Init::zero},
                             {"xavier", Init::xavier},
                             {"montel", Init::montel},
                             {"uniform_montel", Init::uniform_montel}});
  layer.initial_gain = choose<InitialGain>("model.initial_gain", from.initial_gain,
                                           {{"paper", InitialGain::paper}, {"release", InitialGain::release}});
  layer.constraint = choose<nn::Constraint>("model.constraint", from.constraint,
                                            {{"none", nn::Constraint::none},
                                             {"montel", nn::Constraint::montel},
                                             {"montel_paper", nn::Constraint::montel_paper}});
}

const char* name(nn::Decoder decoder) {
  switch (decoder) {
    case nn::Decoder::pool:
      return "pool";
    case nn::Decoder::last:
      return "last";
    case nn::Decoder::position:
      return "position";
    case nn::Decoder::pair:
      return "pair";
  }
  return "?";
}

nn::BaselineOptions baseline_options(const ModelConfig& from) {
  using nn::SystemInit;
  nn::BaselineOptions baseline;
  baseline.init = choose<SystemInit>("model.init", from.init,
                                     {{"legs", SystemInit::legs},
                                      {"fourier", SystemInit::fourier},
                                      {"lin", SystemInit::lin},
                                      {"inv", SystemInit::inv},
                                      {"trunc_standard_normal", SystemInit::trunc_standard_normal},
                                      {"lecun_normal", SystemInit::lecun_normal},
                                      {"complex_normal", SystemInit::complex_normal},
                                      {"normal", SystemInit::normal}});
  baseline.dt_min = from.dt_min;
  baseline.dt_max = from.dt_max;
  baseline.dt_transform =
      choose<nn::StepTransform>("model.dt_transform", from.dt_transform,
                                {{"softplus", nn::StepTransform::softplus}, {"exp", nn::StepTransform::exp}});
  baseline.initial_step =
      choose<nn::InitialStep>("model.initial_step", from.initial_step,
                              {{"paper", nn::InitialStep::paper}, {"release", nn::InitialStep::release}});
  baseline.initial_c = choose<nn::InitialC>("model.initial_c", from.initial_c,
                                            {{"normal", nn::InitialC::normal}, {"constant", nn::InitialC::constant}});
  baseline.discretization =
      choose<nn::Discretization>("model.discretization", from.discretization,
                                 {{"zoh", nn::Discretization::zoh}, {"bilinear", nn::Discretization::bilinear}});
  baseline.rank = from.rank;
  baseline.blocks = from.blocks;
  baseline.clip = from.constraint == "clip";
  baseline.skip = from.skip;
  return baseline;
}

}  // namespace

nn::SequenceModelOptions backbone_options(const Config& config) {
  const ModelConfig& from = config.model;
  nn::SequenceModelOptions model;
  model.layers = from.layers;
  model.norm = choose<nn::Norm>("model.norm", from.norm,
                                {{"none", nn::Norm::none}, {"batch", nn::Norm::batch}, {"layer", nn::Norm::layer}});
  model.prenorm = from.prenorm;
  model.residual = from.residual;
  model.dropout = from.dropout;
  model.inner_dropout = from.inner_dropout;
  model.tie_dropout = from.tie_dropout;
  model.tie_inner_dropout = from.tie_inner_dropout;
  model.activation = choose<nn::Activation>("model.activation", from.activation,
                                            {{"identity", nn::Activation::identity}, {"gelu", nn::Activation::gelu}});
  model.output_dropout = from.output_dropout;
  model.glu = choose<nn::Glu>("model.glu", from.glu,
                              {{"true", nn::Glu::full},
                               {"false", nn::Glu::none},
                               {"half_glu1", nn::Glu::half_glu1},
                               {"half_glu2", nn::Glu::half_glu2}});
  model.seed = config.train.seed;
  model.bfloat16 = config.train.precision == "bf16";

  model.kind = choose<nn::LayerKind>("model.layer", from.layer,
                                     {{"rtf", nn::LayerKind::rtf},
                                      {"s4", nn::LayerKind::s4},
                                      {"s4d", nn::LayerKind::s4d},
                                      {"s5", nn::LayerKind::s5},
                                      {"spacetime", nn::LayerKind::spacetime}});
  nn::RTFOptions& layer = model.layer;
  layer.channels = from.channels;
  layer.order = from.order;
  layer.length = from.length;
  layer.denominators = from.denominators;
  layer.bidirectional = from.bidirectional;
  if (model.kind == nn::LayerKind::rtf) {
    set_rtf(from, layer);
  } else {
    model.baseline = baseline_options(from);
  }
  layer.seed = config.train.seed;
  return model;
}

nn::SequenceModelOptions model_options(const Config& config, const Task& task) {
  nn::SequenceModelOptions model = backbone_options(config);
  task.shape(model);
  return model;
}

std::map<std::string, std::string> task_settings(const nn::SequenceModelOptions& model) {
  return {{"vocabulary", std::to_string(model.vocabulary)},
          {"features", std::to_string(model.features)},
          {"decoder", name(model.decoder)},
          {"outputs", std::to_string(model.outputs)},
          {"last", std::to_string(model.last)},
          {"length", std::to_string(model.layer.length)}};
}

at::ScalarType number_type(const TrainConfig& config) { return config.precision == "fp64" ? at::kDouble : at::kFloat; }

nn::SequenceModel make_model(const Config& config, const Task& task, c10::Device device) {
  nn::SequenceModel model(model_options(config, task));
  model->to(device, number_type(config.train));
  return model;
}

void load_averages(const Checkpoint& checkpoint, const nn::SequenceModel& model) {
  const at::NoGradGuard no_grad;
  std::map<std::string, at::Tensor> averages;
  for (const auto& [name, tensor] : checkpoint.tensors) averages.emplace(name, tensor);
  for (const auto& [name, tensor] : model_tensors(model)) {
    const auto found = averages.find("ema." + name.substr(std::string_view("model.").size()));
    if (found != averages.end()) tensor.copy_(found->second);
  }
}

c10::Device set_up_torch(const TrainConfig& config) {
  cache_tensor_memory();
  const c10::Device device = use_device(config.device, config.deterministic);
  if (config.threads > 0) at::set_num_threads(static_cast<int>(config.threads));
  at::globalContext().setDeterministicAlgorithms(config.deterministic, /*warn_only=*/false);
  // It would write over every new tensor.
  at::globalContext().setDeterministicFillUninitializedMemory(false);
  if (!device.is_cpu()) at::globalContext().setAllowTF32CuBLAS(config.precision == "tf32");
  return device;
}

NamedTensors model_tensors(const nn::SequenceModel& model) {
  NamedTensors tensors;
  for (const auto& item : model->named_parameters()) tensors.emplace_back("model." + item.key(), item.value());
  for (const auto& item : model->named_buffers()) tensors.emplace_back("model." + item.key(), item.value());
  return tensors;
}

}  // namespace rtf::train
