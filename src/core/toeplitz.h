// Least squares with columns that are one series, each a sample later than the next.
#pragma once

#include <Eigen/Core>
#include <optional>

namespace rtf {

// min |right - T x| for every column of `right`, and what is left of it.
struct LeastSquares {
  Eigen::MatrixXd solution, residual;
};

// T_{tk} = s[columns - 1 - k + t]; of several series, the matrices of all of them, stacked. It is never written out.
class Toeplitz {
 public:
  // series is (rows + columns - 1, blocks).
  Toeplitz(Eigen::MatrixXd series, Eigen::Index columns);

  // By the normal equations, which take O(rows columns + columns^3) and lose as many digits again as the problem does;
  // corrections with the residual bring those back. Nothing where too few are left for that.
  std::optional<LeastSquares> solve(const Eigen::MatrixXd& right) const;

 private:
  using Columns = Eigen::Map<const Eigen::MatrixXd, 0, Eigen::OuterStride<>>;

  Columns block(Eigen::Index index) const;
  Eigen::MatrixXd residual(const Eigen::MatrixXd& x, const Eigen::MatrixXd& right) const;
  Eigen::MatrixXd transposed_product(const Eigen::MatrixXd& right) const;
  Eigen::MatrixXd gram() const;

  Eigen::MatrixXd series_;
  Eigen::Index columns_, rows_;  // of one block
};

}  // namespace rtf
