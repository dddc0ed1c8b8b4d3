#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "core/printable.h"
#include "data/text_set.h"
#include "data/tsv.h"
#include "rtf/error.h"

namespace rtf::data {
namespace {

constexpr const char* operation = "read_listops";

// The end of a list is a token of its own, X; parentheses say nothing that the lists do not.
std::string plain(std::string_view source) {
  std::string text;
  for (const char c : source) {
    if (c != '(' && c != ')') text += c == ']' ? 'X' : c;
  }
  return text;
}

void check_tokens(const std::string& text, const std::string& path, std::size_t row) {
  static const std::set<std::string, std::less<>> known = {"[MIN", "[MAX", "[MED", "[SM", "X", "0", "1", "2",
                                                           "3",    "4",    "5",    "6",   "7", "8", "9"};
  std::size_t count = 0;
  for (std::size_t at = text.find_first_not_of(' '); at != std::string::npos; ++count) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string_view token = std::string_view(text).substr(at, end - at);
    if (!known.contains(token)) {
      fail_row(operation, path, row, fmt::format("'{}' is no token of ListOps", printable(token)));
    }
    at = text.find_first_not_of(' ', end);
  }
  if (count == 0) fail_row(operation, path, row, "its Source is empty");
}

void read(const std::string& path, const std::function<void(TextSample&&)>& sample) {
  std::size_t rows = 0;
  read_tsv(operation, path, 2, [&](std::size_t row, std::span<const std::string_view> columns) {
    rows = row;
    if (row == 1) {
      if (columns[0] == "Source" && columns[1] == "Target") return;
      fail_row(operation, path, row, "expected the header Source, Target");
    }
    if (columns[1].size() != 1 || columns[1][0] < '0' || columns[1][0] > '9') {
      fail_row(operation, path, row, fmt::format("Target is '{}', expected a digit", printable(columns[1])));
    }
    TextSample one{.label = static_cast<std::size_t>(columns[1][0] - '0'), .documents = {plain(columns[0]), ""}};
    check_tokens(one.documents[0], path, row);
    sample(std::move(one));
  });
  if (rows < 2) throw Error(ErrorCode::format, operation, fmt::format("{}: it has no rows", path));
}

}  // namespace

TextSet listops_set(const std::string& path) {
  TextSet set{.name = "listops", .classes = 10, .characters = false, .longest = 2048, .files = {}, .read = {}};
  for (const char* split : {"train", "val", "test"}) {
    set.files.push_back((std::filesystem::path(path) / fmt::format("basic_{}.tsv", split)).string());
  }
  set.read = [files = set.files](std::size_t split, const auto& sample) { read(files[split], sample); };
  return set;
}

}  // namespace rtf::data
