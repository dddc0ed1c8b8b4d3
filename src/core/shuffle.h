// A random order that depends on the key of its random numbers alone.
#pragma once

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "rtf/random.h"

namespace rtf {

// From the draws `first` on.
inline std::vector<std::int64_t> shuffled(std::int64_t size, const Random& random, std::uint64_t first = 0) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[static_cast<std::size_t>(random.uniform(first + i) * static_cast<double>(i))]);
  }
  return order;
}

}  // namespace rtf
