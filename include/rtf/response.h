// How a transfer function responds: to waves, to a step, and at most.
#pragma once

#include <complex>
#include <cstddef>
#include <span>
#include <vector>

#include "rtf/conversion.h"
#include "rtf/transfer_function.h"

namespace rtf {

// pi k / points for k = 0, 1, ..; around the whole circle 2 pi k / points.
std::vector<double> angle_grid(std::size_t points, bool whole = false);

// H(e^{i angle}) at angles in radians a sample, (channels, angles). Evaluated in 106 bits where double would lose more
// than 1e-12: what is left is the rounding of e^{i angle} itself, 2^-53. Infinite where A vanishes, nan where N does
// too.
std::vector<std::complex<double>> frequency_response(const TransferFunction& tf, std::span<const double> angles);

// -d arg H / d angle in samples, (channels, angles), by the formula and not by differences. nan where H is zero or
// infinite: the phase jumps there.
std::vector<double> group_delay(const TransferFunction& tf, std::span<const double> angles);

// The output for the input 1, 1, 1, ...: (channels, length).
std::vector<double> step_response(const TransferFunction& tf, std::size_t length);
// The same from the kernels, (channels, length).
std::vector<double> step_response(std::vector<double> kernels, std::size_t length);

// Square roots of the eigenvalues of the product of both Gramians, largest first, (channels, order): what reduction to
// an order below costs. Right to rounding of the largest of a channel. Throws when a pole is on or outside the circle.
std::vector<double> hankel_singular_values(const TransferFunction& tf);

// sqrt(sum h_t^2) of every channel; infinite when a pole is on or outside the circle (a channel with b = 0 has none).
std::vector<double> h2_norm(const TransferFunction& tf);

struct Peak {
  double value, angle;
};

// max |H| on the circle and where, in [0, pi], for every channel; relative accuracy 1e-9, of a pole within 1e-11 of
// the circle what the rounding of the angle leaves. Infinite, at an angle that is nan, when a pole is on or outside the
// circle (a channel with b = 0 has none).
std::vector<Peak> h_infinity_norm(const TransferFunction& tf);

// The same of one channel in any form, of zpk, sos, modal and ss without coefficients, which do not hold narrow
// filters. Its largest |H| is searched for between angles that are dense where poles are close.
std::vector<double> hankel_singular_values(const System& channel);
double h2_norm(const System& channel);
Peak h_infinity_norm(const System& channel);

}  // namespace rtf
