#include "rtf_torch/export.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>

#include "core/file_errors.h"
#include "rtf/error.h"
#include "rtf/random.h"
#include "rtf/stream.h"

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

// Parameters and buffers by name.
class Weights {
 public:
  explicit Weights(const SequenceModelImpl& model) {
    for (const auto& item : model.named_parameters()) tensors_[item.key()] = item.value();
    for (const auto& item : model.named_buffers()) tensors_[item.key()] = item.value();
  }

  const Tensor& tensor(const std::string& name) const { return tensors_.at(name); }
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
    value.a = rows(layer.wide_denominator(), o.denominators);
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

// The answers of a model file to x, (batch, length) tokens or (batch, length, features) in float64.
template <class T>
std::vector<T> runtime_answers(const ModelFile& file, const Tensor& x) {
  const stream::Model<T> model(file);
  const Architecture& a = file.architecture;
  const auto batch = static_cast<std::size_t>(x.size(0)), length = static_cast<std::size_t>(x.size(1));
  const bool pair = a.decoder == Architecture::Decoder::pair, pool = a.decoder == Architecture::Decoder::pool;
  const std::size_t answers = pair ? batch / 2 : batch, positions = pair || pool ? 1 : length;
  std::vector<T> out(answers * positions * a.outputs);
  const auto to = channels_last(out.data(), answers, positions, a.outputs);
  stream::Sequences<T> sequences(model, length);
  if (a.vocabulary > 0) {
    sequences.process(channels_last(x.const_data_ptr<int64_t>(), batch, length, 1), to);
  } else {
    const Tensor samples = x.to(c10::CppTypeToScalarType<T>::value).contiguous();
    sequences.process(channels_last(samples.const_data_ptr<T>(), batch, length, a.features), to);
  }
  return out;
}

// Numbers that float32 holds, or tokens.
Tensor random_input(const Architecture& a) {
  constexpr int64_t longest = 1 << 14;  // seconds of work
  const auto size = [](std::size_t value) { return static_cast<int64_t>(value); };
  const int64_t batch = a.decoder == Architecture::Decoder::pair ? 2 : 1;
  const int64_t length = std::max(std::min(size(a.length), longest), size(a.last));
  const Random random(1);
  if (a.vocabulary > 0) {
    Tensor x = at::empty({batch, length}, at::kLong);
    for (int64_t i = 0; i < x.numel(); ++i)
      x.mutable_data_ptr<int64_t>()[i] =
          static_cast<int64_t>(random.uniform(static_cast<uint64_t>(i)) * static_cast<double>(a.vocabulary));
    return x;
  }
  Tensor x = at::empty({batch, length, size(a.features)}, at::kFloat);
  for (int64_t i = 0; i < x.numel(); ++i)
    x.mutable_data_ptr<float>()[i] = static_cast<float>(random.normal(static_cast<uint64_t>(i)));
  return x.to(at::kDouble);
}

}  // namespace

double answer_error(const SequenceModelImpl& model, const ModelFile& file) {
  const at::NoGradGuard no_grad;
  SequenceModelOptions options = model.options;
  options.bfloat16 = false;
  SequenceModel wide(options);
  wide->to(at::kDouble);
  wide->eval();
  const Weights weights(model);
  for (const auto& item : wide->named_parameters()) item.value().copy_(weights.tensor(item.key()));
  for (const auto& item : wide->named_buffers()) item.value().copy_(weights.tensor(item.key()));

  const Tensor x = random_input(file.architecture);
  const std::vector<double> wanted = values_of(wide->forward(x));
  const auto compare = [&](const auto& got) {
    // Decoder::last answers at every position; the trainer's at the last ones.
    const std::size_t before = got.size() - wanted.size();
    double difference = 0, largest = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const double off = std::abs(got[before + i] - wanted[i]);
      difference = std::isfinite(off) ? std::max(difference, off) : std::numeric_limits<double>::infinity();
      largest = std::max(largest, std::abs(wanted[i]));
    }
    if (!std::isfinite(difference)) return difference;
    return largest > 0 ? difference / largest : difference;
  };
  return file.precision == DataType::f32 ? compare(runtime_answers<float>(file, x))
                                         : compare(runtime_answers<double>(file, x));
}

Exported export_model(const SequenceModelImpl& model, const RealizeOptions& options) {
  const at::NoGradGuard no_grad;
  const SequenceModelOptions& o = model.options;
  if (o.kind != LayerKind::rtf)
    throw Error(ErrorCode::unsupported, "export_model", "layers other than rtf have no place in a model file");
  if (o.glu != Glu::none && o.glu != Glu::full)
    throw Error(ErrorCode::unsupported, "export_model", "half gated blocks have no place in a model file");
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
    if (o.glu != Glu::none) block.output = weights.linear(name + ".output");
    const auto& layer = *modules[name + ".layer"]->as<RTFImpl>();
    try {
      block.layer = exported.layers.emplace_back(realize_direction(layer, 0, options)).layer;
      if (o.layer.bidirectional)
        block.backward = exported.layers.emplace_back(realize_direction(layer, 1, options)).layer;
    } catch (const Error& error) {
      throw Error(error.code(), "export_model", "layer " + std::to_string(i) + ": " + without_operation(error));
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
