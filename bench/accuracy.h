// Errors of float32 results, relative to the largest value, and the bound they must keep.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace rtf::bench {

// 1e-5 up to condition 100, in proportion beyond.
inline double float_bound(double kappa) { return 1e-5 * std::max(1.0, kappa / 1e2); }

template <class T>
double relative_error(const std::vector<double>& exact, const std::vector<T>& result) {
  double difference = 0, largest = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    difference = std::max(difference, std::abs(exact[i] - static_cast<double>(result[i])));
    largest = std::max(largest, std::abs(exact[i]));
  }
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
