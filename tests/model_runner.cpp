// Runs SequenceModel for the Python tests. One request a line on standard input, as JSON; the answer is one line:
// "done", or the message of what failed.
//
// {"options": {...}, "type": "float32" or "float64", "device": "cpu" or "cuda", "input": FILE, "output": FILE,
//  "commands": [{"do": ...}, ...]}
//
// RTF_TORCH_CUDA_LIBRARY names the library that "cuda" needs.
// The input file holds x and whatever of lengths, target, gradient (of the loss with respect to the output) and
// weights.<name> a request needs. Each command puts its results into the output file.
#include <ATen/ATen.h>
#include <dlfcn.h>

#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "rtf/error.h"
#include "rtf/safetensors.h"
#include "rtf/stream.h"
#include "rtf_torch/export.h"
#include "rtf_torch/sequence_model.h"
#include "shuffled_streams.h"
#include "train/optimizer.h"

namespace rtf {
namespace {

using at::Tensor;
using nlohmann::json;

template <class Enum>
Enum choose(const json& options, const char* key, const std::map<std::string, Enum>& names) {
  return names.at(options.at(key).get<std::string>());
}

// true and false, or a name.
nn::Glu glu_of(const json& value) {
  if (value.is_boolean()) return value.get<bool>() ? nn::Glu::full : nn::Glu::none;
  return value == "half_glu1" ? nn::Glu::half_glu1 : nn::Glu::half_glu2;
}

// "layer" and what belongs to it; without it an RTF.
void read_baseline(const json& o, nn::SequenceModelOptions& model) {
  if (!o.contains("layer")) return;
  model.kind = choose<nn::LayerKind>(o, "layer",
                                     {{"rtf", nn::LayerKind::rtf},
                                      {"s4", nn::LayerKind::s4},
                                      {"s4d", nn::LayerKind::s4d},
                                      {"s5", nn::LayerKind::s5},
                                      {"spacetime", nn::LayerKind::spacetime}});
  nn::BaselineOptions& to = model.baseline;
  to.init = choose<nn::SystemInit>(o, "system_init",
                                   {{"legs", nn::SystemInit::legs},
                                    {"fourier", nn::SystemInit::fourier},
                                    {"lin", nn::SystemInit::lin},
                                    {"inv", nn::SystemInit::inv},
                                    {"trunc_standard_normal", nn::SystemInit::trunc_standard_normal},
                                    {"lecun_normal", nn::SystemInit::lecun_normal},
                                    {"complex_normal", nn::SystemInit::complex_normal},
                                    {"normal", nn::SystemInit::normal}});
  to.dt_min = o.value("dt_min", to.dt_min);
  to.dt_max = o.value("dt_max", to.dt_max);
  to.rank = o.value("rank", to.rank);
  to.blocks = o.value("blocks", to.blocks);
  to.skip = o.value("skip", to.skip);
  to.clip = o.value("clip", to.clip);
  if (o.value("dt_transform", "softplus") == "exp") to.dt_transform = nn::StepTransform::exp;
  if (o.value("initial_step", "paper") == "release") to.initial_step = nn::InitialStep::release;
  if (o.value("initial_c", "normal") == "constant") to.initial_c = nn::InitialC::constant;
  if (o.value("discretization", "zoh") == "bilinear") to.discretization = nn::Discretization::bilinear;
  model.output_dropout = o.value("output_dropout", 0.0);
}

nn::SequenceModelOptions read_options(const json& o) {
  nn::SequenceModelOptions model;
  const auto read = [&o](const char* key, auto& value) { o.at(key).get_to(value); };
  read("channels", model.layer.channels);
  read("order", model.layer.order);
  read("length", model.layer.length);
  read("denominators", model.layer.denominators);
  read("bidirectional", model.layer.bidirectional);
  read("kernel_dropout", model.layer.kernel_dropout);
  model.layer.numerator =
      choose<nn::Numerator>(o, "numerator", {{"wrapped", nn::Numerator::wrapped}, {"exact", nn::Numerator::exact}});
  model.layer.constraint = choose<nn::Constraint>(o, "constraint",
                                                  {{"none", nn::Constraint::none},
                                                   {"montel", nn::Constraint::montel},
                                                   {"montel_paper", nn::Constraint::montel_paper}});
  model.layer.init = choose<Init>(o, "init",
                                  {{"zero", Init::zero},
                                   {"xavier", Init::xavier},
                                   {"montel", Init::montel},
                                   {"uniform_montel", Init::uniform_montel}});
  model.layer.initial_gain =
      choose<InitialGain>(o, "initial_gain", {{"paper", InitialGain::paper}, {"release", InitialGain::release}});
  read("vocabulary", model.vocabulary);
  read("features", model.features);
  read("layers", model.layers);
  model.norm =
      choose<nn::Norm>(o, "norm", {{"none", nn::Norm::none}, {"batch", nn::Norm::batch}, {"layer", nn::Norm::layer}});
  read("prenorm", model.prenorm);
  read("residual", model.residual);
  read("dropout", model.dropout);
  read("inner_dropout", model.inner_dropout);
  read("tie_dropout", model.tie_dropout);
  read("tie_inner_dropout", model.tie_inner_dropout);
  model.activation =
      choose<nn::Activation>(o, "activation", {{"identity", nn::Activation::identity}, {"gelu", nn::Activation::gelu}});
  model.glu = glu_of(o.at("glu"));
  read_baseline(o, model);
  model.decoder = choose<nn::Decoder>(o, "decoder",
                                      {{"pool", nn::Decoder::pool},
                                       {"last", nn::Decoder::last},
                                       {"position", nn::Decoder::position},
                                       {"pair", nn::Decoder::pair}});
  read("outputs", model.outputs);
  read("last", model.last);
  read("seed", model.seed);
  model.bfloat16 = o.value("bfloat16", false);
  return model;
}

Tensor to_tensor(const Array& array) {
  return at::tensor(array.values, at::kDouble).view(std::vector<int64_t>(array.shape.begin(), array.shape.end()));
}

Array to_array(const Tensor& tensor) {
  const Tensor values = tensor.detach().to(at::kCPU, at::kDouble).contiguous();
  Array array;
  array.shape.assign(values.sizes().begin(), values.sizes().end());
  array.values.assign(values.const_data_ptr<double>(), values.const_data_ptr<double>() + values.numel());
  return array;
}

class Session {
 public:
  explicit Session(const json& request)
      : type_(request.at("type") == "float32" ? at::kFloat : at::kDouble),
        device_(request.value("device", "cpu")),
        model_(read_options(request.at("options"))) {
    model_->to(device_, type_);
    if (!request.contains("input")) return;
    for (const auto& [name, array] : read_safetensors(request.at("input")).tensors)
      input_[name] = to_tensor(array).to(device_);
    if (input_.count("x")) input_["x"] = input_["x"].to(model_->options.vocabulary > 0 ? at::kLong : type_);
    for (const char* name : {"target", "gradient"})
      if (input_.count(name)) input_[name] = input_[name].to(type_);
    if (input_.count("lengths")) lengths_ = input_["lengths"].to(at::kLong);
    const at::NoGradGuard no_grad;
    for (auto& [name, tensor] : weights())
      if (input_.count("weights." + name)) tensor.copy_(input_.at("weights." + name));
  }

