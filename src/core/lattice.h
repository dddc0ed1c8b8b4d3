// One stable channel as a normalised lattice: orthonormal coordinates, in which the reachability Gramian is the
// identity.
#pragma once

#include <optional>
#include <span>
#include <vector>

namespace rtf {

// With white noise at the input, state m is the backward prediction error of order m divided by its deviation, so the
// states are uncorrelated and of variance 1. All from the coefficients in 106 bits, without a matrix: O(order^2).
struct Lattice {
  std::vector<double> reflection;  // k_1..k_n, all inside (-1, 1)
  std::vector<double> deviation;   // sigma_0..sigma_n; sigma_n = 1, sigma_{m-1} = sigma_m / sqrt(1 - k_m^2)
  std::vector<double> output;      // C in these coordinates

  // Row by row: A (order, order) and B (order) of x' = A x + B u, y = output . x + h0 u.
  std::vector<double> transition() const;
  std::vector<double> input() const;
};

// Nothing when a pole is on or outside the circle.
std::optional<Lattice> to_lattice(std::span<const double> a, std::span<const double> b);

}  // namespace rtf
