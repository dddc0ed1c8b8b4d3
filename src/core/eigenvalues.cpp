#include "core/eigenvalues.h"

#include <Eigen/Eigenvalues>
#include <Eigen/LU>
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/arguments.h"

namespace rtf {
namespace {

// Scales rows and columns by powers of two until their norms agree (Parlett and Reinsch): without it coefficients of
// very different size cost the eigenvalues their digits. A diagonal scaling leaves a Hessenberg matrix Hessenberg.
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

struct Found {
  std::complex<double> value;  // of a pair, the one above the axis
  bool pair;
};

std::vector<std::complex<double>> listed(std::vector<Found> found) {
  std::sort(found.begin(), found.end(), [](const Found& x, const Found& y) {
    return std::pair(-std::abs(x.value), std::arg(x.value)) < std::pair(-std::abs(y.value), std::arg(y.value));
  });
  std::vector<std::complex<double>> result;
  for (const auto& [value, pair] : found) {
    result.push_back(value);
    if (pair) result.push_back(std::conj(value));
  }
  return result;
}

}  // namespace

std::vector<std::complex<double>> eigenvalues(const std::vector<double>& matrix, std::size_t size, MatrixShape shape,
                                              const char* operation) {
  const auto n = static_cast<Eigen::Index>(size);
  if (n == 0) return {};
  Eigen::MatrixXd m = Eigen::Map<const Eigen::Matrix<double, -1, -1, Eigen::RowMajor>>(matrix.data(), n, n);
  balance(m);
  Eigen::RealSchur<Eigen::MatrixXd> schur(n);
  schur.setMaxIterations(100 * n);
  if (shape == MatrixShape::hessenberg) {
    schur.computeFromHessenberg(m, Eigen::MatrixXd(), false);
  } else {
    schur.compute(m, false);
  }
  if (schur.info() != Eigen::Success)
    fail(ErrorCode::unsupported, operation, "the eigenvalue iteration did not converge");

  std::vector<Found> found;
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
  return listed(std::move(found));
}

std::vector<std::complex<double>> pencil_eigenvalues(const std::vector<double>& left, const std::vector<double>& right,
                                                     std::size_t size) {
  const auto n = static_cast<Eigen::Index>(size);
  if (n == 0) return {};
  using RowMajor = Eigen::Map<const Eigen::Matrix<double, -1, -1, Eigen::RowMajor>>;
  Eigen::GeneralizedEigenSolver<Eigen::MatrixXd> solver(n);
  solver.setMaxIterations(100 * n);
  solver.compute(RowMajor(left.data(), n, n), RowMajor(right.data(), n, n), false);
  if (solver.info() != Eigen::Success) return {};
  std::vector<Found> found;
  for (Eigen::Index i = 0; i < n; ++i) {
    const std::complex<double> alpha = solver.alphas()[i];
    const double beta = solver.betas()[i];
    if (beta == 0) {
      found.push_back({std::numeric_limits<double>::infinity(), false});
    } else if (alpha.imag() == 0) {
      found.push_back({alpha.real() / beta, false});
    } else if ((alpha.imag() > 0) == (beta > 0)) {
      found.push_back({{alpha.real() / beta, alpha.imag() / beta}, true});
    }
  }
  return listed(std::move(found));
}

std::vector<Uncertain> uncertain_eigenvalues(const std::vector<double>& matrix, std::size_t size) {
  const auto n = static_cast<Eigen::Index>(size);
  std::vector<Uncertain> result;
  if (n == 0) return result;
  Eigen::MatrixXd m = Eigen::Map<const Eigen::Matrix<double, -1, -1, Eigen::RowMajor>>(matrix.data(), n, n);
  balance(m);
  const Eigen::EigenSolver<Eigen::MatrixXd> solver(m);
  const Eigen::MatrixXcd right = solver.eigenvectors(), left = right.inverse();
  for (Eigen::Index i = 0; i < n; ++i) {
    // dp = w dM v with w v = 1.
    const double moved = left.row(i).cwiseAbs() * m.cwiseAbs() * right.col(i).cwiseAbs();
    result.push_back({solver.eigenvalues()[i], 0.5 * std::numeric_limits<double>::epsilon() * moved});
  }
  return result;
}

}  // namespace rtf
