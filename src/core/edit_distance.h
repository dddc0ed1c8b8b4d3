// How far apart two words are, to name the one that was meant.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string_view>
#include <vector>

namespace rtf {

// Single-character edits that turn one word into the other.
inline std::size_t edit_distance(std::string_view x, std::string_view y) {
  std::vector<std::size_t> row(y.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 0; i < x.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 0; j < y.size(); ++j) {
      const std::size_t replaced = diagonal + (x[i] != y[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

}  // namespace rtf
