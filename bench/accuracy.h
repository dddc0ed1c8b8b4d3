// Errors of float32 results, relative to the largest value, and the bound they must keep.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace rtf::bench {

// 1e-5 up to condition 100, in proportion beyond.
inline double float_bound(double kappa) { return 1e-5 * std::max(1.0, kappa / 1e2); }

// Of a part of a result, relative to the largest value of the whole.
template <class Whole>
double relative_error(const std::vector<double>& exact, const std::vector<double>& part, const Whole& whole) {
  double difference = 0, largest = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) difference = std::max(difference, std::abs(exact[i] - part[i]));
  for (const auto value : whole) largest = std::max(largest, std::abs(static_cast<double>(value)));
  return difference / largest;
}

// The error that comes nearest to its bound.
struct Accuracy {
  double error = 0, bound = 1e-5;

  void add(double next_error, double next_bound) {
    if (!(next_error * bound > error * next_bound)) return;
    error = next_error;
    bound = next_bound;
  }
};

}  // namespace rtf::bench
