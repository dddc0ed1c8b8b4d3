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
#include "rtf/executor.h"
#include "rtf/transfer_function.h"

namespace rtf {

// N = h0 A + B with w = e^{-i angle}; the slopes are d/d angle divided by -i: sum_k k a_k w^k. Both of N are divided by
// 2^exponent.
struct CirclePoint {
  std::complex<double> A, N, A_slope, N_slope;
  int exponent;
  std::optional<double> wide_delay;  // next to a zero of A or N, where the quotients of doubles have no digit left

  // Infinite at a pole, whatever the direction, and nan where N vanishes too.
  std::complex<double> response() const {
    if (A != 0.0) return multiplied(N / A);
    return N == 0.0 ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
  }
  // i d/d angle H
  std::complex<double> response_slope() const { return multiplied((N_slope - N / A * A_slope) / A); }
  // i d/d angle log H: the real part is the group delay, the imaginary part the slope of log |H|.
  std::complex<double> log_slope() const { return N_slope / N - A_slope / A; }
  // nan where no more than the rounding of the angle lies between it and a zero or a pole.
  double delay() const { return wide_delay ? *wide_delay : log_slope().real(); }

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
