#include "rtf/constraint.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "random_filter.h"
#include "rtf/error.h"
#include "rtf/stability.h"

namespace rtf {
namespace {

using testing::gradient_error;
using testing::gradient_tolerance;
using testing::RandomFilters;

double l1_norm(const std::vector<double>& a) {
  double sum = 0;
  for (double value : a) sum += std::abs(value);
  return sum;
}

double dot(const std::vector<double>& x, const std::vector<double>& y) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
  return sum;
}

// Numbers away from zero, where |x| has a derivative.
std::vector<double> away_from_zero(RandomFilters& random, std::size_t count) {
  std::vector<double> values(count);
  for (double& value : values) value = random.uniform(0.05, 1) * (random.chance(0.5) ? 1 : -1);
  return values;
}

std::vector<double> random_signs(RandomFilters& random, std::size_t count) {
  std::vector<double> signs(count);
  for (double& sign : signs) sign = random.chance(0.5) ? 1 : -1;
  return signs;
}

TEST(Montel, ReleaseForm) {
  const std::vector<double> alpha{1, -2, 0, 3};
  const double norm = 6 + 2 + 1e-6;
  EXPECT_EQ(montel(alpha, -2.0), (std::vector<double>{1 / norm, -2 / norm, 0, 3 / norm}));
  EXPECT_TRUE(montel({}, 1.0).empty());
  EXPECT_EQ(montel(std::vector<double>{0, 0}, 0.0), (std::vector<double>{0, 0}));
}

TEST(Montel, PaperForm) {
  EXPECT_EQ(montel_paper(std::vector<double>{1, -2, 5}), (std::vector<double>{0.125, -0.25}));
  EXPECT_TRUE(montel_paper(std::vector<double>{3}).empty());
}

TEST(Montel, SoftmaxForm) {
  const std::vector<double> logits{std::log(1.0), std::log(2.0), std::log(5.0)};
  const auto a = montel_softmax(logits, std::vector<double>{-1, 1});
  ASSERT_EQ(a.size(), 2u);
  EXPECT_NEAR(a[0], -0.125, 1e-16);
  EXPECT_NEAR(a[1], 0.25, 1e-16);
  // Logits far past the range of exp.
  const auto large = montel_softmax(std::vector<double>{5000, 4000, 5000}, std::vector<double>{1, 1});
  EXPECT_EQ(large, (std::vector<double>{0.5, 0}));
}

TEST(Montel, EveryFormIsStable) {
  RandomFilters random(1);
  for (int i = 0; i < 200; ++i) {
    const std::size_t order = random.integer(1, 60);
    const auto released = montel(random.normals(order), random.normal());
    const auto paper = montel_paper(random.normals(order + 1));
    const auto soft = montel_softmax(random.normals(order + 1), random_signs(random, order));
    for (const auto& a : {released, paper, soft}) {
      EXPECT_EQ(a.size(), order);
      EXPECT_LT(l1_norm(a), 1.0);
      EXPECT_TRUE(is_stable(a));
    }
  }
}

TEST(MontelVjp, AgreesWithCentralDifferences) {
  RandomFilters random(2);
  for (int i = 0; i < 100; ++i) {
    const std::size_t order = random.integer(1, 20);
    const auto gradient = random.normals(order);

    auto alpha = away_from_zero(random, order);
    double sigma = away_from_zero(random, 1)[0];
    const auto released = montel_vjp(alpha, sigma, gradient);
    const auto loss = [&] { return dot(montel(alpha, sigma), gradient); };
    EXPECT_LE(gradient_error(loss, alpha, released.alpha), gradient_tolerance);
    EXPECT_LE(gradient_error(loss, {&sigma, 1}, {&released.sigma, 1}), gradient_tolerance);

    auto paper_alpha = away_from_zero(random, order + 1);
    const auto paper = montel_paper_vjp(paper_alpha, gradient);
    EXPECT_LE(gradient_error([&] { return dot(montel_paper(paper_alpha), gradient); }, paper_alpha, paper),
              gradient_tolerance);

    auto logits = random.normals(order + 1);
    const auto signs = random_signs(random, order);
    const auto soft = montel_softmax_vjp(logits, signs, gradient);
    EXPECT_LE(gradient_error([&] { return dot(montel_softmax(logits, signs), gradient); }, logits, soft),
              gradient_tolerance);
  }
}

// At a zero the subgradient 0 of |x| is taken.
TEST(MontelVjp, AtZero) {
  const std::vector<double> alpha{0, 1}, gradient{3, 5};
  const auto result = montel_vjp(alpha, 0.0, gradient);
  const double norm = 1 + 1e-6;
  EXPECT_DOUBLE_EQ(result.alpha[0], 3 / norm);
  EXPECT_NEAR(result.alpha[1], 5 / norm - 5 / (norm * norm), 1e-14);
  EXPECT_EQ(result.sigma, 0.0);
}

TEST(Montel, BadArguments) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> two{1, 2}, zeros{0, 0}, bad{1, nan}, signs{1};
  EXPECT_THROW(montel(bad, 1.0), Error);
  EXPECT_THROW(montel(two, nan), Error);
  EXPECT_THROW(montel_vjp(two, 1.0, signs), Error);
  EXPECT_THROW(montel_paper({}), Error);
  EXPECT_THROW(montel_paper(zeros), Error);
  EXPECT_THROW(montel_paper_vjp(two, two), Error);
  EXPECT_THROW(montel_softmax({}, {}), Error);
  EXPECT_THROW(montel_softmax(two, two), Error);
  EXPECT_THROW(montel_softmax(two, std::vector<double>{0.5}), Error);
  EXPECT_THROW(montel_softmax_vjp(two, signs, two), Error);
  try {
    montel_softmax(two, std::vector<double>{0.5});
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "[rtf::montel_softmax] signs[0] is 0.5, expected 1 or -1");
  }
}

}  // namespace
}  // namespace rtf
