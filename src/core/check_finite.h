// The check that every function of bare coefficients makes first.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>

#include "core/arguments.h"

namespace rtf {

// Throws "[rtf::<operation>] <name>[3] is nan; ..." for the first value that is not finite.
inline void check_finite(const char* operation, const char* name, std::span<const double> values) {
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values[i]))
      fail(ErrorCode::argument, operation, "{}[{}] is {}; coefficients must be finite", name, i, values[i]);
}

}  // namespace rtf
