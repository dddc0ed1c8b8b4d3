#include "core/hankel.h"

#include <gtest/gtest.h>

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <functional>

#include "random_filter.h"

namespace rtf {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using testing::RandomFilters;

// The stacked matrix itself.
MatrixXd dense_hankel(const MatrixXd& samples, Index size) {
  MatrixXd H = MatrixXd::Zero(size * samples.cols(), size);
  for (Index c = 0; c < samples.cols(); ++c)
    for (Index i = 0; i < size; ++i)
      for (Index j = 0; j < size; ++j)
        if (i + j < samples.rows()) H(c * size + i, j) = samples(i + j, c);
  return H;
}

void expect_spectrum(const MatrixXd& samples, Index size, Index count) {
  const HankelSpectrum found = hankel_spectrum(samples, size, count);
  const MatrixXd H = dense_hankel(samples, size);
  // A single matrix is symmetric; of several the squares are enough for the tolerance below.
  const bool single = samples.cols() == 1;
  VectorXd expected =
      Eigen::SelfAdjointEigenSolver<MatrixXd>(single ? H : MatrixXd(H.transpose() * H), Eigen::EigenvaluesOnly)
          .eigenvalues()
          .cwiseAbs();
  if (!single) expected = expected.cwiseSqrt();
  std::sort(expected.begin(), expected.end(), std::greater<>());
  ASSERT_EQ(found.values.size(), count);
  ASSERT_EQ(found.vectors.rows(), size);
  const double largest = expected[0];
  // Squares lose what is below the root of rounding.
  const double tolerance = largest * (single ? 1e-11 : 1e-6);
  EXPECT_LE((found.values - expected.head(count)).cwiseAbs().maxCoeff(), tolerance);
  EXPECT_LE((found.vectors.transpose() * found.vectors - MatrixXd::Identity(count, count)).cwiseAbs().maxCoeff(),
            1e-10);
  for (Index i = 0; i < count; ++i)
    EXPECT_NEAR((H * found.vectors.col(i)).norm(), found.values[i], tolerance) << "vector " << i;
}

MatrixXd decaying_noise(RandomFilters& random, Index length, Index channels, double rate) {
  MatrixXd samples(length, channels);
  for (Index c = 0; c < channels; ++c)
    for (Index t = 0; t < length; ++t) samples(t, c) = random.normal() * std::exp(-rate * static_cast<double>(t));
  return samples;
}

TEST(HankelSpectrum, IsThatOfTheDenseMatrix) {
  RandomFilters random(1);
  for (const Index size : {1, 2, 7, 100, 161, 300, 400})
    for (const Index count : {Index{1}, Index{5}, Index{40}}) {
      if (count > size) continue;
      SCOPED_TRACE(::testing::Message() << "size " << size << " count " << count);
      expect_spectrum(decaying_noise(random, size, 1, random.uniform(0, 0.05)), size, count);
      expect_spectrum(decaying_noise(random, 2 * size - 1, 1, 0.01), size, count);
      expect_spectrum(decaying_noise(random, size, 3, 0.02), size, count);
    }
}

// One chain of Lanczos sees one vector of each of these eigenvalues; +1 and -1 have dozens.
TEST(HankelSpectrum, FindsMultipleValues) {
  const Index size = 300;
  for (const double echo : {0.0, 0.1, 1.0}) {
    SCOPED_TRACE(echo);
    VectorXd samples = VectorXd::Zero(size);
    samples[40] = 1;
    samples[250] = echo;
    samples[3] -= echo / 3;
    expect_spectrum(samples, size, 30);
  }
}

TEST(HankelSpectrum, OfLowRank) {
  const Index size = 250;
  VectorXd samples(2 * size - 1);
  for (Index t = 0; t < samples.size(); ++t)
    samples[t] = std::pow(0.97, static_cast<double>(t)) + std::pow(-0.9, static_cast<double>(t));
  expect_spectrum(samples, size, 10);
  const HankelSpectrum found = hankel_spectrum(samples, size, 10);
  EXPECT_GT(found.values[1], 1);
  EXPECT_LT(found.values[2], 1e-12);
}

}  // namespace
}  // namespace rtf
