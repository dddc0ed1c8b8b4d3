// One channel at one point of the unit circle.
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "core/arguments.h"
#include "core/file_errors.h"
#include "core/roots.h"
#include "rtf/executor.h"
#include "rtf/transfer_function.h"

namespace rtf {

// N = h0 A + B with w = e^{-i angle}; the slopes are d/d angle divided by -i: sum_k k a_k w^k. Both of N are divided by
// 2^exponent.
struct CirclePoint {
  std::complex<double> A, N, A_slope, N_slope;
  int exponent;
  // The same in 106 bits where doubles do not hold them, and what rounding of b does to N, and that of the angle to
  // the angle.
  struct Wide {
    WideComplex A, N, A_slope, N_slope;
    double N_rounding, angle_rounding;
  };
  std::optional<Wide> wide;

  // Infinite at a pole, whatever the direction, and nan where N vanishes too.
  std::complex<double> response() const {
    if (A != 0.0) return multiplied(N / A);
    return N == 0.0 ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
  }
  // i d/d angle H
  std::complex<double> response_slope() const { return multiplied((N_slope - N / A * A_slope) / A); }
  // i d/d angle log H: the real part is the group delay, the imaginary part the slope of log |H|.
  std::complex<double> log_slope() const { return N_slope / N - A_slope / A; }
  // nan where H is zero or infinite, or so close to it that rounding decides on which side.
  double delay() const;

  std::complex<double> multiplied(std::complex<double> x) const {
    return {std::ldexp(x.real(), exponent), std::ldexp(x.imag(), exponent)};
  }
};

// In double, and in 106 bits where the rounding of A or N may exceed 1e-12 of it.
CirclePoint circle_point(const CoefficientsView& tf, std::size_t channel, double angle);

// compute(channel, angle) for all of them, (channels, angles).
template <class T, class F>
std::vector<T> at_every_angle(std::size_t channels, std::span<const double> angles, const char* operation,
                              F&& compute) {
  for (std::size_t i = 0; i < angles.size(); ++i)
    if (!std::isfinite(angles[i]))
      fail(ErrorCode::argument, operation, "angle {} is {}; angles must be finite", i, angles[i]);
  part_of(operation, [&] {
    require_memory(
        static_cast<double>(sizeof(T)) / 8 * static_cast<double>(channels) * static_cast<double>(angles.size()),
        fmt::format("a response at {} angles", angles.size()));
  });
  constexpr std::size_t tile = 64;
  const std::size_t tiles = (angles.size() + tile - 1) / tile;
  std::vector<T> result(channels * angles.size());
  parallel_for(default_executor(), channels * tiles, [&](std::size_t task, std::size_t) {
    const std::size_t channel = task / tiles, begin = task % tiles * tile;
    for (std::size_t i = begin; i < std::min(begin + tile, angles.size()); ++i)
      result[channel * angles.size() + i] = compute(channel, angles[i]);
  });
  return result;
}

}  // namespace rtf