  void run(const json& command) {
    const std::map<std::string, void (Session::*)(const json&)> known = {
        {"forward", &Session::forward},      {"backward", &Session::backward}, {"train", &Session::train},
        {"stream", &Session::stream},        {"chunks", &Session::chunks},     {"set_length", &Session::set_length},
        {"weights", &Session::save_weights}, {"count", &Session::count},       {"poles", &Session::poles},
        {"export", &Session::export_file},   {"runtime", &Session::runtime}};
    (this->*known.at(command.at("do").get<std::string>()))(command);
  }

  void write(const std::string& path) const { write_safetensors(path, output_); }

 private:
  // Parameters and buffers, which share their memory with the model.
  train::NamedTensors weights() const {
    train::NamedTensors all;
    for (const auto& item : model_->named_parameters()) all.emplace_back(item.key(), item.value());
    for (const auto& item : model_->named_buffers()) all.emplace_back(item.key(), item.value());
    return all;
  }
  train::NamedTensors parameters() const {
    train::NamedTensors all;
    for (const auto& item : model_->named_parameters()) all.emplace_back(item.key(), item.value());
    return all;
  }
  void save(const std::string& name, const Tensor& value) { output_.tensors[name] = to_array(value); }
  void save_gradients() {
    for (const auto& [name, parameter] : parameters()) {
      save("gradient." + name, parameter.grad().defined() ? parameter.grad() : at::zeros_like(parameter));
      parameter.mutable_grad().reset();
    }
  }
  static Tensor samples(const Tensor& x, int64_t first, int64_t count) { return x.narrow(1, first, count); }

