// One channel at one point of the unit circle.
#pragma once

#include <complex>
#include <span>

#include "rtf/transfer_function.h"

namespace rtf {

// N = h0 A + B with w = e^{-i angle}; the slopes are d/d angle divided by -i: sum_k k a_k w^k.
struct CirclePoint {
  std::complex<double> A, N, A_slope, N_slope;

  std::complex<double> response() const { return N / A; }
  // i d/d angle log H: the real part is the group delay, the imaginary part the slope of log |H|.
  std::complex<double> log_slope() const { return N_slope / N - A_slope / A; }
};

// In double, and in 106 bits where the rounding of A or N may exceed 1e-12 of it.
CirclePoint circle_point(const CoefficientsView& tf, std::size_t channel, double angle);

}  // namespace rtf
