#include "rtf_torch/export.h"

#include <ATen/ATen.h>

#include <cmath>
#include <map>
#include <string>

#include "rtf/error.h"

namespace rtf::nn {
namespace {

using at::Tensor;

constexpr double epsilon = 1e-5;  // of batch norm

std::vector<double> values_of(const Tensor& tensor) {
  const Tensor plain = tensor.detach().to(at::kCPU, at::kDouble).contiguous();
  return {plain.const_data_ptr<double>(), plain.const_data_ptr<double>() + plain.numel()};
}

Architecture architecture_of(const SequenceModelOptions& options) {
  Architecture a;
  const auto size = [](int64_t value) { return static_cast<std::size_t>(value); };
  a.vocabulary = size(options.vocabulary);
  a.features = size(options.features);
  a.channels = size(options.layer.channels);
  a.layers = size(options.layers);
  switch (options.norm) {
    case Norm::none:
      a.norm = Architecture::Norm::none;
      break;
    case Norm::batch:
      a.norm = Architecture::Norm::batch;
      break;
    case Norm::layer:
      a.norm = Architecture::Norm::layer;
      break;
  }
  a.prenorm = options.prenorm;
  a.residual = options.residual;
  a.activation =
      options.activation == Activation::gelu ? Architecture::Activation::gelu : Architecture::Activation::identity;
  a.glu = options.glu;
  switch (options.decoder) {
    case Decoder::pool:
      a.decoder = Architecture::Decoder::pool;
      break;
    case Decoder::last:
      a.decoder = Architecture::Decoder::last;
      break;
    case Decoder::position:
      a.decoder = Architecture::Decoder::position;
      break;
    case Decoder::pair:
      a.decoder = Architecture::Decoder::pair;
      break;
  }
  a.outputs = size(options.outputs);
  a.last = size(options.last);
  a.bidirectional = options.layer.bidirectional;
  a.length = size(options.layer.length);
  return a;
}

// Parameters and buffers by name.
class Weights {
 public:
  explicit Weights(const SequenceModelImpl& model) {
    for (const auto& item : model.named_parameters()) tensors_[item.key()] = item.value();
    for (const auto& item : model.named_buffers()) tensors_[item.key()] = item.value();
  }

  std::vector<double> at(const std::string& name) const { return values_of(tensors_.at(name)); }
  Linear linear(const std::string& name) const { return {at(name + ".weight"), at(name + ".bias")}; }
  Linear norm(const std::string& name, Norm kind) const {
    Linear norm = linear(name);
    if (kind != Norm::batch) return norm;
    const auto mean = at(name + ".running_mean"), variance = at(name + ".running_var");
    for (std::size_t c = 0; c < mean.size(); ++c) {
      norm.weight[c] /= std::sqrt(variance[c] + epsilon);
      norm.bias[c] -= mean[c] * norm.weight[c];
    }
    return norm;
  }

 private:
  std::map<std::string, Tensor> tensors_;
};

// One direction of a layer, 0 or 1.
Realized realize_direction(const RTFImpl& layer, int64_t direction, const RealizeOptions& options) {
  const RTFOptions& o = layer.options;
  const auto rows = [&](const Tensor& tensor, int64_t count) {
    return values_of(tensor.narrow(0, direction * count, count));
  };
  const auto fill = [&]<class Value>(Value value) {
    value.channels = static_cast<std::size_t>(o.channels);
    value.groups = static_cast<std::size_t>(o.denominators);
    value.order = static_cast<std::size_t>(o.order);
    value.a = rows(layer.denominator().to(at::kDouble), o.denominators);
    value.b = rows(layer.b, o.channels);
    value.h0 = rows(layer.h0, o.channels);
    return value;
  };
  const auto length = static_cast<std::size_t>(o.length);
  if (o.numerator == Numerator::exact) return realize(fill(TransferFunction()), length, options);
  auto trained = fill(TrainedTransferFunction());
  trained.length = length;
  return realize(trained, options);
}

}  // namespace

Exported export_model(const SequenceModelImpl& model, const RealizeOptions& options) {
  const at::NoGradGuard no_grad;
  const SequenceModelOptions& o = model.options;
  const Weights weights(model);
  Exported exported;
  ModelFile& file = exported.file;
  file.architecture = architecture_of(o);
  file.precision = options.precision;
  if (o.vocabulary > 0) {
    file.encoder.weight = weights.at("encoder.weight");
  } else {
    file.encoder = weights.linear("encoder");
  }
  const auto modules = model.named_modules();
  for (int64_t i = 0; i < o.layers; ++i) {
    const std::string name = "blocks." + std::to_string(i);
    ModelBlock& block = file.blocks.emplace_back();
    if (file.architecture.has_norms()) block.norm = weights.norm(name + ".norm", o.norm);
    if (o.glu) block.output = weights.linear(name + ".output");
    const auto& layer = *modules[name + ".layer"]->as<RTFImpl>();
    try {
      block.layer = exported.layers.emplace_back(realize_direction(layer, 0, options)).layer;
      if (o.layer.bidirectional)
        block.backward = exported.layers.emplace_back(realize_direction(layer, 1, options)).layer;
    } catch (const Error& error) {
      const std::string text = error.what();
      throw Error(error.code(), "export_model", "layer " + std::to_string(i) + ": " + text.substr(text.find("] ") + 2));
    }
  }
  if (file.architecture.has_last_norm()) file.norm = weights.norm("norm", o.norm);
  if (o.decoder == Decoder::pair) {
    file.decoder = {weights.linear("decoder.0"), weights.linear("decoder.1")};
  } else {
    file.decoder = {weights.linear("decoder")};
  }
  return exported;
}

}  // namespace rtf::nn
