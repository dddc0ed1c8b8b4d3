#include "data/tsv.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "rtf/error.h"

namespace rtf::data {

void fail_row(const char* operation, const std::string& path, std::size_t row, const std::string& why) {
  throw Error(ErrorCode::format, operation, fmt::format("{}, row {}: {}", path, row, why));
}

void read_tsv(const char* operation, const std::string& path, std::size_t columns,
              const std::function<void(std::size_t row, std::span<const std::string_view> columns)>& visit) {
  std::error_code ignored;
  std::ifstream file(path, std::ios::binary);
  if (!file || std::filesystem::is_directory(path, ignored)) {
    throw Error(ErrorCode::io, operation, fmt::format("{}: cannot be opened", path));
  }
  std::string line;
  std::vector<std::string_view> found;
  for (std::size_t row = 1; std::getline(file, line); ++row) {
    if (line.ends_with('\r')) line.pop_back();
    found.clear();
    for (std::size_t begin = 0;;) {
      const std::size_t end = line.find('\t', begin);
      found.push_back(std::string_view(line).substr(begin, end == std::string::npos ? end : end - begin));
      if (end == std::string::npos) break;
      begin = end + 1;
    }
    if (found.size() != columns) {
      fail_row(operation, path, row,
               fmt::format("it has {} column{}, expected {}", found.size(), found.size() == 1 ? "" : "s", columns));
    }
    visit(row, found);
  }
  if (file.bad()) throw Error(ErrorCode::io, operation, fmt::format("{}: cannot be read", path));
}

}  // namespace rtf::data
