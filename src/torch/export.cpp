#include "rtf_torch/export.h"

#include <ATen/ATen.h>

#include <cstring>
#include <map>
#include <string>

#include "rtf/error.h"
#include "stream/answer_error.h"

namespace rtf::nn {
namespace {

using at::Tensor;

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
  a.glu = options.glu == Glu::full;
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

using Tensors = std::map<std::string, Tensor>;

Tensors parameters_and_buffers(const SequenceModelImpl& model) {
  Tensors tensors;
  for (const auto& item : model.named_parameters()) tensors[item.key()] = item.value();
  for (const auto& item : model.named_buffers()) tensors[item.key()] = item.value();
  return tensors;
}

// One direction of a layer, 0 or 1.
AnyTransferFunction filter_of(const RTFImpl& layer, int64_t direction) {
  const RTFOptions& o = layer.options;
  const auto rows = [&](const Tensor& tensor, int64_t count) {
    return values_of(tensor.narrow(0, direction * count, count));
  };
  const auto fill = [&]<class Value>(Value value) {
    value.channels = static_cast<std::size_t>(o.channels);
    value.groups = static_cast<std::size_t>(o.denominators);
    value.order = static_cast<std::size_t>(o.order);
    value.a = rows(layer.wide_denominator(), o.denominators);
    value.b = rows(layer.b, o.channels);
    value.h0 = rows(layer.h0, o.channels);
    return value;
  };
  if (o.numerator == Numerator::exact) return fill(TransferFunction());
  auto trained = fill(TrainedTransferFunction());
  trained.length = static_cast<std::size_t>(o.length);
  return trained;
}

Tensor to_tensor(const ModelInput& input, const Architecture& a) {
  const auto size = [](std::size_t value) { return static_cast<int64_t>(value); };
  const auto copy = [](const auto& values, at::IntArrayRef shape, at::ScalarType type) {
    Tensor x = at::empty(shape, type);
    std::memcpy(x.mutable_data_ptr(), values.data(), x.nbytes());
    return x;
  };
  if (a.vocabulary > 0) return copy(input.tokens, {size(input.batch), size(input.length)}, at::kLong);
  return copy(input.numbers, {size(input.batch), size(input.length), size(a.features)}, at::kDouble);
}

}  // namespace

double answer_error(const SequenceModelImpl& model, const ModelFile& file) {
  const at::NoGradGuard no_grad;
  SequenceModelOptions options = model.options;
  options.bfloat16 = false;
  SequenceModel wide(options);
  wide->to(at::kDouble);
  wide->eval();
  const Tensors tensors = parameters_and_buffers(model);
  for (const auto& item : wide->named_parameters()) item.value().copy_(tensors.at(item.key()));
  for (const auto& item : wide->named_buffers()) item.value().copy_(tensors.at(item.key()));
  const ModelInput input = random_input(file.architecture);
  return rtf::answer_error(file, input, values_of(wide->forward(to_tensor(input, file.architecture))));
}

Exported export_model(const SequenceModelImpl& model, const RealizeOptions& options) {
  const at::NoGradGuard no_grad;
  const SequenceModelOptions& o = model.options;
  if (o.kind != LayerKind::rtf)
    throw Error(ErrorCode::unsupported, "export_model", "layers other than rtf have no place in a model file");
  if (o.glu != Glu::none && o.glu != Glu::full)
    throw Error(ErrorCode::unsupported, "export_model", "half gated blocks have no place in a model file");
  TrainedModel trained;
  trained.architecture = architecture_of(o);
  const auto modules = model.named_modules();
  for (int64_t i = 0; i < o.layers; ++i) {
    const auto& layer = *modules["blocks." + std::to_string(i) + ".layer"]->as<RTFImpl>();
    for (int64_t direction = 0; direction < (o.layer.bidirectional ? 2 : 1); ++direction)
      trained.layers.push_back(filter_of(layer, direction));
  }
  for (const auto& [name, tensor] : parameters_and_buffers(model))
    if (name.find(".layer.") == std::string::npos) trained.weights[name] = values_of(tensor);
  return rtf::export_model(trained, options);
}

}  // namespace rtf::nn
