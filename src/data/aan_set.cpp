#include <fmt/format.h>

#include <filesystem>

#include "core/printable.h"
#include "data/text_set.h"
#include "data/tsv.h"
#include "rtf/error.h"

namespace rtf::data {
namespace {

constexpr const char* operation = "read_aan";

void read(const std::string& path, const std::function<void(TextSample&&)>& sample) {
  std::size_t rows = 0;
  read_tsv(operation, path, 5, [&](std::size_t row, std::span<const std::string_view> columns) {
    rows = row;
    const std::string_view label = columns[0];
    const bool similar = label == "1.0" || label == "1";
    if (!similar && label != "0.0" && label != "0") {
      fail_row(operation, path, row, fmt::format("the label is '{}', expected 0.0 or 1.0", printable(label)));
    }
    sample({.label = similar, .documents = {std::string(columns[3]), std::string(columns[4])}});
  });
  if (rows == 0) throw Error(ErrorCode::format, operation, fmt::format("{}: it has no rows", path));
}

}  // namespace

TextSet aan_set(const std::string& path) {
  TextSet set{.name = "retrieval", .documents = 2, .longest = 4000, .files = {}, .read = {}};
  for (const char* split : {"train", "eval", "test"}) {
    set.files.push_back((std::filesystem::path(path) / fmt::format("new_aan_pairs.{}.tsv", split)).string());
  }
  set.read = [files = set.files](std::size_t split, const auto& sample) { read(files[split], sample); };
  return set;
}

}  // namespace rtf::data
