#include "core/lattice.h"

#include <gtest/gtest.h>

#include "random_filter.h"
#include "rtf/stability.h"

namespace rtf {
namespace {

TEST(Lattice, HasTheKernelOfTheFilter) {
  testing::RandomFilters random(1);
  for (int round = 0; round < 60; ++round) {
    const TransferFunction tf = random.draw(1, 1, random.integer(1, 40));
    const auto lattice = to_lattice(tf.a, tf.b);
    ASSERT_EQ(lattice.has_value(), is_stable(tf.a));
    if (!lattice) continue;
    const std::size_t n = tf.order, length = 200;
    const std::vector<double> A = lattice->transition();
    std::vector<double> x = lattice->input(), kernel = {tf.h0[0]};
    while (kernel.size() < length) {
      double y = 0;
      std::vector<double> next(n, 0.0);
      for (std::size_t i = 0; i < n; ++i) {
        y += lattice->output[i] * x[i];
        for (std::size_t j = 0; j < n; ++j) next[i] += A[i * n + j] * x[j];
      }
      kernel.push_back(y);
      x = next;
    }
    EXPECT_LE(testing::relative_error(kernel, testing::reference_kernel(tf, 0, length)),
              testing::accuracy_bound(condition(tf, length), false))
        << "order " << n;
  }
}

TEST(Lattice, ItsReachabilityGramianIsTheIdentity) {
  testing::RandomFilters random(2);
  for (std::size_t order : {1, 2, 3, 16, 41}) {
    const std::vector<double> a = random.by_reflection(order, order > 10);
    const auto lattice = to_lattice(a, std::vector<double>(order, 1.0));
    ASSERT_TRUE(lattice);
    const std::vector<double> A = lattice->transition(), B = lattice->input();
    for (std::size_t i = 0; i < order; ++i)
      for (std::size_t j = 0; j < order; ++j) {
        double sum = B[i] * B[j];
        for (std::size_t k = 0; k < order; ++k) sum += A[i * order + k] * A[j * order + k];
        EXPECT_NEAR(sum, i == j ? 1 : 0, 1e-14 * static_cast<double>(order)) << "order " << order;
      }
  }
}

TEST(Lattice, ThereIsNoneOnOrOutsideTheCircle) {
  EXPECT_TRUE(to_lattice({}, {}));
  for (const double a : {-1.0, 1.0, 2.0}) EXPECT_FALSE(to_lattice(std::vector{a}, std::vector{1.0}));
}

}  // namespace
}  // namespace rtf
