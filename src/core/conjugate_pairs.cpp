#include "core/conjugate_pairs.h"

#include <fmt/format.h>

#include <cmath>

#include "core/arguments.h"

namespace rtf {

std::string complex_text(std::complex<double> value) {
  return value.imag() == 0 ? fmt::format("{:g}", value.real()) : fmt::format("{:g}{:+g}i", value.real(), value.imag());
}

std::vector<PairedValue> conjugate_pairs(const char* operation, const char* name,
                                         std::span<const std::complex<double>> values) {
  constexpr double tolerance = 1e-10;  // what a partner may be off by: other programs round the two on their own
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values[i].real()) || !std::isfinite(values[i].imag()))
      fail(ErrorCode::argument, operation, "{}[{}] is {}; numbers must be finite", name, i, complex_text(values[i]));
  std::vector<PairedValue> result;
  std::vector<bool> used(values.size(), false);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (used[i]) continue;
    if (values[i].imag() == 0) {
      result.push_back({values[i], i, i});
      continue;
    }
    std::size_t nearest = i;
    double distance = tolerance * std::abs(values[i]);
    for (std::size_t j = i + 1; j < values.size(); ++j) {
      const double d = std::abs(values[j] - std::conj(values[i]));
      if (used[j] || std::signbit(values[j].imag()) == std::signbit(values[i].imag()) || d > distance) continue;
      nearest = j;
      distance = d;
      if (d == 0) break;
    }
    if (nearest == i) {
      if (std::abs(values[i].imag()) > tolerance * std::abs(values[i]))
        fail(ErrorCode::argument, operation, "{}[{}] is {}; its conjugate is not among them", name, i,
             complex_text(values[i]));
      result.push_back({values[i].real(), i, i});
      continue;
    }
    used[nearest] = true;
    const bool above = values[i].imag() > 0;
    const std::size_t upper = above ? i : nearest, lower = above ? nearest : i;
    result.push_back({0.5 * values[upper] + 0.5 * std::conj(values[lower]), upper, lower});
  }
  return result;
}

}  // namespace rtf
