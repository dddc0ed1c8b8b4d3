#include "core/state_space_response.h"

#include <Eigen/Eigenvalues>
#include <cmath>
#include <complex>

#include "core/row_matrix.h"

namespace rtf {

using Eigen::Index;
using Eigen::MatrixXcd;
using Eigen::MatrixXd;

StateSpaceResponse::StateSpaceResponse(const StateSpace& system)
    : A_(matrix(system.A, system.order, system.order)),
      B_(matrix(system.B, system.order, system.inputs)),
      C_(matrix(system.C, system.outputs, system.order)),
      D_(matrix(system.D, system.outputs, system.inputs)) {
  if (system.order < 3) return;  // as it is
  const Eigen::HessenbergDecomposition<MatrixXd> similar(A_);
  const MatrixXd Q = similar.matrixQ();
  A_ = similar.matrixH();
  B_ = (Q.transpose() * B_).eval();
  C_ = (C_ * Q).eval();
}

// Elimination with the larger of two neighbouring rows as the pivot.
MatrixXcd StateSpaceResponse::operator()(double angle) const {
  const Index n = A_.rows();
  Eigen::Matrix<std::complex<double>, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> rows(n, n + B_.cols());
  rows << -A_.cast<std::complex<double>>(), B_.cast<std::complex<double>>();
  rows.leftCols(n).diagonal().array() += std::polar(1.0, angle);
  for (Index i = 0; i + 1 < n; ++i) {
    const Index rest = rows.cols() - i;
    if (std::norm(rows(i + 1, i)) > std::norm(rows(i, i))) rows.row(i).tail(rest).swap(rows.row(i + 1).tail(rest));
    if (rows(i + 1, i) == 0.0) continue;
    const std::complex<double> factor = rows(i + 1, i) / rows(i, i);
    rows.row(i + 1).tail(rest) -= factor * rows.row(i).tail(rest);
  }
  MatrixXcd x = rows.rightCols(B_.cols());
  rows.leftCols(n).triangularView<Eigen::Upper>().solveInPlace(x);
  return D_.cast<std::complex<double>>() + C_.cast<std::complex<double>>() * x;
}

}  // namespace rtf
