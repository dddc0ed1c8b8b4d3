#include "stream/model_tensors.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "core/arguments.h"
#include "core/array_bytes.h"
#include "core/bfloat16.h"
#include "core/float32.h"
#include "rtf/error.h"
#include "stream/layer_tensors.h"
#include "stream/weights.h"

namespace rtf {
namespace {

using Shape = std::vector<std::size_t>;

// visit_matrix(name, rows, columns, layer) for matrices and embeddings, visit_layer(name, layer) for recurrences and
// visit(name, size, values) for what is left. File is ModelFile or const ModelFile.
template <class File, class Visit, class VisitMatrix, class VisitLayer>
void each_tensor(File& file, Visit&& visit, VisitMatrix&& visit_matrix, VisitLayer&& visit_layer) {
  const Architecture& a = file.architecture;
  const auto linear = [&](const std::string& name, auto& layer, std::size_t outputs, std::size_t inputs) {
    visit_matrix(name, outputs, inputs, layer);
    visit(name + ".bias", outputs, layer.bias);
  };
  const auto norm = [&](const std::string& name, auto& layer) {
    visit(name + ".weight", a.channels, layer.weight);
    visit(name + ".bias", a.channels, layer.bias);
  };
  if (a.vocabulary > 0) {
    visit_matrix("encoder", a.vocabulary, a.channels, file.encoder);
  } else {
    linear("encoder", file.encoder, a.channels, a.features);
  }
  for (std::size_t i = 0; i < file.blocks.size(); ++i) {
    auto& block = file.blocks[i];
    const std::string name = fmt::format("blocks.{}.", i);
    if (a.has_norms()) norm(name + "norm", block.norm);
    visit_layer(name + "layer", block.layer);
    if (block.backward) visit_layer(name + "backward", *block.backward);
    if (a.glu) linear(name + "output", block.output, 2 * a.channels, a.channels);
  }
  if (a.has_last_norm()) norm("norm", file.norm);
  if (a.decoder == Architecture::Decoder::pair) {
    linear("decoder.0", file.decoder[0], a.channels, 4 * a.channels);
    linear("decoder.1", file.decoder[1], a.outputs, a.channels);
  } else {
    linear("decoder", file.decoder[0], a.outputs, a.channels);
  }
}

void check_architecture(const Architecture& a, const char* operation, const std::string& where) {
  const auto at_least = [&](const char* what, std::size_t value, std::size_t least) {
    if (value < least)
      fail(ErrorCode::argument, operation, "{}{} is {}; at least {} is needed", where, what, value, least);
  };
  if (a.vocabulary == 0) at_least("features", a.features, 1);
  at_least("channels", a.channels, 1);
  at_least("outputs", a.outputs, 1);
  if (a.decoder == Architecture::Decoder::last) at_least("last", a.last, 1);
}

void check(const ModelFile& file, const char* operation, const std::string& where) {
  const Architecture& a = file.architecture;
  check_architecture(a, operation, where);
  if (file.blocks.size() != a.layers)
    fail(ErrorCode::argument, operation, "{}{} blocks; the architecture has {} layers", where, file.blocks.size(),
         a.layers);
  const std::size_t decoders = a.decoder == Architecture::Decoder::pair ? 2 : 1;
  if (file.decoder.size() != decoders)
    fail(ErrorCode::argument, operation, "{}{} linear layers in the decoder; {} are needed", where, file.decoder.size(),
         decoders);
  for (const ModelBlock& block : file.blocks)
    if (block.backward.has_value() != a.bidirectional)
      fail(ErrorCode::argument, operation, "{}a block with {} backward layer; the model is {}bidirectional", where,
           block.backward ? "a" : "no", a.bidirectional ? "" : "not ");
  if (file.weights && (file.precision != DataType::f32 || !is_narrow(*file.weights)))
    fail(ErrorCode::argument, operation,
         "{}weights other than those of the precision are bf16 or int8, in a model of f32", where);
  const auto check_tensor = [&](const std::string& tensor, const Shape& shape, const std::vector<double>& values) {
    check_values(shape, values.size(), where + tensor, operation);
    if (!all_finite(std::span<const double>(values)))
      fail(ErrorCode::argument, operation, "{}{} holds a number that is not finite", where, tensor);
  };
  each_tensor(
      file,
      [&](const std::string& tensor, std::size_t size, const std::vector<double>& values) {
        check_tensor(tensor, {size}, values);
      },
      [&](const std::string& matrix, std::size_t rows, std::size_t columns, const Linear& layer) {
        check_tensor(matrix + ".weight", {rows, columns}, layer.weight);
        check_scales(layer, file.weights == DataType::int8 ? rows : 0, operation, where + matrix);
      },
      [&](const std::string& layer, const LayerRealization& realization) {
        check_layer(realization, a.channels, operation, where + layer);
      });
}

}  // namespace

void validate(const ModelFile& file, const char* operation) { check(file, operation, ""); }

TensorFile to_tensors(const ModelFile& file) {
  TensorFile tensors;
  each_tensor(
      file,
      [&](const std::string& tensor, std::size_t size, const std::vector<double>& values) {
        tensors.tensors[tensor] = {{size}, values, file.precision};
      },
      [&](const std::string& matrix, std::size_t rows, std::size_t columns, const Linear& layer) {
        const DataType type = file.weights.value_or(file.precision);
        tensors.tensors[matrix + ".weight"] = {
            {rows, columns}, type == DataType::int8 ? whole_weights(layer) : layer.weight, type};
        if (type == DataType::int8) tensors.tensors[matrix + ".scale"] = {{rows}, layer.scale, file.precision};
      },
      [&](const std::string& layer, const LayerRealization& one) { put_layer(tensors, layer, one); });
  for (auto& [tensor, array] : tensors.tensors) {
    if (array.type == DataType::f64) continue;
    check_range(array, tensor, "write_model");
    for (double& value : array.values) {
      if (array.type == DataType::f32) value = rounded_to_float32(value);
      if (array.type == DataType::bf16) value = rounded_to_bfloat16(value);
    }
  }
  return tensors;
}

void take_tensors(TensorFile& tensors, const std::string& path, ModelFile& file) {
  const Architecture& a = file.architecture;
  check_architecture(a, "read_model", path + ": ");
  file.decoder.resize(a.decoder == Architecture::Decoder::pair ? 2 : 1);
  TensorTaker taker(tensors, path);
  each_tensor(
      file,
      [&](const std::string& tensor, std::size_t size, std::vector<double>& values) {
        values = taker.take(tensor, {size}, file.precision).values;
      },
      [&](const std::string& matrix, std::size_t rows, std::size_t columns, Linear& layer) {
        layer.weight = taker.take(matrix + ".weight", {rows, columns}, file.weights.value_or(file.precision)).values;
        if (file.weights != DataType::int8) return;
        layer.scale = taker.take(matrix + ".scale", {rows}, file.precision).values;
        for (std::size_t i = 0; i < layer.weight.size(); ++i) layer.weight[i] *= layer.scale[i / columns];
      },
      [&](const std::string& layer, LayerRealization& one) { take_layer(taker, layer, a.channels, one); });
  taker.check_empty();
  check(file, "read_model", path + ": ");
}

}  // namespace rtf
