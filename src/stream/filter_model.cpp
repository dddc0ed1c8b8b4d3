#include <utility>

#include "core/arguments.h"
#include "rtf/model_file.h"

namespace rtf {
namespace {

constexpr const char* operation = "filter_model";

// (rows, columns) of ones, or the identity.
Linear wires(std::size_t rows, std::size_t columns, bool separate) {
  Linear linear{std::vector<double>(rows * columns, separate ? 0.0 : 1.0), std::vector<double>(rows, 0.0)};
  if (separate)
    for (std::size_t c = 0; c < rows; ++c) linear.weight[c * (columns + 1)] = 1;
  return linear;
}

void check_wires(const char* name, std::size_t count, std::size_t channels) {
  if (count != 1 && count != channels)
    fail(ErrorCode::argument, operation, "{} is {}, expected 1 or {}, the number of channels", name, count, channels);
}

}  // namespace

ModelFile filter_model(LayerRealization layer, std::size_t inputs, std::size_t outputs, DataType precision) {
  const auto* companion = std::get_if<TransferFunction>(&layer.realization);
  const auto* sos = std::get_if<std::vector<SecondOrderSections>>(&layer.realization);
  const std::size_t channels = companion ? companion->channels
                               : sos     ? sos->size()
                                         : std::get<std::vector<Modal>>(layer.realization).size();
  check_wires("inputs", inputs, channels);
  check_wires("outputs", outputs, channels);
  ModelFile file;
  Architecture& a = file.architecture;
  a.features = inputs;
  a.channels = channels;
  a.outputs = outputs;
  a.layers = 1;
  a.norm = Architecture::Norm::none;
  a.residual = a.glu = false;
  a.activation = Architecture::Activation::identity;
  a.decoder = Architecture::Decoder::position;
  file.precision = precision;
  file.encoder = wires(channels, inputs, inputs == channels);
  file.blocks.resize(1);
  file.blocks[0].layer = std::move(layer);
  file.decoder = {wires(outputs, channels, outputs == channels)};
  validate(file, operation);
  return file;
}

}  // namespace rtf
