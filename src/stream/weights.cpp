#include "stream/weights.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/arguments.h"
#include "core/bfloat16.h"
#include "core/float32.h"

namespace rtf {
namespace {

constexpr double largest_whole = 127;  // as far down as up: -128 is not used

// The largest weight of a row becomes 127.
void scale_rows(Linear& layer, std::size_t rows) {
  const std::size_t columns = rows > 0 ? layer.weight.size() / rows : 0;
  layer.scale.assign(rows, 1.0);
  for (std::size_t r = 0; r < rows; ++r) {
    double* row = layer.weight.data() + r * columns;
    double largest = 0;
    for (std::size_t i = 0; i < columns; ++i) largest = std::max(largest, std::abs(row[i]));
    if (largest == 0) continue;
    // A scale below float32's smallest normal number would lose its digits.
    double& scale = layer.scale[r];
    scale = std::max<double>(rounded_to_float32(largest / largest_whole), std::numeric_limits<float>::min());
    for (std::size_t i = 0; i < columns; ++i) row[i] = std::nearbyint(row[i] / scale) * scale;
  }
}

}  // namespace

std::vector<double> whole_weights(const Linear& layer) {
  std::vector<double> whole(layer.weight.size());
  const std::size_t columns = layer.scale.empty() ? 0 : layer.weight.size() / layer.scale.size();
  for (std::size_t i = 0; i < whole.size(); ++i)
    whole[i] = std::nearbyint(layer.weight[i] / layer.scale[i / columns]) + 0.0;  // no -0, which a byte cannot hold
  return whole;
}

void check_scales(const Linear& layer, std::size_t rows, const char* operation, const std::string& where) {
  if (layer.scale.size() != rows)
    fail(ErrorCode::argument, operation, "{} has {} scales; {} are needed", where, layer.scale.size(), rows);
  for (std::size_t r = 0; r < rows; ++r)
    if (!(layer.scale[r] > 0) || !std::isfinite(layer.scale[r]))
      fail(ErrorCode::argument, operation, "{} has the scale {} in row {}; positive ones are needed", where,
           layer.scale[r], r);
  if (rows == 0) return;
  for (const double value : whole_weights(layer))
    if (!(std::abs(value) <= largest_whole))
      fail(ErrorCode::argument, operation, "{} has a weight of {} times its scale; at most {} times is allowed", where,
           value, largest_whole);
}

void round_weights(ModelFile& file, DataType weights) {
  constexpr const char* operation = "round_weights";
  if (!is_narrow(weights)) fail(ErrorCode::argument, operation, "weights are rounded to bf16 or int8");
  if (file.precision != DataType::f32 || file.weights)
    fail(ErrorCode::argument, operation, "only a model of f32 can have its weights rounded, and once");
  validate(file, operation);
  const auto round = [&](Linear& layer, std::size_t rows) {
    if (weights == DataType::int8) return scale_rows(layer, rows);
    for (double& value : layer.weight) value = rounded_to_bfloat16(value);
  };
  round(file.encoder, file.architecture.vocabulary > 0 ? file.architecture.vocabulary : file.encoder.bias.size());
  if (file.architecture.glu)
    for (ModelBlock& block : file.blocks) round(block.output, block.output.bias.size());
  for (Linear& layer : file.decoder) round(layer, layer.bias.size());
  file.weights = weights;
  validate(file, operation);
}

}  // namespace rtf
