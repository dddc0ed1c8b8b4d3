#include "stream/model_tensors.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "core/arguments.h"
#include "core/array_bytes.h"
#include "core/float32.h"
#include "core/printable.h"
#include "rtf/error.h"

namespace rtf {
namespace {

using Shape = std::vector<std::size_t>;

// visit(name, shape, values, precision) for every tensor but those of the recurrences; visit_layer(name, layer) for
// these. File is ModelFile or const ModelFile.
template <class File, class Visit, class VisitLayer>
void each_tensor(File& file, Visit&& visit, VisitLayer&& visit_layer) {
  const Architecture& a = file.architecture;
  const auto linear = [&](const std::string& name, auto& layer, std::size_t outputs, std::size_t inputs) {
    visit(name + ".weight", Shape{outputs, inputs}, layer.weight);
    visit(name + ".bias", Shape{outputs}, layer.bias);
  };
  const auto norm = [&](const std::string& name, auto& layer) {
    visit(name + ".weight", Shape{a.channels}, layer.weight);
    visit(name + ".bias", Shape{a.channels}, layer.bias);
  };
  if (a.vocabulary > 0) {
    visit("encoder.weight", Shape{a.vocabulary, a.channels}, file.encoder.weight);
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

// --- Recurrences as tensors -----------------------------------------------------------------------------------------

void put(TensorFile& tensors, const std::string& name, const TransferFunction& tf, DataType type) {
  tensors.tensors[name + ".a"] = {{tf.groups, tf.order}, tf.a, type};
  tensors.tensors[name + ".b"] = {{tf.channels, tf.order}, tf.b, type};
  tensors.tensors[name + ".h0"] = {{tf.channels}, tf.h0, type};
}

void put(TensorFile& tensors, const std::string& name, const std::vector<SecondOrderSections>& channels,
         DataType type) {
  Array array{{channels.size(), channels.at(0).sections.size(), 6}, {}, type};
  for (const auto& channel : channels)
    for (const auto& section : channel.sections)
      array.values.insert(array.values.end(), section.begin(), section.end());
  tensors.tensors[name + ".sections"] = std::move(array);
}

void put(TensorFile& tensors, const std::string& name, const std::vector<Modal>& channels, DataType type) {
  const std::size_t order = channels.at(0).poles.size();
  Array poles{{channels.size(), order, 2}, {}, type}, residues = poles, h0{{channels.size()}, {}, type};
  const auto append = [](Array& array, std::complex<double> value) {
    array.values.push_back(value.real());
    array.values.push_back(value.imag());
  };
  for (const Modal& channel : channels) {
    for (std::size_t i = 0; i < order; ++i) {
      append(poles, channel.poles[i]);
      append(residues, channel.residues[i]);
    }
    h0.values.push_back(channel.h0);
  }
  tensors.tensors[name + ".poles"] = std::move(poles);
  tensors.tensors[name + ".residues"] = std::move(residues);
  tensors.tensors[name + ".h0"] = std::move(h0);
}

// Hands out the tensors of a file one by one, with the shapes that they must have.
class Taker {
 public:
  Taker(TensorFile& tensors, const std::string& path) : tensors_(tensors.tensors), path_(path) {}

  // Sizes that are `any` are free.
  static constexpr std::size_t any = static_cast<std::size_t>(-1);
  Array take(const std::string& name, const Shape& shape, DataType type) {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) refuse(name + " is missing");
    Array array = std::move(found->second);
    tensors_.erase(found);
    const bool fits = array.shape.size() == shape.size() &&
                      std::equal(shape.begin(), shape.end(), array.shape.begin(),
                                 [](std::size_t wanted, std::size_t got) { return wanted == any || wanted == got; });
    if (!fits) refuse(fmt::format("{} has shape {}, expected {}", name, shape_text(array.shape), wanted_text(shape)));
    if (array.type != type)
      refuse(fmt::format("{} is {}, expected {}", name, array.type == DataType::f32 ? "F32" : "F64",
                         type == DataType::f32 ? "F32" : "F64"));
    if (!all_finite(std::span<const double>(array.values))) refuse(name + " holds a number that is not finite");
    return array;
  }
  void check_empty() const {
    if (!tensors_.empty())
      refuse(fmt::format("tensor '{}' has no place in this model", printable(tensors_.begin()->first)));
  }
  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(ErrorCode::format, "read_model", path_ + ": " + why);
  }

 private:
  static std::string wanted_text(const Shape& shape) {
    std::string text;
    for (const std::size_t size : shape)
      text += (text.empty() ? "" : ", ") + (size == any ? std::string("any") : std::to_string(size));
    return "(" + text + ")";
  }

  std::map<std::string, Array>& tensors_;
  const std::string& path_;
};

void get(Taker& taker, const std::string& name, std::size_t channels, DataType type, TransferFunction& tf) {
  Array a = taker.take(name + ".a", {Taker::any, Taker::any}, type);
  tf.channels = channels;
  tf.groups = a.shape[0];
  tf.order = a.shape[1];
  if (tf.groups == 0 || channels % tf.groups != 0)
    taker.refuse(fmt::format("{}.a has {} denominators, which do not divide {} channels", name, tf.groups, channels));
  tf.a = std::move(a.values);
  tf.b = taker.take(name + ".b", {channels, tf.order}, type).values;
  tf.h0 = taker.take(name + ".h0", {channels}, type).values;
}

void get(Taker& taker, const std::string& name, std::size_t channels, DataType type,
         std::vector<SecondOrderSections>& into) {
  const Array array = taker.take(name + ".sections", {channels, Taker::any, 6}, type);
  into.resize(channels);
  auto at = array.values.begin();
  for (auto& channel : into)
    for (std::size_t s = 0; s < array.shape[1]; ++s, at += 6)
      std::copy_n(at, 6, channel.sections.emplace_back().begin());
}

void get(Taker& taker, const std::string& name, std::size_t channels, DataType type, std::vector<Modal>& into) {
  const Array poles = taker.take(name + ".poles", {channels, Taker::any, 2}, type);
  const std::size_t order = poles.shape[1];
  const Array residues = taker.take(name + ".residues", {channels, order, 2}, type);
  const Array h0 = taker.take(name + ".h0", {channels}, type);
  into.resize(channels);
  for (std::size_t c = 0; c < channels; ++c) {
    into[c].h0 = h0.values[c];
    for (std::size_t i = 2 * c * order; i < 2 * (c + 1) * order; i += 2) {
      into[c].poles.emplace_back(poles.values[i], poles.values[i + 1]);
      into[c].residues.emplace_back(residues.values[i], residues.values[i + 1]);
    }
  }
}

// --- What a recurrence must be --------------------------------------------------------------------------------------

struct LayerCheck {
  const char* operation;
  const std::string& where;  // "model.safetensors: blocks.0.layer"
  std::size_t channels;

  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorCode::argument, operation, "{}{}", where, fmt::format(format, std::forward<Args>(args)...));
  }
  void count(std::size_t got) const {
    if (got != channels) refuse(" has {} channels, the model has {}", got, channels);
  }