  // {"save": NAME, "samples": N}: evaluation mode, over the first N samples or all.
  void forward(const json& command) {
    model_->eval();
    const Tensor& x = input_.at("x");
    save(command.at("save"), model_->forward(samples(x, 0, command.value("samples", x.size(1))), lengths_));
  }

  // {"seed": S, "step": N}: training mode; saves output, gradient.<name> and what batch norm keeps.
  void backward(const json& command) {
    model_->train();
    model_->set_generator(command.value("seed", 0), command.value("step", 0));
    const Tensor y = model_->forward(input_.at("x"), lengths_);
    save("output", y);
    (y * input_.at("gradient")).sum().backward();
    save_gradients();
    save_weights({});
  }

  // {"steps": N, "lr", "weight_decay", "ssm_lr", "ssm_weight_decay"}: AdamW on the mean squared error to target.
  void train(const json& command) {
    train::OptimizerConfig config;
    config.lr = command.at("lr");
    config.weight_decay = command.at("weight_decay");
    config.ssm_lr = command.at("ssm_lr").get<double>();
    config.ssm_weight_decay = command.at("ssm_weight_decay").get<double>();
    train::Optimizer optimizer(parameters(), {}, config);
    model_->train();
    for (int64_t i = 0; i < command.at("steps").get<int64_t>(); ++i) {
      model_->set_generator(0, i);
      optimizer.drop_gradients();
      optimizer.begin_step();
      at::mse_loss(model_->forward(input_.at("x"), lengths_), input_.at("target")).backward();
      at::Tensor norm = at::zeros({}, at::TensorOptions(at::kDouble).device(device_));
      optimizer.gradient_norm(norm);
      optimizer.update(norm, at::zeros({}, at::TensorOptions(at::kFloat).device(device_)));
    }
  }

  // {"save": NAME, "prefill": [N, ...]}: prompts of these sizes, then one sample after the other. "train" and "streams"
  // ask for what is refused: training mode, a state of another batch.
  void stream(const json& command) {
    model_->train(command.value("train", false));
    const Tensor& x = input_.at("x");
    nn::ModelState state = model_->make_state(command.value("streams", x.size(0)));
    std::vector<Tensor> answers;
    int64_t at = 0;
    for (const int64_t size : command.at("prefill").get<std::vector<int64_t>>()) {
      answers.push_back(model_->prefill(samples(x, at, size), state));
      at += size;
    }
    for (; at < x.size(1); ++at) answers.push_back(model_->step(x.select(1, at), state).unsqueeze(1));
    save(command.at("save"), at::cat(answers, 1));
  }

  // {"sizes": [N, ...]}: training mode through chunks with the state carried on the tape; saves gradient.<name>.
  void chunks(const json& command) {
    model_->train();
    const Tensor& x = input_.at("x");
    nn::ModelState state = model_->make_training_state(x.size(0));
    std::vector<Tensor> answers;
    int64_t at = 0;
    for (const int64_t size : command.at("sizes").get<std::vector<int64_t>>()) {
      answers.push_back(model_->prefill(samples(x, at, size), state));
      at += size;
    }
    (at::cat(answers, 1) * input_.at("gradient")).sum().backward();
    save_gradients();
  }

  void set_length(const json& command) { model_->set_length(command.at("length")); }

  void save_weights(const json&) {
    for (const auto& [name, tensor] : weights()) save("weights." + name, tensor);
  }

  void count(const json&) {
    int64_t total = 0;
    for (const auto& [name, parameter] : parameters()) total += parameter.numel();
    save("count", at::tensor(static_cast<double>(total), at::kDouble));
  }

  // {"save": NAME, "most": N}: a row (radius, min |A|, unstable) a layer.
  void poles(const json& command) {
    std::vector<Tensor> rows;
    for (const nn::PoleReport& report : model_->poles(command.value("most", 0)))
      rows.push_back(
          at::tensor({report.radius, report.min_abs_denominator, static_cast<double>(report.unstable)}, at::kDouble));
    save(command.at("save"), at::stack(rows));
  }

