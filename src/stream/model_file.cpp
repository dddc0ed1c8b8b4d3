#include "rtf/model_file.h"

#include <charconv>
#include <cmath>
#include <limits>

#include "core/arguments.h"
#include "core/array_bytes.h"
#include "core/checksum.h"
#include "core/json.h"
#include "core/option_names.h"
#include "core/printable.h"
#include "core/safetensors_bytes.h"
#include "rtf/safetensors.h"
#include "stream/model_tensors.h"

namespace rtf {
namespace {

using nlohmann::json;
constexpr const char* format_name = "rtf-model ";
constexpr int format_version = 1;

[[noreturn]] void refuse(const std::string& path, const std::string& why, ErrorCode code = ErrorCode::format) {
  throw Error(code, "read_model", path + ": " + why);
}

constexpr OptionName<Architecture::Norm> norms[] = {
    {"none", Architecture::Norm::none}, {"batch", Architecture::Norm::batch}, {"layer", Architecture::Norm::layer}};
constexpr OptionName<Architecture::Activation> activations[] = {{"identity", Architecture::Activation::identity},
                                                                {"gelu", Architecture::Activation::gelu}};
constexpr OptionName<Architecture::Decoder> decoders[] = {{"pool", Architecture::Decoder::pool},
                                                          {"last", Architecture::Decoder::last},
                                                          {"position", Architecture::Decoder::position},
                                                          {"pair", Architecture::Decoder::pair}};
constexpr OptionName<DataType> narrow_types[] = {{"bf16", DataType::bf16}, {"int8", DataType::int8}};

template <class Enum, std::size_t count>
const char* text_of(const OptionName<Enum> (&names)[count], Enum value) {
  for (const auto& one : names)
    if (one.value == value) return one.name;
  return "?";
}

// One JSON object of the metadata; every key is read once, and finish() refuses what is left over.
class Object {
 public:
  Object(const json& value, std::string where, const std::string& path)
      : value_(value), where_(std::move(where)), path_(path) {
    if (!value.is_object()) refuse(path, fmt::format("{} is {}, expected an object", where_, json_text(value)));
  }

  void read(const char* key, std::size_t& into) {
    const json& found = at(key);
    // Products of two sizes then fit.
    if (!found.is_number_unsigned() || found.get<std::uint64_t>() > std::numeric_limits<std::uint32_t>::max())
      bad(key, found, "a size");
    into = found.get<std::size_t>();
  }
  void read(const char* key, bool& into) {
    const json& found = at(key);
    if (!found.is_boolean()) bad(key, found, "true or false");
    into = found.get<bool>();
  }
  void read(const char* key, double& into) {
    const json& found = at(key);
    if (!found.is_number() || !std::isfinite(found.get<double>()) || found.get<double>() < 0)
      bad(key, found, "a number from 0 on");
    into = found.get<double>();
  }
  bool has(const char* key) const { return value_.contains(key); }
  void finish() const {
    if (read_ != value_.size()) refuse(path_, where_ + " has keys that this version does not know");
  }
  template <class Enum, std::size_t count>
  void read(const char* key, const OptionName<Enum> (&names)[count], Enum& into) {
    const json& found = at(key);
    std::string known;
    for (const auto& one : names) {
      if (found == one.name) {
        into = one.value;
        return;
      }
      known += (known.empty() ? "" : ", ") + std::string(one.name);
    }
    bad(key, found, "one of " + known);
  }

 private:
  const json& at(const char* key) {
    ++read_;
    if (!value_.contains(key)) refuse(path_, fmt::format("{} has no '{}'", where_, key));
    return value_[key];
  }
  [[noreturn]] void bad(const char* key, const json& found, const std::string& expected) {
    refuse(path_, fmt::format("{}: '{}' is {}, expected {}", where_, key, json_text(found), expected));
  }

