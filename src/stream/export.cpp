#include "rtf/export.h"

#include <cmath>

#include "core/arguments.h"
#include "core/file_errors.h"

namespace rtf {
namespace {

constexpr const char* operation = "export_model";
constexpr double epsilon = 1e-5;  // of batch norm

// Takes parameters by their names.
class Weights {
 public:
  explicit Weights(const TrainedModel& model) : model_(model) {}

  const std::vector<double>& at(const std::string& name) const {
    const auto found = model_.weights.find(name);
    if (found == model_.weights.end()) fail(ErrorCode::argument, operation, "the model has no {}", name);
    return found->second;
  }
  Linear linear(const std::string& name) const { return {at(name + ".weight"), at(name + ".bias")}; }
  Linear norm(const std::string& name) const {
    Linear norm = linear(name);
    if (model_.architecture.norm != Architecture::Norm::batch) return norm;
    const auto &mean = at(name + ".running_mean"), &variance = at(name + ".running_var");
    const std::size_t channels = model_.architecture.channels;
    for (const char* part : {".weight", ".bias", ".running_mean", ".running_var"})
      check_count(operation, (name + part).c_str(), at(name + part).size(), channels);
    for (std::size_t c = 0; c < channels; ++c) {
      norm.weight[c] /= std::sqrt(variance[c] + epsilon);
      norm.bias[c] -= mean[c] * norm.weight[c];
    }
    return norm;
  }

 private:
  const TrainedModel& model_;
};

Realized realize_layer(const AnyTransferFunction& layer, std::size_t length, const RealizeOptions& options) {
  if (const auto* trained = std::get_if<TrainedTransferFunction>(&layer)) return realize(*trained, options);
  return realize(std::get<TransferFunction>(layer), length, options);
}

}  // namespace

Exported export_model(const TrainedModel& model, const RealizeOptions& options) {
  const Architecture& a = model.architecture;
  const std::size_t directions = a.bidirectional ? 2 : 1;
  check_count(operation, "the list of layers", model.layers.size(), directions * a.layers);
  const Weights weights(model);
  Exported exported;
  ModelFile& file = exported.file;
  file.architecture = a;
  file.precision = options.precision;
  if (a.vocabulary > 0) {
    file.encoder.weight = weights.at("encoder.weight");
  } else {
    file.encoder = weights.linear("encoder");
  }
  for (std::size_t i = 0; i < a.layers; ++i) {
    const std::string name = fmt::format("blocks.{}", i);
    ModelBlock& block = file.blocks.emplace_back();
    if (a.has_norms()) block.norm = weights.norm(name + ".norm");
    if (a.glu) block.output = weights.linear(name + ".output");
    const auto realized = [&](std::size_t direction, const char* which) {
      try {
        const AnyTransferFunction& layer = model.layers[directions * i + direction];
        return exported.layers.emplace_back(realize_layer(layer, a.length, options)).layer;
      } catch (const Error& error) {
        throw Error(error.code(), operation, fmt::format("layer {}{}: {}", i, which, without_operation(error)));
      }
    };
    block.layer = realized(0, a.bidirectional ? ", forward" : "");
    if (a.bidirectional) block.backward = realized(1, ", backward");
  }
  if (a.has_last_norm()) file.norm = weights.norm("norm");
  if (a.decoder == Architecture::Decoder::pair) {
    file.decoder = {weights.linear("decoder.0"), weights.linear("decoder.1")};
  } else {
    file.decoder = {weights.linear("decoder")};
  }
  validate(file, operation);
  return exported;
}

}  // namespace rtf