  // {"file": FILE, "save": NAME, "precision": "f64"}: the model file, in that precision or the session's; saves the
  // errors of the layers.
  void export_file(const json& command) {
    model_->eval();
    RealizeOptions options;
    const bool wide = type_ == at::kDouble || command.value("precision", "") == "f64";
    options.precision = wide ? DataType::f64 : DataType::f32;
    const Exported exported = nn::export_model(*model_, options);
    std::vector<double> errors;
    for (const Realized& layer : exported.layers) errors.push_back(layer.layer.error);
    save(command.at("save"), at::tensor(errors, at::kDouble));
    write_model(command.at("file"), exported.file);
  }

  // {"file": FILE, "save": NAME, "process": [N, ...]}: the streaming runtime, blocks of these sizes, then one sample
  // after the other; saves the answers (batch, length, outputs), of pairs (pairs, outputs). With "shuffle": SEED the
  // same samples go once more through streams that are cut, saved and joined at random, which must not change a bit.
  void runtime(const json& command) {
    type_ == at::kFloat ? stream_file<float>(command) : stream_file<double>(command);
  }

  template <class T>
  void stream_file(const json& command) {
    const auto model = stream::Model<T>::load(command.at("file"));
    const Tensor& x = input_.at("x");
    const auto batch = static_cast<std::size_t>(x.size(0)), length = static_cast<std::size_t>(x.size(1));
    const bool pair = model.architecture().decoder == Architecture::Decoder::pair;
    const std::size_t inputs = model.inputs(), outputs = pair ? 0 : model.outputs();
    stream::Streams<T> streams(model, batch);
    std::vector<std::size_t> all;
    for (std::size_t s = 0; s < batch; ++s) all.push_back(streams.join());
    std::vector<T> answers(batch * length * outputs);
    const auto part = [&]<class V>(const V* data, std::size_t first, std::size_t count) {
      auto in = channels_last(data, batch, length, inputs);
      in.data += first * inputs;
      in.length = count;
      auto out = channels_last(answers.data(), batch, length, outputs);
      out.data += first * outputs;
      out.length = count;
      streams.process(all, in, out);
    };
    const Tensor samples = x.contiguous();
    const auto run = [&](std::size_t first, std::size_t count) {
      model_->options.vocabulary > 0 ? part(samples.const_data_ptr<int64_t>(), first, count)
                                     : part(samples.const_data_ptr<T>(), first, count);
    };
    std::size_t at = 0;
    for (const std::size_t size : command.at("process").get<std::vector<std::size_t>>()) {
      run(at, size);
      at += size;
    }
    for (; at < length; ++at) run(at, 1);
    std::vector<int64_t> shape{x.size(0), x.size(1), static_cast<int64_t>(outputs)};
    if (pair) {
      shape = {x.size(0) / 2, static_cast<int64_t>(model.outputs())};
      answers.resize(batch / 2 * model.outputs());
      for (std::size_t p = 0; p < batch / 2; ++p)
        streams.answer_pair(all[p], all[batch / 2 + p],
                            std::span(answers).subspan(p * model.outputs(), model.outputs()));
    }
    save(command.at("save"), at::from_blob(answers.data(), shape, at::TensorOptions(type_)).clone());
    if (!command.contains("shuffle")) return;
    const testing::Shuffled<T> shuffled(model, batch, length, answers, command.at("shuffle"));
    model_->options.vocabulary > 0 ? shuffled.check(samples.const_data_ptr<int64_t>())
                                   : shuffled.check(samples.const_data_ptr<T>());
  }

  const at::ScalarType type_;
  const at::Device device_;
  nn::SequenceModel model_;
  std::map<std::string, Tensor> input_;
  std::optional<Tensor> lengths_;
  TensorFile output_;
};

std::string answer(const std::string& line) {
  try {
    const json request = json::parse(line);
    Session session(request);
    for (const json& command : request.at("commands")) session.run(command);
    session.write(request.at("output"));
    return "done";
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace
}  // namespace rtf

int main() {
  // Before torch first asks which devices there are.
  if (const char* library = std::getenv("RTF_TORCH_CUDA_LIBRARY"); library && *library)
    if (dlopen(library, RTLD_NOW | RTLD_GLOBAL) == nullptr) std::cerr << dlerror() << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    std::string text = rtf::answer(line);
    for (char& c : text)
      if (c == '\n') c = ' ';
    std::cout << text << std::endl;
  }
}
