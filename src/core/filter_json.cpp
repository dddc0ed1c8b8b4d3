#include "core/filter_json.h"

#include <fmt/format.h>

#include <cmath>

#include "rtf/error.h"

namespace rtf {

using nlohmann::json;

void fail_reading(const std::string& path, const std::string& why) {
  throw Error(ErrorCode::format, "read_filter", fmt::format("{}: {}", path, why));
}

double json_number(const json& value, const std::string& path, const std::string& place) {
  if (!value.is_number()) fail_reading(path, fmt::format("{} is {}, expected a number", place, json_text(value)));
  return value.get<double>();
}

std::vector<double> json_row(const json& value, const std::string& path, const std::string& place) {
  if (!value.is_array())
    fail_reading(path, fmt::format("{} is {}, expected a list of numbers", place, json_text(value)));
  std::vector<double> row;
  row.reserve(value.size());
  for (std::size_t i = 0; i < value.size(); ++i)
    row.push_back(json_number(value[i], path, fmt::format("{}[{}]", place, i)));
  return row;
}

JsonMatrix json_matrix(const json& value, const std::string& path, const std::string& place) {
  JsonMatrix matrix;
  matrix.flat = !value.is_array() || value.empty() || !value[0].is_array();
  if (matrix.flat) {
    matrix.values = json_row(value, path, place);
    matrix.rows = 1;
    matrix.columns = matrix.values.size();
    return matrix;
  }
  matrix.rows = value.size();
  matrix.columns = value[0].size();
  for (std::size_t i = 0; i < matrix.rows; ++i) {
    const std::vector<double> row = json_row(value[i], path, fmt::format("{}[{}]", place, i));
    if (row.size() != matrix.columns) {
      fail_reading(path,
                   fmt::format("{0}[{1}] has {2} values, but {0}[0] has {3}", place, i, row.size(), matrix.columns));
    }
    matrix.values.insert(matrix.values.end(), row.begin(), row.end());
  }
  return matrix;
}

std::string number_text(double value) {
  // "-0" would read back as the integer 0.
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

std::string matrix_text(const double* values, std::size_t rows, std::size_t columns, std::size_t indent) {
  std::string text = "[";
  for (std::size_t i = 0; i < rows; ++i)
    text += fmt::format("{}\n{:{}}{}", i > 0 ? "," : "", "", indent + 2, row_text(values + i * columns, columns));
  return fmt::format("{}\n{:{}}]", text, "", indent);
}

}  // namespace rtf
