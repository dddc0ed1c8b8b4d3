#include "train/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

#include "rtf/error.h"

namespace rtf::train {
namespace {

bool is_number(std::string_view text) {
  // "91.2 ± 0.3" and "50 / 60" are numbers too, and "1, 2, 3".
  for (const std::string_view between : {" \u00b1 ", " / ", ", "}) {
    const std::size_t at = text.find(between);
    if (at != std::string_view::npos)
      return is_number(text.substr(0, at)) && is_number(text.substr(at + between.size()));
  }
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end;
}

using Rows = std::vector<std::vector<std::string>>;

std::vector<std::size_t> widths_of(const Rows& rows) {
  std::vector<std::size_t> widths(rows[0].size());
  for (const auto& cells : rows) {
    for (std::size_t c = 0; c < widths.size(); ++c) widths[c] = std::max(widths[c], display_width(cells[c]));
  }
  return widths;
}

std::string padded(const std::string& cell, std::size_t width, bool right) {
  const std::string padding(width - display_width(cell), ' ');
  return right ? padding + cell : cell + padding;
}

}  // namespace

void Table::row(std::vector<std::string> cells) {
  if (cells.size() != rows_[0].size()) {
    throw Error(ErrorCode::argument, "table",
                fmt::format("a row has {} cells, expected {}", cells.size(), rows_[0].size()));
  }
  rows_.push_back(std::move(cells));
}

std::vector<bool> Table::number_columns() const {
  std::vector<bool> numbers;
  for (std::size_t c = 0; c < rows_[0].size(); ++c) {
    numbers.push_back(rows_.size() > 1 && std::all_of(rows_.begin() + 1, rows_.end(), [c](const auto& cells) {
                        return cells[c].empty() || is_number(cells[c]);
                      }));
  }
  return numbers;
}

std::string Table::text() const {
  const std::vector<bool> right = number_columns();
  const std::vector<std::size_t> widths = widths_of(rows_);
  std::string text;
  for (const auto& cells : rows_) {
    std::string line;
    for (std::size_t c = 0; c < cells.size(); ++c) line += (c == 0 ? "" : "  ") + padded(cells[c], widths[c], right[c]);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string Table::markdown() const {
  const std::vector<bool> right = number_columns();
  auto rows = rows_;
  for (auto& cells : rows) {
    for (std::string& cell : cells) {
      // A bar would begin the next cell.
      for (std::size_t at = 0; (at = cell.find('|', at)) != std::string::npos; at += 2) cell.insert(at, 1, '\\');
    }
  }
  std::vector<std::size_t> widths = widths_of(rows);
  for (std::size_t& width : widths) width = std::max<std::size_t>(width, 3);
  std::string text;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::size_t c = 0; c < widths.size(); ++c) text += "| " + padded(rows[r][c], widths[c], right[c]) + " ";
    text += "|\n";
    if (r > 0) continue;
    for (std::size_t c = 0; c < widths.size(); ++c) {
      text += "| " + std::string(widths[c] - 1, '-') + (right[c] ? ": " : "- ");
    }
    text += "|\n";
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
