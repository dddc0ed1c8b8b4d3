#include "core/toeplitz.h"

#include <gtest/gtest.h>

#include <Eigen/QR>
#include <Eigen/SVD>
#include <algorithm>
#include <cmath>
#include <limits>

#include "random_filter.h"

namespace rtf {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using testing::RandomFilters;
using LongMatrix = Eigen::Matrix<long double, Eigen::Dynamic, Eigen::Dynamic>;

MatrixXd noise(RandomFilters& random, Index rows, Index columns) {
  MatrixXd values(rows, columns);
  for (double& value : values.reshaped()) value = random.normal();
  return values;
}

MatrixXd dense(const MatrixXd& series, Index columns) {
  const Index rows = series.rows() - columns + 1;
  MatrixXd T(rows * series.cols(), columns);
  for (Index b = 0; b < series.cols(); ++b)
    for (Index k = 0; k < columns; ++k) T.col(k).segment(b * rows, rows) = series.col(b).segment(columns - 1 - k, rows);
  return T;
}

// Noise through poles next to 1: the closer, the more its columns resemble each other.
MatrixXd smooth(RandomFilters& random, Index length, Index blocks, double pole) {
  MatrixXd series = noise(random, length, blocks);
  for (int pass = 0; pass < 6; ++pass)
    for (Index t = 1; t < length; ++t) series.row(t) += pole * series.row(t - 1);
  return series;
}

TEST(Toeplitz, SolvesAsWellAsOrthogonalFactorsOrNotAtAll) {
  RandomFilters random(1);
  int solved = 0, refused = 0;
  for (const double pole : {0.0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.999})
    for (const Index blocks : {1, 3})
      for (const Index columns : {1, 7, 40}) {
        SCOPED_TRACE(::testing::Message() << pole << ", " << blocks << " blocks, " << columns << " columns");
        const MatrixXd series = smooth(random, 300, blocks, pole), T = dense(series, columns);
        const MatrixXd right = noise(random, T.rows(), 2);
        const auto found = Toeplitz(series, columns).solve(right);
        const VectorXd sigma = Eigen::JacobiSVD<MatrixXd>(T).singularValues();
        const double kappa = sigma[0] / sigma[columns - 1];
        if (kappa < 1e4) {
          ASSERT_TRUE(found) << kappa;
        }
        ++(found ? solved : refused);
        if (!found) continue;
        const LongMatrix precise = T.cast<long double>();
        const MatrixXd expected =
            Eigen::HouseholderQR<LongMatrix>(precise).solve(right.cast<long double>()).cast<double>();
        // The sensitivity of least squares to a relative change of T by rounding, once for each term of a sum.
        const double rounding = std::numeric_limits<double>::epsilon() * static_cast<double>(columns);
        for (Index c = 0; c < right.cols(); ++c) {
          const double sensitivity = kappa * expected.col(c).norm() + kappa * right.col(c).norm() / sigma[columns - 1];
          EXPECT_LE((found->solution.col(c) - expected.col(c)).norm(), rounding * sensitivity);
          EXPECT_LE((found->residual.col(c) - (right - T * expected).col(c)).norm(),
                    rounding * kappa * right.col(c).norm());
        }
      }
  EXPECT_GT(solved, 20);
  EXPECT_GT(refused, 2);
}

TEST(Toeplitz, RefusesDependentColumns) {
  EXPECT_FALSE(Toeplitz(MatrixXd::Zero(20, 1), 3).solve(MatrixXd::Ones(18, 1)));
  EXPECT_FALSE(Toeplitz(MatrixXd::Ones(20, 1), 3).solve(MatrixXd::Ones(18, 1)));
  MatrixXd geometric(20, 1);
  for (Index t = 0; t < 20; ++t) geometric(t, 0) = std::pow(0.7, static_cast<double>(t));
  EXPECT_FALSE(Toeplitz(geometric, 2).solve(VectorXd::Unit(19, 0)));
}

}  // namespace
}  // namespace rtf
