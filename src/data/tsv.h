// Rows of tab-separated columns. Quotes have no meaning.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace rtf::data {

// A row that is refused names the file and the row, counted from 1 with the header.
[[noreturn]] void fail_row(const char* operation, const std::string& path, std::size_t row, const std::string& why);

// Calls visit(row, columns) for every row of a file; each must have `columns` of them.
void read_tsv(const char* operation, const std::string& path, std::size_t columns,
              const std::function<void(std::size_t row, std::span<const std::string_view> columns)>& visit);

}  // namespace rtf::data
