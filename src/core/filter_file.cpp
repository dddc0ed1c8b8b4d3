#include "rtf/filter_file.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <string_view>
#include <type_traits>

#include "core/array_bytes.h"
#include "core/atomic_file.h"
#include "core/conditioning.h"
#include "core/file_errors.h"
#include "core/filter_bytes.h"
#include "core/filter_json.h"
#include "core/form_file.h"
#include "core/printable.h"
#include "core/safetensors_bytes.h"
#include "rtf/error.h"
#include "rtf/executor.h"

namespace rtf {
namespace {

using nlohmann::json;

constexpr std::size_t max_length = std::size_t{1} << 53;  // what every JSON reader keeps exactly

bool is_safetensors(const std::string& path) { return path.ends_with(".safetensors"); }

using Matrix = JsonMatrix;

[[noreturn]] void fail(const std::string& path, const std::string& why) { fail_reading(path, why); }

Matrix read_matrix(const Array& array, const std::string& path, const std::string& name) {
  if (array.shape.size() != 1 && array.shape.size() != 2) {
    fail(path,
         fmt::format("tensor '{}' has shape {}, expected (rows, order) or (order)", name, shape_text(array.shape)));
  }
  const bool flat = array.shape.size() == 1;
  return {flat ? 1 : array.shape[0], array.shape.back(), array.values, flat};
}

// Puts a, b and h0 together; every message names the file and what does not fit.
Coefficients assemble(Matrix a, Matrix b, std::vector<double> h0, const std::string& path) {
  Coefficients result;
  result.channels = h0.size();
  if (result.channels == 0) fail(path, "h0 is empty, expected one value for each channel");
  // At order 0 an empty list stands for any number of empty rows.
  if (b.flat && b.columns == 0 && a.columns == 0) b.rows = result.channels;
  if (a.columns != b.columns) fail(path, fmt::format("a has order {}, but b has order {}", a.columns, b.columns));
  if (b.rows != result.channels) {
    fail(path, fmt::format("b has {} rows, but h0 has {} values", b.rows, result.channels));
  }
  if (a.rows == 0 || result.channels % a.rows != 0) {
    fail(path, fmt::format("a has {} rows, which do not divide the {} channels", a.rows, result.channels));
  }
  result.groups = a.rows;
  result.order = a.columns;
  result.a = std::move(a.values);
  result.b = std::move(b.values);
  result.h0 = std::move(h0);
  const auto check_finite = [&](const std::vector<double>& values, const char* name) {
    for (const double value : values) {
      if (!std::isfinite(value)) fail(path, fmt::format("{} holds {}, expected finite coefficients", name, value));
    }
  };
  check_finite(result.a, "a");
  check_finite(result.b, "b");
  check_finite(result.h0, "h0");
  return result;
}

AnyTransferFunction with_length(Coefficients coefficients, std::size_t length) {
  if (length == 0) return TransferFunction{std::move(coefficients)};
  return TrainedTransferFunction{std::move(coefficients), length};
}

[[noreturn]] void bad_length(const std::string& path, const std::string& text) {
  fail(path, fmt::format("length is {}, expected a whole number from 1 to 2^53", text));
}

AnyTransferFunction read_transfer_function(const json& file, const std::string& path) {
  for (const auto& [key, value] : file.items()) {
    if (key != "a" && key != "b" && key != "h0" && key != "length" && key != "form") {
      fail(path, fmt::format("unknown key '{}', expected a, b, h0 and length", printable(key)));
    }
  }
  for (const char* key : {"a", "b", "h0"}) {
    if (!file.contains(key)) fail(path, fmt::format("has no '{}'", key));
  }
  std::vector<double> h0;
  if (file["h0"].is_number()) {
    h0.push_back(file["h0"].get<double>());
  } else {
    h0 = json_row(file["h0"], path, "h0");
  }
  std::size_t length = 0;
  if (file.contains("length")) {
    const json& value = file["length"];
    if (value.is_number_unsigned()) length = value.get<std::size_t>();
    if (length < 1 || length > max_length) bad_length(path, json_text(value));
  }
  return with_length(
      assemble(json_matrix(file["a"], path, "a"), json_matrix(file["b"], path, "b"), std::move(h0), path), length);
}

AnyFilter parse_json_filter(std::string_view text, const std::string& path) {
  const json file = parse_json(text, path, "read_filter");
  if (!file.is_object()) fail(path, fmt::format("holds {}, expected an object with a, b and h0", json_text(file)));
  if (file.contains("form") && file["form"] != "tf") return read_form(file, path);
  return std::visit([](auto&& tf) -> AnyFilter { return std::move(tf); }, read_transfer_function(file, path));
}

AnyTransferFunction from_tensors(const TensorFile& file, const std::string& path) {
  for (const auto& [name, array] : file.tensors) {
    if (name != "a" && name != "b" && name != "h0") {
      fail(path,
           fmt::format("unknown tensor '{}', expected a, b and h0{}", printable(name),
                       file.metadata.contains("architecture") ? "; an exported model is run by `rtf stream`" : ""));
    }
  }
  for (const char* name : {"a", "b", "h0"}) {
    if (!file.tensors.contains(name)) fail(path, fmt::format("has no tensor '{}'", name));
  }
  for (const auto& [name, array] : file.tensors) {
    if (array.type != DataType::f32 && array.type != DataType::f64)
      fail(path, fmt::format("tensor '{}' has dtype \"{}\"; expected \"F32\" or \"F64\"", printable(name),
                             safetensors_name(array.type)));
  }
  const Array& h0 = file.tensors.at("h0");
  if (h0.shape.size() > 1) {
    fail(path, fmt::format("tensor 'h0' has shape {}, expected (channels)", shape_text(h0.shape)));
  }
  // Other metadata, such as a framework's name, is none of our business.
  std::size_t length = 0;
  if (const auto found = file.metadata.find("length"); found != file.metadata.end()) {
    const std::string& text = found->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
    if (error != std::errc() || end != text.data() + text.size() || length < 1 || length > max_length) {
      bad_length(path, json_text(text));
    }
  }
  return with_length(assemble(read_matrix(file.tensors.at("a"), path, "a"),
                              read_matrix(file.tensors.at("b"), path, "b"), h0.values, path),
                     length);
}

}  // namespace

AnyFilter parse_filter(std::string_view bytes, const std::string& path) {
  if (!is_safetensors(path)) return parse_json_filter(bytes, path);
  return std::visit([](auto&& tf) -> AnyFilter { return std::move(tf); },
                    from_tensors(parse_safetensors(bytes, path), path));
}

AnyFilter read_any_filter(const std::string& path) { return parse_filter(read_file(path, "read_filter"), path); }

AnyTransferFunction read_filter(const std::string& path) { return to_coefficients(read_any_filter(path), path); }

AnyTransferFunction to_coefficients(AnyFilter filter, const std::string& path) {
  if (auto* tf = std::get_if<TransferFunction>(&filter)) return std::move(*tf);
  if (auto* trained = std::get_if<TrainedTransferFunction>(&filter)) return std::move(*trained);
  const auto refuse = [&](std::size_t inputs, std::size_t outputs) {
    fail(path, fmt::format("a system of {} input{} and {} output{}, expected channels of one input and one output each",
                           inputs, inputs == 1 ? "" : "s", outputs, outputs == 1 ? "" : "s"));
  };
  if (const auto* system = std::get_if<StateSpace>(&filter)) refuse(system->inputs, system->outputs);
  if (const auto* mimo = std::get_if<MimoTransferFunction>(&filter)) refuse(mimo->inputs, mimo->outputs);
  const auto* systems = std::get_if<std::vector<System>>(&filter);
  std::vector<TransferFunction> channels(systems->size());
  parallel_for(default_executor(), channels.size(), [&](std::size_t c, std::size_t) {
    Converted<TransferFunction> converted;
    try {
      converted = to_transfer_function((*systems)[c]);
    } catch (const Error& error) {
      throw Error(error.code(), "read_filter",
                  fmt::format("{}: channel {} as a transfer function: {}", path, c, without_operation(error)));
    }
    if (!(converted.report.worst() <= refused_bound))
      throw Error(ErrorCode::unstable, "read_filter",
                  fmt::format("{}: as a transfer function channel {} of this {} would be off by {:.1e} of its largest "
                              "value (at most {:.0e} is allowed)",
                              path, c, form_name((*systems)[c]), converted.report.worst(), refused_bound));
    channels[c] = std::move(converted.value);
  });
  return join_channels(channels);
}

namespace {

// `trained` is `c`, or null for a plain numerator.
std::string coefficient_bytes(const Coefficients& c, const TrainedTransferFunction* trained, const std::string& path) {
  validate(c, "write_filter");
  if (trained && (trained->length < 1 || trained->length > max_length)) {
    throw Error(ErrorCode::argument, "write_filter",
                fmt::format("{}: length {} is not from 1 to 2^53", path, trained->length));
  }
  if (is_safetensors(path)) {
    TensorFile file;
    file.tensors["a"] = {{c.groups, c.order}, c.a, DataType::f64};
    file.tensors["b"] = {{c.channels, c.order}, c.b, DataType::f64};
    file.tensors["h0"] = {{c.channels}, c.h0, DataType::f64};
    if (trained) file.metadata["length"] = fmt::format("{}", trained->length);
    return safetensors_bytes(file, path);
  }
  std::string text =
      fmt::format("{{\n  \"a\": {},\n  \"b\": {},\n  \"h0\": {}", matrix_text(c.a.data(), c.groups, c.order),
                  matrix_text(c.b.data(), c.channels, c.order), row_text(c.h0.data(), c.channels));
  if (trained) text += fmt::format(",\n  \"length\": {}", trained->length);
  return text + "\n}\n";
}

}  // namespace

std::string filter_bytes(const AnyFilter& filter, const std::string& path) {
  return std::visit(
      [&](const auto& value) {
        using Value = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, TrainedTransferFunction>) {
          return coefficient_bytes(value, &value, path);
        } else if constexpr (std::is_same_v<Value, TransferFunction>) {
          return coefficient_bytes(value, nullptr, path);
        } else {
          if (is_safetensors(path)) {
            throw Error(ErrorCode::argument, "write_filter",
                        fmt::format("{}: safetensors hold the form tf alone; write this one as JSON", path));
          }
          return form_text(value);
        }
      },
      filter);
}

void write_any_filter(const std::string& path, const AnyFilter& filter) {
  StagedFile(path, filter_bytes(filter, path), "write_filter").commit();
}

void write_filter(const std::string& path, const AnyTransferFunction& filter) {
  write_any_filter(path, std::visit([](const auto& tf) -> AnyFilter { return tf; }, filter));
}

}  // namespace rtf
