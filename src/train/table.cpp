#include "train/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "rtf/error.h"

namespace rtf::train {
namespace {

bool is_number(const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end;
}

}  // namespace

void Table::row(std::vector<std::string> cells) {
  if (cells.size() != rows_[0].size()) {
    throw Error(ErrorCode::argument, "table",
                fmt::format("a row has {} cells, expected {}", cells.size(), rows_[0].size()));
  }
  rows_.push_back(std::move(cells));
}

std::string Table::text() const {
  const std::size_t columns = rows_[0].size();
  std::vector<std::size_t> widths(columns);
  std::vector<bool> right(columns);
  for (std::size_t c = 0; c < columns; ++c) {
    for (const auto& cells : rows_) widths[c] = std::max(widths[c], display_width(cells[c]));
    right[c] = rows_.size() > 1 && std::all_of(rows_.begin() + 1, rows_.end(), [c](const auto& cells) {
                 return cells[c].empty() || is_number(cells[c]);
               });
  }
  std::string text;
  for (const auto& cells : rows_) {
    std::string line;
    for (std::size_t c = 0; c < columns; ++c) {
      const std::string padding(widths[c] - display_width(cells[c]), ' ');
      line += (c == 0 ? "" : "  ") + (right[c] ? padding + cells[c] : cells[c] + padding);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string duration_text(double seconds) {
  if (!(seconds < 1e9)) return "?";
  const auto whole = static_cast<long long>(std::llround(std::max(seconds, 0.0)));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::size_t display_width(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

}  // namespace rtf::train
