#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>

#include "core/check_finite.h"
#include "rtf/stability.h"

namespace rtf {
namespace {

// Scales rows and columns by powers of two until their norms agree (Parlett and Reinsch): without it coefficients of
// very different size cost the eigenvalues their digits. A diagonal scaling leaves the companion matrix Hessenberg.
void balance(Eigen::MatrixXd& m) {
  for (bool changed = true; changed;) {
    changed = false;
    for (Eigen::Index i = 0; i < m.rows(); ++i) {
      const double column = m.col(i).lpNorm<1>() - std::abs(m(i, i));
      const double row = m.row(i).lpNorm<1>() - std::abs(m(i, i));
      if (!(column > 0) || !(row > 0)) continue;
      const double factor = std::exp2(std::round(0.5 * std::log2(row / column)));
      if (column * factor + row / factor >= 0.95 * (column + row)) continue;
      m.row(i) /= factor;
      m.col(i) *= factor;
      changed = true;
    }
  }
}

}  // namespace

std::vector<std::complex<double>> poles(std::span<const double> a) {
  check_finite("poles", "a", a);
  const std::size_t order = a.size();
  while (!a.empty() && a.back() == 0) a = a.first(a.size() - 1);  // exact poles at zero, appended below
  const auto n = static_cast<Eigen::Index>(a.size());

  struct Pole {
    std::complex<double> value;  // of a pair, the one above the axis
    bool pair;
  };
  std::vector<Pole> found;
  if (n > 0) {
    Eigen::MatrixXd companion = Eigen::MatrixXd::Zero(n, n);
    for (Eigen::Index k = 0; k < n; ++k) companion(0, k) = -a[static_cast<std::size_t>(k)];
    companion.diagonal(-1).setOnes();
    balance(companion);
    Eigen::RealSchur<Eigen::MatrixXd> schur(n);
    schur.setMaxIterations(100 * n);
    schur.computeFromHessenberg(companion, Eigen::MatrixXd(), false);
    if (schur.info() != Eigen::Success)
      fail(ErrorCode::unsupported, "poles", "the eigenvalue iteration did not converge");
    const Eigen::MatrixXd& t = schur.matrixT();
    for (Eigen::Index i = 0; i < n; ++i) {
      if (i + 1 == n || t(i + 1, i) == 0) {
        found.push_back({t(i, i), false});
      } else {
        // A 2 x 2 block left standing has complex eigenvalues: centre +- sqrt(half^2 + t10 t01).
        const double half = 0.5 * (t(i, i) - t(i + 1, i + 1)), centre = t(i + 1, i + 1) + half;
        const double off = std::sqrt(std::abs(t(i + 1, i))) * std::sqrt(std::abs(t(i, i + 1)));
        found.push_back({{centre, std::sqrt(std::max(0.0, (off - half) * (off + half)))}, true});
        ++i;
      }
    }
  }
  std::sort(found.begin(), found.end(), [](const Pole& x, const Pole& y) {
    return std::pair(-std::abs(x.value), std::arg(x.value)) < std::pair(-std::abs(y.value), std::arg(y.value));
  });
  std::vector<std::complex<double>> result;
  result.reserve(order);
  for (const auto& [value, pair] : found) {
    result.push_back(value);
    if (pair) result.push_back(std::conj(value));
  }
  result.resize(order, 0.0);
  return result;
}

}  // namespace rtf
