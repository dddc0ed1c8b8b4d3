#include "core/pole_product.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace rtf {
namespace {

// One real pole or a pair, and how far it is from those already taken.
struct Factor {
  std::complex<double> pole;
  bool pair;
  double distance;  // logarithm of the product of the distances
};

}  // namespace

std::vector<double> denominator_from_poles(std::span<const std::complex<double>> poles) {
  std::vector<Factor> factors;
  for (std::size_t i = 0; i < poles.size(); ++i) {
    const bool pair = poles[i].imag() != 0;
    factors.push_back({poles[i], pair, std::log(std::abs(poles[i]))});
    if (pair) ++i;
  }
  std::vector<long double> product{1};
  while (!factors.empty()) {
    const auto next = std::max_element(factors.begin(), factors.end(),
                                       [](const Factor& x, const Factor& y) { return x.distance < y.distance; });
    const Factor factor = *next;
    factors.erase(next);
    const long double re = factor.pole.real(), im = factor.pole.imag();
    const long double c1 = factor.pair ? -2 * re : -re, c2 = factor.pair ? re * re + im * im : 0;
    product.resize(product.size() + (factor.pair ? 2 : 1), 0);
    for (std::size_t i = product.size() - 1; i >= 1; --i)
      product[i] += c1 * product[i - 1] + (i >= 2 ? c2 * product[i - 2] : 0);
    for (Factor& other : factors) {
      other.distance += std::log(std::abs(other.pole - factor.pole));
      if (factor.pair) other.distance += std::log(std::abs(other.pole - std::conj(factor.pole)));
      // A pole that was taken already: any order does.
      if (!std::isfinite(other.distance)) other.distance = std::numeric_limits<double>::lowest() / 2;
    }
  }
  return {product.begin() + 1, product.end()};
}

}  // namespace rtf
