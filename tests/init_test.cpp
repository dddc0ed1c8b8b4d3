#include "rtf/init.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "random_filter.h"
#include "rtf/error.h"
#include "rtf/random.h"
#include "rtf/stability.h"

namespace rtf {
namespace {

double l1_norm(const TrainedTransferFunction& tf, std::size_t group) {
  double sum = 0;
  for (std::size_t k = 0; k < tf.order; ++k) sum += std::abs(tf.a[group * tf.order + k]);
  return sum;
}

double largest(const std::vector<double>& values) {
  double result = 0;
  for (double value : values) result = std::max(result, std::abs(value));
  return result;
}

TEST(Initialize, ZeroIsTheImpulse) {
  const auto tf = initialize(Init::zero, InitialGain::paper, 6, 2, 3, 100, 1);
  validate(tf, "initialize");
  EXPECT_EQ(tf.length, 100u);
  EXPECT_EQ(tf.a, std::vector<double>(6, 0.0));
  EXPECT_EQ(tf.b, std::vector<double>(18, 0.0));
  EXPECT_EQ(tf.h0, std::vector<double>(6, 1.0));
}

TEST(Initialize, DrawsInTheOrderOfTheStream) {
  const auto tf = initialize(Init::uniform_montel, InitialGain::release, 2, 1, 2, 10, 99);
  const Random random(99);
  const double norm = random.uniform(0) + random.uniform(1);
  EXPECT_EQ(tf.a, (std::vector<double>{random.uniform(0) / norm, random.uniform(1) / norm}));
  EXPECT_EQ(tf.b, (std::vector<double>{random.uniform(2), random.uniform(3), random.uniform(4), random.uniform(5)}));
  EXPECT_EQ(tf.h0, (std::vector<double>{random.normal(6), random.normal(7)}));
}

TEST(Initialize, Ranges) {
  const std::size_t order = 64;
  const auto xavier = initialize(Init::xavier, InitialGain::paper, 32, 8, order, 100, 1);
  EXPECT_LE(largest(xavier.a), 1 / 8.0);
  EXPECT_GT(largest(xavier.a), 0.98 / 8.0);
  EXPECT_GT(largest(xavier.b), 0.98 / 8.0);
  EXPECT_LT(*std::min_element(xavier.a.begin(), xavier.a.end()), 0);

  const auto montel = initialize(Init::montel, InitialGain::release, 32, 8, order, 100, 1);
  EXPECT_LE(largest(montel.a), 1 / 64.0);
  EXPECT_GT(largest(montel.b), 0.98 / 64.0);
  const auto uniform = initialize(Init::uniform_montel, InitialGain::release, 32, 8, order, 100, 1);
  for (std::size_t g = 0; g < 8; ++g) {
    EXPECT_LE(l1_norm(montel, g), 1.0);
    EXPECT_TRUE(is_stable({montel.a.data() + g * order, order}));
    EXPECT_NEAR(l1_norm(uniform, g), 1.0, 1e-14);
    EXPECT_TRUE(is_stable({uniform.a.data() + g * order, order}));
  }
  EXPECT_GE(*std::min_element(uniform.b.begin(), uniform.b.end()), 0.0);
  EXPECT_GT(largest(uniform.b), 0.98);
  EXPECT_NE(uniform.h0[0], uniform.h0[1]);
}

TEST(Initialize, SeedDecides) {
  for (Init init : {Init::xavier, Init::montel, Init::uniform_montel}) {
    const auto one = initialize(init, InitialGain::release, 4, 2, 5, 64, 1);
    const auto same = initialize(init, InitialGain::release, 4, 2, 5, 64, 1);
    const auto other = initialize(init, InitialGain::release, 4, 2, 5, 64, 2);
    EXPECT_EQ(one.a, same.a);
    EXPECT_EQ(one.b, same.b);
    EXPECT_EQ(one.h0, same.h0);
    EXPECT_NE(one.a, other.a);
    EXPECT_NE(one.h0, other.h0);
  }
}

TEST(Initialize, OrderZero) {
  const auto tf = initialize(Init::montel, InitialGain::paper, 2, 1, 0, 8, 1);
  EXPECT_TRUE(tf.a.empty() && tf.b.empty());
  EXPECT_EQ(tf.h0.size(), 2u);
}

TEST(Initialize, BadArguments) {
  EXPECT_THROW(initialize(Init::zero, InitialGain::paper, 4, 3, 2, 8, 1), Error);
  EXPECT_THROW(initialize(Init::zero, InitialGain::paper, 0, 1, 2, 8, 1), Error);
  EXPECT_THROW(initialize(Init::zero, InitialGain::paper, 4, 0, 2, 8, 1), Error);
  EXPECT_THROW(initialize(Init::zero, InitialGain::paper, 4, 2, 2, 0, 1), Error);
}

TEST(FromFir, KernelIsTheTaps) {
  const std::vector<double> taps{1, 2, 3, 4, 5, 6};
  const auto tf = from_fir(taps, 2);
  validate(tf, "from_fir");
  EXPECT_EQ(tf.order, 2u);
  for (std::size_t c : {0, 1}) {
    const auto kernel = testing::reference_kernel(tf, c, 5);
    for (std::size_t t = 0; t < 5; ++t) EXPECT_EQ(static_cast<double>(kernel[t]), t < 3 ? taps[3 * c + t] : 0.0);
  }
  EXPECT_EQ(from_fir(std::vector<double>{2, 3}, 2).order, 0u);
}

TEST(FromFir, BadArguments) {
  const std::vector<double> taps{1, 2, 3};
  EXPECT_THROW(from_fir(taps, 2), Error);
  EXPECT_THROW(from_fir(taps, 0), Error);
  EXPECT_THROW(from_fir({}, 1), Error);
  EXPECT_THROW(from_fir(std::vector<double>{1, std::numeric_limits<double>::infinity()}, 1), Error);
}

}  // namespace
}  // namespace rtf
