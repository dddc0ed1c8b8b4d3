// ListOps: nested lists of digits under MIN, MAX, MED and SM, and the digit that they come to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "rtf/executor.h"

namespace rtf::data {

// An expression as its tokens: 0 to 9 are digits, then the operators, then the end of a list.
struct ListOps {
  static constexpr char min = 10, max = 11, med = 12, sm = 13, end = 14;

  std::string tokens;
  unsigned value = 0;
};

// Lengths of expressions that are kept, in tokens: both bounds are exclusive.
inline constexpr std::size_t listops_shortest = 500, listops_longest = 2000;

// Expression `index` of a seed; nothing where its length is outside the bounds.
std::optional<ListOps> draw_listops(std::uint64_t seed, std::uint32_t index);

// As the public files write it, `( ( ( [MAX 3 ) 5 ) ] )`: every argument closes a pair of parentheses.
std::string listops_source(const ListOps& expression);

// The first `count` distinct expressions of a seed, in the order of their indices. `row(i, source, value)` is called
// for one after the other; the sources are written on all workers.
void generate_listops(std::uint64_t seed, std::size_t count, Executor& executor,
                      const std::function<void(std::size_t, const std::string&, unsigned)>& row);

}  // namespace rtf::data
