// Numbers, rows and matrices of filter files in JSON; every message names the file and the place in it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/json.h"

namespace rtf {

[[noreturn]] void fail_reading(const std::string& path, const std::string& why);

// A list of rows of one size. `flat` when the file gave the numbers of a single row, or of none, without a list of
// rows.
struct JsonMatrix {
  std::size_t rows = 0, columns = 0;
  std::vector<double> values;
  bool flat = false;
};

double json_number(const nlohmann::json& value, const std::string& path, const std::string& place);
std::vector<double> json_row(const nlohmann::json& value, const std::string& path, const std::string& place);
JsonMatrix json_matrix(const nlohmann::json& value, const std::string& path, const std::string& place);

// The shortest digits that read back to the same double, 17 at most.
std::string number_text(double value);
std::string row_text(const double* values, std::size_t count);
// One row a line, the closing bracket `indent` spaces in.
std::string matrix_text(const double* values, std::size_t rows, std::size_t columns, std::size_t indent = 2);

}  // namespace rtf