  const json& value_;
  std::string where_;
  const std::string& path_;
  std::size_t read_ = 0;
};

json architecture_json(const ModelFile& file) {
  const Architecture& a = file.architecture;
  json object{{"vocabulary", a.vocabulary},
              {"features", a.features},
              {"channels", a.channels},
              {"layers", a.layers},
              {"norm", name(a.norm)},
              {"prenorm", a.prenorm},
              {"residual", a.residual},
              {"activation", name(a.activation)},
              {"glu", a.glu},
              {"decoder", name(a.decoder)},
              {"outputs", a.outputs},
              {"last", a.last},
              {"bidirectional", a.bidirectional},
              {"length", a.length},
              {"precision", text_of(precisions, file.precision)}};
  if (file.weights) object["weights"] = text_of(narrow_types, *file.weights);
  return object;
}

void read_architecture(const json& value, const std::string& path, ModelFile& file) {
  Architecture& a = file.architecture;
  Object object(value, "architecture", path);
  object.read("vocabulary", a.vocabulary);
  object.read("features", a.features);
  object.read("channels", a.channels);
  object.read("layers", a.layers);
  object.read("norm", norms, a.norm);
  object.read("prenorm", a.prenorm);
  object.read("residual", a.residual);
  object.read("activation", activations, a.activation);
  object.read("glu", a.glu);
  object.read("decoder", decoders, a.decoder);
  object.read("outputs", a.outputs);
  object.read("last", a.last);
  object.read("bidirectional", a.bidirectional);
  object.read("length", a.length);
  object.read("precision", precisions, file.precision);
  if (object.has("weights")) object.read("weights", narrow_types, file.weights.emplace());
  object.finish();
}

json layer_json(const LayerRealization& layer) {
  return {{"realization", realization_name(layer.realization)},
          {"precision", text_of(precisions, layer.precision)},
          {"pole_radius", layer.pole_radius},
          {"error", layer.error}};
}

enum class Form { companion, sos, modal };
constexpr OptionName<Form> forms[] = {{"companion", Form::companion}, {"sos", Form::sos}, {"modal", Form::modal}};

LayerRealization read_layer(const json& value, const std::string& where, const std::string& path) {
  LayerRealization layer;
  Form form{};
  Object object(value, where, path);
  object.read("realization", forms, form);
  object.read("precision", precisions, layer.precision);
  object.read("pole_radius", layer.pole_radius);
  object.read("error", layer.error);
  object.finish();
  if (form == Form::sos) layer.realization = std::vector<SecondOrderSections>();
  if (form == Form::modal) layer.realization = std::vector<Modal>();
  return layer;
}

const std::string& metadata(const TensorFile& file, const char* key, const std::string& path) {
  const auto found = file.metadata.find(key);
  if (found == file.metadata.end()) {
    const bool filter = file.tensors.contains("a") && file.tensors.contains("b") && file.tensors.contains("h0");
    refuse(path, fmt::format("its metadata has no '{}': not a model that rtf export wrote{}", key,
                             filter ? "; it is a filter, which `rtf filter` runs" : ""));
  }
  return found->second;
}

template <class Number>
Number read_number(std::string_view text, const char* what, const std::string& path) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    refuse(path, fmt::format("its metadata has {} '{}', expected a number", what, printable(text)));
  return value;
}

// Version and checksum come first: what a newer version means by the rest is not for us to guess.
void check_envelope(const TensorFile& file, const std::string& path) {
  const std::string& format = metadata(file, "format", path);
  if (!format.starts_with(format_name))
    refuse(path, fmt::format("its format is '{}', expected '{}{}'", printable(format), format_name, format_version));
  const auto version =
      read_number<int>(std::string_view(format).substr(std::string_view(format_name).size()), "format", path);
  if (version != format_version)
    refuse(path,
           fmt::format("format version {}; this library reads version {}{}", version, format_version,
                       version > format_version ? ": use a newer one" : ""),
           ErrorCode::unsupported);
  if (read_number<std::uint32_t>(metadata(file, "crc32", path), "crc32", path) != checksum(file))
    refuse(path, "damaged: its checksum does not match its contents");
}

}  // namespace

const char* name(DataType type) {
  return type == DataType::f32 || type == DataType::f64 ? text_of(precisions, type) : text_of(narrow_types, type);
}
const char* name(Architecture::Norm norm) { return text_of(norms, norm); }
const char* name(Architecture::Activation activation) { return text_of(activations, activation); }
const char* name(Architecture::Decoder decoder) { return text_of(decoders, decoder); }
const char* realization_name(const Realization& realization) {
  return text_of(forms, static_cast<Form>(realization.index()));
}

namespace {

// The architecture, precision and type of weights of a file that has nothing else yet.
ModelFile begin_model(const std::string& architecture, const std::string& path) {
  ModelFile file;
  read_architecture(parse_json(architecture, path + ": architecture", "read_model"), path, file);
  return file;
}

}  // namespace

Architecture parse_architecture(const std::string& text, const std::string& path) {
  return begin_model(text, path).architecture;
}

ModelFile to_model(TensorFile tensors, const std::string& path) {
  check_envelope(tensors, path);
  ModelFile file = begin_model(metadata(tensors, "architecture", path), path);
  const json layers = parse_json(metadata(tensors, "layers", path), path + ": layers", "read_model");
  const std::size_t directions = file.architecture.bidirectional ? 2 : 1;
  if (!layers.is_array() || layers.size() != directions * file.architecture.layers)
    refuse(path, fmt::format("its metadata 'layers' does not list the {} layers of the architecture",
                             file.architecture.layers));
  for (std::size_t i = 0; i < file.architecture.layers; ++i) {
    ModelBlock& block = file.blocks.emplace_back();
    block.layer = read_layer(layers[directions * i], fmt::format("layer {}", i), path);
    if (directions == 2) block.backward = read_layer(layers[2 * i + 1], fmt::format("backward layer {}", i), path);
  }
  take_tensors(tensors, path, file);
  return file;
}

ModelFile read_model(const std::string& path) { return to_model(read_safetensors(path), path); }

ModelFile read_model(std::span<const std::byte> bytes, const std::string& name) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return to_model(parse_safetensors(text, name), name);
}

TensorFile from_model(const ModelFile& file) {
  validate(file, "write_model");
  TensorFile tensors = to_tensors(file);
  json layers = json::array();
  for (const ModelBlock& block : file.blocks) {
    layers.push_back(layer_json(block.layer));
    if (block.backward) layers.push_back(layer_json(*block.backward));
  }
  tensors.metadata = {{"format", fmt::format("{}{}", format_name, format_version)},
                      {"architecture", architecture_json(file).dump()},
                      {"layers", layers.dump()}};
  tensors.metadata["crc32"] = std::to_string(checksum(tensors));
  return tensors;
}

void write_model(const std::string& path, const ModelFile& file) { write_safetensors(path, from_model(file)); }

}  // namespace rtf
