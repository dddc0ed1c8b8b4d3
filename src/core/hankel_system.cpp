#include "core/hankel_system.h"

#include <Eigen/QR>
#include <algorithm>
#include <limits>

namespace rtf {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

Index numerical_rank(const VectorXd& values, Index size) {
  const double smallest = 10 * std::numeric_limits<double>::epsilon() * static_cast<double>(size) * values[0];
  return std::count_if(values.begin(), values.end(), [&](double value) { return value > smallest; });
}

// The reachability matrix (B, A B, A^2 B, ..) is V^T; the observability matrix is H V, whose first rows are C.
HankelSystem system_of(const HankelSpectrum& spectrum, Index rank, const MatrixXd& samples, MatrixXd A) {
  const auto V = spectrum.vectors.leftCols(rank);
  const Index rows = std::min(V.rows(), samples.rows());
  return {std::move(A), V.row(0).transpose(), samples.topRows(rows).transpose() * V.topRows(rows),
          spectrum.values.head(rank)};
}

}  // namespace

MatrixXd HankelSystem::kernels(Index length) const {
  MatrixXd result(length, C.rows());
  VectorXd x = B;
  for (Index t = 0; t < length; ++t) {
    result.row(t) = (C * x).transpose();
    x = (A * x).eval();
  }
  return result;
}

HankelSystem balanced_system(const HankelSpectrum& spectrum, const MatrixXd& samples, Index order) {
  const Index rows = spectrum.vectors.rows(), rank = std::min(order, numerical_rank(spectrum.values, rows));
  const auto V = spectrum.vectors.leftCols(rank);
  return system_of(spectrum, rank, samples, V.bottomRows(rows - 1).transpose() * V.topRows(rows - 1));
}

HankelSystem era_system(const MatrixXd& samples, Index order) {
  const Index rows = (samples.rows() + 1) / 2;
  if (rows < 2) return {MatrixXd(0, 0), VectorXd(0), MatrixXd(samples.cols(), 0), VectorXd(0)};
  const HankelSpectrum spectrum = hankel_spectrum(samples, rows, std::min(order, rows - 1));
  const Index rank = numerical_rank(spectrum.values, rows);
  const auto V = spectrum.vectors.leftCols(rank);
  const Eigen::HouseholderQR<MatrixXd> qr(V.topRows(rows - 1));
  return system_of(spectrum, rank, samples, qr.solve(V.bottomRows(rows - 1)).transpose());
}

bool has_died_out(const MatrixXd& samples) {
  const Index tail = std::max<Index>(1, samples.rows() / 16);
  return samples.bottomRows(tail).cwiseAbs().maxCoeff() <= 1e-14 * samples.cwiseAbs().maxCoeff();
}

}  // namespace rtf
