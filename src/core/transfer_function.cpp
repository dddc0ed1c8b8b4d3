#include "rtf/transfer_function.h"

#include <cmath>

#include "core/arguments.h"

namespace rtf {
namespace {

void check_rows(const char* operation, const char* name, const std::vector<double>& values, std::size_t rows,
                std::size_t order) {
  // Divided rather than multiplied: rows * order of a forged header could wrap around.
  if (values.size() % rows != 0 || values.size() / rows != order)
    fail(ErrorCode::argument, operation, "{} has {} values, expected ({}, {})", name, values.size(), rows, order);
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values[i]))
      fail(ErrorCode::argument, operation, "{}[{}][{}] is {}; coefficients must be finite", name, i / order, i % order,
           values[i]);
}

}  // namespace

void validate(const Coefficients& coefficients, const char* operation) {
  const auto& [channels, groups, order, a, b, h0] = coefficients;
  if (channels < 1) fail(ErrorCode::argument, operation, "channels is 0; at least 1 is needed");
  if (groups < 1) fail(ErrorCode::argument, operation, "groups is 0; at least 1 is needed");
  if (channels % groups != 0)
    fail(ErrorCode::argument, operation, "{} groups do not divide {} channels", groups, channels);
  check_rows(operation, "a", a, groups, order);
  check_rows(operation, "b", b, channels, order);
  if (h0.size() != channels)
    fail(ErrorCode::argument, operation, "h0 has {} values, expected ({})", h0.size(), channels);
  for (std::size_t c = 0; c < channels; ++c)
    if (!std::isfinite(h0[c]))
      fail(ErrorCode::argument, operation, "h0[{}] is {}; coefficients must be finite", c, h0[c]);
}

}  // namespace rtf
