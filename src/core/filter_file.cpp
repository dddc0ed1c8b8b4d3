#include "rtf/filter_file.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <string_view>

#include "core/array_bytes.h"
#include "core/atomic_file.h"
#include "core/json.h"
#include "rtf/error.h"
#include "rtf/safetensors.h"

namespace rtf {
namespace {

using nlohmann::json;

constexpr std::size_t max_length = std::size_t{1} << 53;  // what every JSON reader keeps exactly

[[noreturn]] void fail(const std::string& path, const std::string& why) {
  throw Error(ErrorCode::format, "read_filter", fmt::format("{}: {}", path, why));
}

bool is_safetensors(const std::string& path) { return path.ends_with(".safetensors"); }

// A list of rows of one size. `flat` when the file gave the numbers of a single row, or of none, without a list of
// rows.
struct Matrix {
  std::size_t rows = 0, columns = 0;
  std::vector<double> values;
  bool flat = false;
};

double number(const json& value, const std::string& path, const std::string& place) {
  if (!value.is_number()) fail(path, fmt::format("{} is {}, expected a number", place, json_text(value)));
  return value.get<double>();
}

void append_row(const json& row, const std::string& path, const std::string& place, Matrix& matrix) {
  if (!row.is_array()) fail(path, fmt::format("{} is {}, expected a list of numbers", place, json_text(row)));
  for (std::size_t i = 0; i < row.size(); ++i) {
    matrix.values.push_back(number(row[i], path, fmt::format("{}[{}]", place, i)));
  }
}

Matrix read_matrix(const json& value, const std::string& path, const std::string& name) {
  Matrix matrix;
  matrix.flat = !value.is_array() || value.empty() || !value[0].is_array();
  if (matrix.flat) {
    append_row(value, path, name, matrix);
    matrix.rows = 1;
    matrix.columns = value.size();
    return matrix;
  }
  matrix.rows = value.size();
  matrix.columns = value[0].size();
  for (std::size_t i = 0; i < matrix.rows; ++i) {
    append_row(value[i], path, fmt::format("{}[{}]", name, i), matrix);
    if (value[i].size() != matrix.columns) {
      fail(path, fmt::format("{0}[{1}] has {2} values, but {0}[0] has {3}", name, i, value[i].size(), matrix.columns));
    }
  }
  return matrix;
}

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

AnyTransferFunction read_json(const std::string& path) {
  const json file = parse_json(read_file(path, "read_filter"), path, "read_filter");
  if (!file.is_object()) fail(path, fmt::format("holds {}, expected an object with a, b and h0", json_text(file)));
  for (const auto& [key, value] : file.items()) {
    if (key != "a" && key != "b" && key != "h0" && key != "length") {
      fail(path, fmt::format("unknown key '{:.40}', expected a, b, h0 and length", key));
    }
  }
  for (const char* key : {"a", "b", "h0"}) {
    if (!file.contains(key)) fail(path, fmt::format("has no '{}'", key));
  }
  Matrix h0;
  if (file["h0"].is_number()) {
    h0.values.push_back(file["h0"].get<double>());
  } else {
    append_row(file["h0"], path, "h0", h0);
  }
  std::size_t length = 0;
  if (file.contains("length")) {
    const json& value = file["length"];
    if (value.is_number_unsigned()) length = value.get<std::size_t>();
    if (length < 1 || length > max_length) bad_length(path, json_text(value));
  }
  return with_length(
      assemble(read_matrix(file["a"], path, "a"), read_matrix(file["b"], path, "b"), std::move(h0.values), path),
      length);
}

AnyTransferFunction read_tensors(const std::string& path) {
  const TensorFile file = read_safetensors(path);
  for (const auto& [name, array] : file.tensors) {
    if (name != "a" && name != "b" && name != "h0") {
      fail(path, fmt::format("unknown tensor '{:.40}', expected a, b and h0", name));
    }
  }
  for (const char* name : {"a", "b", "h0"}) {
    if (!file.tensors.contains(name)) fail(path, fmt::format("has no tensor '{}'", name));
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

// The shortest digits that read back to the same double, 17 at most. "-0" would read back as the integer 0.
std::string number_text(double value) {
  return value == 0 && std::signbit(value) ? std::string("-0.0") : fmt::format("{}", value);
}

std::string row_text(const double* values, std::size_t count) {
  std::string text = "[";
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0) text += ", ";
    text += number_text(values[i]);
  }
  return text + "]";
}

std::string matrix_text(const std::vector<double>& values, std::size_t rows, std::size_t columns) {
  std::string text = "[";
  for (std::size_t i = 0; i < rows; ++i) {
    text += (i > 0 ? ",\n    " : "\n    ") + row_text(values.data() + i * columns, columns);
  }
  return text + "\n  ]";
}

}  // namespace

AnyTransferFunction read_filter(const std::string& path) {
  return is_safetensors(path) ? read_tensors(path) : read_json(path);
}

void write_filter(const std::string& path, const AnyTransferFunction& filter) {
  const auto& c = std::visit([](const auto& value) -> const Coefficients& { return value; }, filter);
  validate(c, "write_filter");
  const auto* trained = std::get_if<TrainedTransferFunction>(&filter);
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
    write_safetensors(path, file);
    return;
  }
  std::string text = fmt::format("{{\n  \"a\": {},\n  \"b\": {},\n  \"h0\": {}", matrix_text(c.a, c.groups, c.order),
                                 matrix_text(c.b, c.channels, c.order), row_text(c.h0.data(), c.channels));
  if (trained) text += fmt::format(",\n  \"length\": {}", trained->length);
  StagedFile(path, text + "\n}\n", "write_filter").commit();
}

}  // namespace rtf
