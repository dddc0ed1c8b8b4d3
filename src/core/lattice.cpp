#include "core/lattice.h"

#include <cmath>

#include "core/double_double.h"
#include "rtf/stability.h"

namespace rtf {

std::optional<Lattice> to_lattice(std::span<const double> a, std::span<const double> b) {
  if (!is_stable(a)) return std::nullopt;
  const std::size_t n = a.size();
  Lattice lattice;
  lattice.reflection.resize(n);
  lattice.deviation.assign(n + 1, 1.0);
  lattice.output.resize(n);
  std::vector<DoubleDouble> denominator(a.begin(), a.end()), rest(b.begin(), b.end());
  for (std::size_t m = n; m > 0; --m) {
    // Schur-Cohn's step down, from A_m to A_{m-1}.
    const DoubleDouble k = denominator[m - 1];
    if (!(abs(k) < DoubleDouble(1))) return std::nullopt;
    const DoubleDouble complement = (DoubleDouble(1) - k) * (DoubleDouble(1) + k), inverse = reciprocal(complement);
    for (std::size_t i = 0; i < (m - 1) / 2; ++i) {
      const DoubleDouble x = denominator[i], y = denominator[m - 2 - i];
      denominator[i] = (x - k * y) * inverse;
      denominator[m - 2 - i] = (y - k * x) * inverse;
    }
    if (m % 2 == 0) denominator[m / 2 - 1] = denominator[m / 2 - 1] * reciprocal(DoubleDouble(1) + k);
    lattice.reflection[m - 1] = static_cast<double>(k);
    lattice.deviation[m - 1] = lattice.deviation[m] / std::sqrt(static_cast<double>(complement));
    // B = w sum_m tap_m (A_m read backwards), whose leading coefficient is 1: the taps follow from the top down.
    const DoubleDouble tap = rest[m - 1];
    for (std::size_t j = 0; j + 1 < m; ++j) rest[j] = rest[j] - tap * denominator[m - 2 - j];
    lattice.output[m - 1] = static_cast<double>(tap) * lattice.deviation[m - 1];
  }
  return lattice;
}

// The forward error at stage m is u minus what the stages above it reflect; state m is k_m of it plus state m - 1.
std::vector<double> Lattice::transition() const {
  const std::size_t n = reflection.size();
  std::vector<double> A(n * n, 0.0);
  for (std::size_t m = 0; m < n; ++m) {
    const double k = m == 0 ? 1 : reflection[m - 1];
    if (m > 0) A[m * n + m - 1] = deviation[m] / deviation[m - 1];
    for (std::size_t j = m; j < n; ++j) A[m * n + j] = -k * reflection[j] * (deviation[j] / deviation[m]);
  }
  return A;
}

std::vector<double> Lattice::input() const {
  std::vector<double> B(reflection.size());
  for (std::size_t m = 0; m < B.size(); ++m) B[m] = (m == 0 ? 1 : reflection[m - 1]) / deviation[m];
  return B;
}

}  // namespace rtf
