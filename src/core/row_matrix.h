// Matrices stored row by row, as the public values hold them, to and from Eigen's.
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <vector>

namespace rtf {

using RowMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

inline Eigen::MatrixXd matrix(const std::vector<double>& values, std::size_t rows, std::size_t columns) {
  return Eigen::Map<const RowMatrix>(values.data(), static_cast<Eigen::Index>(rows),
                                     static_cast<Eigen::Index>(columns));
}

inline std::vector<double> values(const Eigen::MatrixXd& matrix) {
  std::vector<double> result(static_cast<std::size_t>(matrix.size()));
  Eigen::Map<RowMatrix>(result.data(), matrix.rows(), matrix.cols()) = matrix;
  return result;
}

}  // namespace rtf
