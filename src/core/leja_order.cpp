#include "core/leja_order.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace rtf {

std::vector<std::size_t> leja_order(std::span<const std::vector<std::complex<double>>> factors) {
  struct Candidate {
    std::size_t index;
    double distance;  // logarithm of the product of the distances, for each root alike
  };
  const auto mean_log_distance = [&](std::size_t i, std::complex<double> from) {
    double sum = 0;
    for (const std::complex<double> root : factors[i]) sum += std::log(std::abs(root - from));
    // A root that was taken already: any order does.
    return std::isfinite(sum) ? sum / static_cast<double>(factors[i].size()) : std::numeric_limits<float>::lowest();
  };
  std::vector<Candidate> left;
  for (std::size_t i = 0; i < factors.size(); ++i) left.push_back({i, mean_log_distance(i, 0.0)});
  std::vector<std::size_t> order;
  while (!left.empty()) {
    const auto next = std::max_element(left.begin(), left.end(),
                                       [](const Candidate& x, const Candidate& y) { return x.distance < y.distance; });
    const std::size_t taken = next->index;
    order.push_back(taken);
    left.erase(next);
    for (Candidate& other : left)
      for (const std::complex<double> root : factors[taken]) other.distance += mean_log_distance(other.index, root);
  }
  return order;
}

}  // namespace rtf