  void operator()(const TransferFunction& tf) const {
    count(tf.channels);
    validate(tf, operation);
  }
  void operator()(const std::vector<SecondOrderSections>& all) const {
    count(all.size());
    if (all[0].sections.empty()) refuse(" has no sections; at least one is needed");
    for (std::size_t c = 0; c < channels; ++c) {
      if (all[c].sections.size() != all[0].sections.size())
        refuse(" has {} sections in channel {}, {} in channel 0", all[c].sections.size(), c, all[0].sections.size());
      for (const auto& section : all[c].sections)
        if (section[3] != 1 || !all_finite(std::span<const double>(section)))
          refuse(" has a section with a0 = {} in channel {}; 1 and finite numbers are needed", section[3], c);
    }
  }
  void operator()(const std::vector<Modal>& all) const {
    count(all.size());
    for (std::size_t c = 0; c < channels; ++c) {
      const Modal& one = all[c];
      if (one.poles.size() != all[0].poles.size() || one.residues.size() != one.poles.size())
        refuse(" has {} poles and {} residues in channel {}; channel 0 has {} poles", one.poles.size(),
               one.residues.size(), c, all[0].poles.size());
      for (std::size_t i = 0; i < one.poles.size(); ++i) {
        if (one.poles[i].imag() == 0 && one.residues[i].imag() == 0) continue;
        if (i + 1 == one.poles.size() || one.poles[i + 1] != std::conj(one.poles[i]) ||
            one.residues[i + 1] != std::conj(one.residues[i]))
          refuse(" has a pole {} in channel {} without its conjugate beside it", i, c);
        ++i;
      }
    }
  }
};

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
  each_tensor(
      file,
      [&](const std::string& tensor, const Shape& shape, const std::vector<double>& values) {
        check_values(shape, values.size(), where + tensor, operation);
        if (!all_finite(std::span<const double>(values)))
          fail(ErrorCode::argument, operation, "{}{} holds a number that is not finite", where, tensor);
      },
      [&](const std::string& layer, const LayerRealization& realization) {
        std::visit(LayerCheck{operation, where + layer, a.channels}, realization.realization);
      });
}

}  // namespace

void validate(const ModelFile& file, const char* operation) { check(file, operation, ""); }

TensorFile to_tensors(const ModelFile& file) {
  TensorFile tensors;
  each_tensor(
      file,
      [&](const std::string& tensor, const Shape& shape, const std::vector<double>& values) {
        tensors.tensors[tensor] = {shape, values, file.precision};
      },
      [&](const std::string& layer, const LayerRealization& one) {
        std::visit([&](const auto& form) { put(tensors, layer, form, one.precision); }, one.realization);
      });
  for (auto& [tensor, array] : tensors.tensors)
    if (array.type == DataType::f32)
      for (double& value : array.values) {
        const double narrow = rounded_to_float32(value);
        if (!std::isfinite(narrow))
          fail(ErrorCode::argument, "write_model", "{} holds {}, too large for float32", tensor, value);
        value = narrow;
      }
  return tensors;
}

void take_tensors(TensorFile& tensors, const std::string& path, ModelFile& file) {
  const Architecture& a = file.architecture;
  check_architecture(a, "read_model", path + ": ");
  file.decoder.resize(a.decoder == Architecture::Decoder::pair ? 2 : 1);
  Taker taker(tensors, path);
  each_tensor(
      file,
      [&](const std::string& tensor, const Shape& shape, std::vector<double>& values) {
        values = taker.take(tensor, shape, file.precision).values;
      },
      [&](const std::string& layer, LayerRealization& one) {
        std::visit([&](auto& form) { get(taker, layer, a.channels, one.precision, form); }, one.realization);
      });
  taker.check_empty();
  check(file, "read_model", path + ": ");
}

}  // namespace rtf
