#include "core/toeplitz.h"

#include <Eigen/Cholesky>
#include <algorithm>

namespace rtf {

using Eigen::Index;
using Eigen::MatrixXd;

namespace {

// The relative error of a first solution from which on corrections are few and sure to lead to the end.
constexpr double correctable = 0x1p-8;

// Below the rounding of a solution.
constexpr double corrected = 0x1p-60;

double largest_ratio(const MatrixXd& x, const MatrixXd& y) {
  double ratio = 0;
  for (Index c = 0; c < x.cols(); ++c) {
    const double norm = y.col(c).norm();
    if (norm > 0) ratio = std::max(ratio, x.col(c).norm() / norm);
  }
  return ratio;
}

}  // namespace

// Inside, the columns are in the order of the series, the last of T first.

Toeplitz::Toeplitz(MatrixXd series, Index columns)
    : series_(std::move(series)), columns_(columns), rows_(series_.rows() - columns + 1) {}

Toeplitz::Columns Toeplitz::block(Index index) const {
  return {series_.col(index).data(), rows_, columns_, Eigen::OuterStride<>(1)};
}

MatrixXd Toeplitz::residual(const MatrixXd& x, const MatrixXd& right) const {
  MatrixXd result = right;
  for (Index b = 0; b < series_.cols(); ++b) result.middleRows(b * rows_, rows_).noalias() -= block(b) * x;
  return result;
}

MatrixXd Toeplitz::transposed_product(const MatrixXd& right) const {
  MatrixXd result = MatrixXd::Zero(columns_, right.cols());
  for (Index b = 0; b < series_.cols(); ++b)
    result.noalias() += block(b).transpose() * right.middleRows(b * rows_, rows_);
  return result;
}

// Along a diagonal one sample enters the sum and one leaves it. Series mostly die out: backwards what enters is large.
MatrixXd Toeplitz::gram() const {
  MatrixXd sum = MatrixXd::Zero(columns_, columns_);
  for (Index b = 0; b < series_.cols(); ++b) {
    const auto s = series_.col(b);
    MatrixXd one(columns_, columns_);
    one.col(columns_ - 1).noalias() = block(b).transpose() * s.tail(rows_);
    for (Index j = columns_ - 1; j-- > 0;)
      one.col(j).head(j + 1) =
          one.col(j + 1).segment(1, j + 1) + s[j] * s.head(j + 1) - s[j + rows_] * s.segment(rows_, j + 1);
    sum += one.triangularView<Eigen::Upper>();
  }
  return sum;
}

std::optional<LeastSquares> Toeplitz::solve(const MatrixXd& right) const {
  const Eigen::LLT<MatrixXd, Eigen::Upper> factor(gram());
  if (factor.info() != Eigen::Success) return std::nullopt;
  LeastSquares result{factor.solve(transposed_product(right)), {}};
  MatrixXd& x = result.solution;
  result.residual = residual(x, right);
  const auto correction = [&]() -> MatrixXd { return factor.solve(transposed_product(result.residual)); };
  MatrixXd change = correction();
  // The part of a solution that the equations lose, whichever solution it is: that of a correction too.
  const double lost = largest_ratio(change, x);
  if (!(lost <= correctable)) return std::nullopt;
  for (double left = lost; left > corrected; left *= lost) {
    x += change;
    result.residual = residual(x, right);
    change = correction();
  }
  x = x.colwise().reverse().eval();
  return result;
}

}  // namespace rtf
