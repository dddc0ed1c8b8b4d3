// Aligned tables: columns of numbers to the right, text to the left.
#pragma once

#include <string>
#include <vector>

namespace rtf::train {

class Table {
 public:
  explicit Table(std::vector<std::string> header) : rows_{std::move(header)} {}
  // As many cells as the header has.
  void row(std::vector<std::string> cells);
  std::string text() const;
  // The same as a table of Markdown, whose source lines up too.
  std::string markdown() const;

 private:
  std::vector<bool> number_columns() const;

  std::vector<std::vector<std::string>> rows_;
};

// "6 s", "3:20", "1:02:03".
std::string duration_text(double seconds);

// Columns that a terminal needs for UTF-8 text without wide characters.
std::size_t display_width(const std::string& text);

}  // namespace rtf::train
