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

}  // namespace

nn::SequenceModelOptions model_options(const Config& config, const Task& task) {
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
  model.glu = from.glu;
  model.seed = config.train.seed;
  model.bfloat16 = config.train.precision == "bf16";

  nn::RTFOptions& layer = model.layer;
  layer.channels = from.channels;
  layer.order = from.order;
  layer.length = from.length;
  layer.denominators = from.denominators;
  layer.numerator = choose<nn::Numerator>("model.numerator", from.numerator,
                                          {{"wrapped", nn::Numerator::wrapped}, {"exact", nn::Numerator::exact}});
  layer.bidirectional = from.bidirectional;
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
  layer.seed = config.train.seed;
  task.shape(model);
  return model;
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
