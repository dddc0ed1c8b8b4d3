#include "rtf/stability.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>

#include "core/eigenvalues.h"
#include "random_filter.h"
#include "rtf/error.h"

namespace rtf {
namespace {

using testing::RandomFilters;
using testing::step_up;
using Poles = std::vector<std::complex<double>>;

constexpr double infinity = std::numeric_limits<double>::infinity();

std::vector<double> comb(std::size_t order, double r) {
  std::vector<double> a(order, 0.0);
  a.back() = -r;
  return a;
}

// a_1..a_n of prod (1 - p w).
std::vector<double> expand(const Poles& roots) {
  std::vector<std::complex<long double>> p{1.0L};
  for (const auto& root : roots) {
    p.push_back(0.0L);
    for (std::size_t k = p.size() - 1; k > 0; --k) p[k] -= std::complex<long double>(root) * p[k - 1];
  }
  std::vector<double> a;
  for (std::size_t k = 1; k < p.size(); ++k) a.push_back(static_cast<double>(p[k].real()));
  return a;
}

// Moves every pole by the factor s.
std::vector<double> scale_poles(std::vector<double> a, double s) {
  long double power = 1;
  for (double& value : a) value = static_cast<double>(value * (power *= s));
  return a;
}

std::vector<double> random_reflection(RandomFilters& random, std::size_t order, double spread) {
  std::vector<double> reflection(order);
  for (double& k : reflection) k = std::tanh(spread * random.normal());
  return reflection;
}

// Denominators that rounding has moved far from their design, and their exact pole radius as 300-bit arithmetic gives
// it for these very doubles: (1 - 0.9 w)^8, (1 - 0.99 w)^8, and Butterworth low passes of orders 8 and 10.
struct Clustered {
  std::vector<double> a;
  double radius;
};
const std::vector<Clustered> clustered{
    {{-0x1.ccccccccccccep+2, 0x1.6ae147ae147afp+4, -0x1.46978d4fdf3b7p+5, 0x1.6f6a7ef9db22ep+5, -0x1.088a1dfb9389cp+5,
      0x1.dc2bcf91a32b3p+3, -0x1.e9c6a99d1cdc0p+1, 0x1.b8cc6573cd2c7p-2},
     0x1.d305679afbcbbp-1},
    {{-0x1.fae147ae147afp+2, 0x1.b715b573eab37p+4, -0x1.b2b1a6d698fe6p+5, 0x1.0cf785a19510ap+6, -0x1.aa0b25977f932p+5,
      0x1.a5c879b224b2ep+4, -0x1.dd37ab55fda2ep+2, 0x1.d871fe1a40385p-1},
     0x1.017398233f00cp+0},
    {{-0x1.f5b1a6c23b2d0p+2, 0x1.ae2be20b85cf3p+4, -0x1.a58fef9c641a5p+5, 0x1.0237ea9cff983p+6, -0x1.94ed9355ece1ep+5,
      0x1.8ce49a558c944p+4, -0x1.bc9ddb3336542p+2, 0x1.b3d7f19db480bp-1},
     0x1.fcd44d006e36dp-1},
    {{-0x1.3992d8f39b56ep+3, 0x1.59b3a29bf2239p+5, -0x1.c3b8600d10bb8p+6, 0x1.835ed91b73f11p+7, -0x1.c7979dd9819d8p+7,
      0x1.741ebc5fc4beap+7, -0x1.a0da3b91612c6p+6, 0x1.32751da1a2d7ap+5, -0x1.0b0835c248c18p+3, 0x1.a2d7097ae47e7p-1},
     0x1.0288f788194c7p+0},
};

TEST(IsStable, SmallCases) {
  EXPECT_TRUE(is_stable({}));
  EXPECT_TRUE(is_stable(std::vector<double>{0, 0, 0}));
  EXPECT_TRUE(is_stable(std::vector<double>{0.999999}));
  EXPECT_FALSE(is_stable(std::vector<double>{1}));
  EXPECT_FALSE(is_stable(std::vector<double>{-1, 0, 0}));
  EXPECT_TRUE(is_stable(std::vector<double>{std::nextafter(1.0, 0.0)}));
  EXPECT_FALSE(is_stable(std::vector<double>{-2.5, 1}));
  EXPECT_TRUE(is_stable(std::vector<double>{0, 0, 0.5, 0, 0}));
  EXPECT_FALSE(is_stable(std::vector<double>{0, 0, 1.5, 0, 0}));
}

// For order 2 the stable set is the triangle |a_2| < 1, |a_1| < 1 + a_2.
TEST(IsStable, Triangle) {
  RandomFilters random(1);
  for (int i = 0; i < 5000; ++i) {
    const double a1 = random.uniform(-2.5, 2.5), a2 = random.uniform(-1.5, 1.5);
    EXPECT_EQ(is_stable(std::vector<double>{a1, a2}), std::abs(a2) < 1 && std::abs(a1) < 1 + a2) << a1 << " " << a2;
  }
  // Right at the border, one unit of rounding to either side.
  const double a1 = -2 + 0x1p-39, a2 = 1 - 0x1p-39;
  EXPECT_FALSE(is_stable(std::vector<double>{a1, a2}));
  EXPECT_TRUE(is_stable(std::vector<double>{a1, std::nextafter(a2, 1)}));
  EXPECT_FALSE(is_stable(std::vector<double>{a1, std::nextafter(a2, 0)}));
  EXPECT_FALSE(is_stable(std::vector<double>{-(1 + 0.5), 0.5}));
  EXPECT_FALSE(is_stable(std::vector<double>{-std::nextafter(1.5, 2), 0.5}));
  EXPECT_TRUE(is_stable(std::vector<double>{-std::nextafter(1.5, 1), 0.5}));
}

TEST(IsStable, ReflectionCoefficientsDecide) {
  RandomFilters random(2);
  for (std::size_t order : {1, 3, 16, 64, 256, 600, 1024}) {
    auto reflection = random_reflection(random, order, 0.8 / std::sqrt(static_cast<double>(order)));
    EXPECT_TRUE(is_stable(step_up(reflection))) << order;
    reflection[random.integer(0, order - 1)] = random.chance(0.5) ? 1.001 : -1.001;
    EXPECT_FALSE(is_stable(step_up(reflection))) << order;
  }
}

TEST(IsStable, AgreesWithPoleRadiusNextToTheCircle) {
  RandomFilters random(3);
  for (std::size_t order : {2, 5, 16, 64, 256, 1024}) {
    const auto a = step_up(random_reflection(random, order, 1 / std::sqrt(static_cast<double>(order))));
    const double radius = pole_radius(a);
    for (double distance : {1e-2, 1e-5, 1e-8, 1e-11}) {
      EXPECT_TRUE(is_stable(scale_poles(a, (1 - distance) / radius))) << order << " " << distance;
      EXPECT_FALSE(is_stable(scale_poles(a, (1 + distance) / radius))) << order << " " << distance;
    }
  }
}

TEST(IsStable, Clustered) {
  for (const auto& [a, radius] : clustered) EXPECT_EQ(is_stable(a), radius < 1);
}

TEST(IsStable, NothingOverflows) {
  EXPECT_FALSE(is_stable(std::vector<double>(1024, 1e300)));
  EXPECT_FALSE(is_stable(std::vector<double>(1024, -std::numeric_limits<double>::max())));
  EXPECT_TRUE(is_stable(std::vector<double>(1024, 1e-300)));
  std::vector<double> binomial{-1000};
  binomial.resize(1024, 0.999);
  EXPECT_FALSE(is_stable(binomial));
}

TEST(PoleRadius, Combs) {
  for (std::size_t order : {1, 2, 7, 64, 600, 1024})
    for (double r : {1e-12, 0.01, 0.5, 0.99, 1.01, 1.5, 1e10})
      for (double sign : {1.0, -1.0}) {
        const double expected = std::pow(r, 1.0 / static_cast<double>(order));
        EXPECT_NEAR(pole_radius(comb(order, sign * r)) / expected, 1.0, 1e-15) << order << " " << r;
      }
  for (std::size_t order : {1, 2, 7, 64, 600, 1024}) EXPECT_EQ(pole_radius(comb(order, 1)), 1.0);
}

TEST(PoleRadius, SmallCases) {
  EXPECT_EQ(pole_radius({}), 0.0);
  EXPECT_EQ(pole_radius(std::vector<double>{0, 0}), 0.0);
  EXPECT_NEAR(pole_radius(std::vector<double>{-0.3, 0, 0}), 0.3, 1e-16);
  EXPECT_NEAR(pole_radius(std::vector<double>{0, 0, 0.125, 0}), 0.5, 1e-16);
  EXPECT_NEAR(pole_radius(std::vector<double>{-3, 2}), 2.0, 1e-15);
  EXPECT_NEAR(pole_radius(std::vector<double>{-1e6}) / 1e6, 1.0, 1e-15);
  EXPECT_NEAR(pole_radius(std::vector<double>{1e-200}) / 1e-200, 1.0, 1e-15);
  EXPECT_NEAR(pole_radius(std::vector<double>{-1e3, 1e-3}) / (1e3 - 1e-6), 1.0, 1e-15);
}

TEST(PoleRadius, Cascades) {
  RandomFilters random(4);
  for (std::size_t pairs : {1, 3, 8, 16})
    for (double largest : {0.5, 0.99, 0.99999, 1.2}) {
      // Angles apart, so that rounding the coefficients hardly moves the poles.
      Poles roots;
      for (std::size_t i = 0; i < pairs; ++i) {
        const double angle = std::numbers::pi * (static_cast<double>(i) + 0.5) / static_cast<double>(pairs);
        const double radius = i == pairs / 2 ? largest : random.uniform(0.7, 0.95) * largest;
        roots.push_back(std::polar(radius, angle));
        roots.push_back(std::conj(roots.back()));
      }
      EXPECT_NEAR(pole_radius(expand(roots)) / largest, 1.0, 1e-12) << pairs << " " << largest;
    }
}

TEST(PoleRadius, Clustered) {
  for (const auto& [a, radius] : clustered) EXPECT_NEAR(pole_radius(a) / radius, 1.0, 1e-15);
}

// Exactly equal poles cost digits: eps^(1/(2m-1)) of 106 bits.
TEST(PoleRadius, Repeated) {
  const double tolerance[]{1e-15, 1e-11, 1e-7, 1e-5};
  for (std::size_t m = 1; m <= 4; ++m)
    EXPECT_NEAR(pole_radius(expand(Poles(m, 0.75))) / 0.75, 1.0, tolerance[m - 1]) << m;
}

TEST(PoleRadius, AgreesWithThePoles) {
  RandomFilters random(5);
  for (int i = 0; i < 60; ++i) {
    const std::size_t order = random.integer(1, 100);
    const TransferFunction tf = random.draw(1, 1, order);
    EXPECT_NEAR(pole_radius(tf.a) / std::abs(poles(tf.a)[0]), 1.0, 1e-10) << order;
  }
}

TEST(PoleRadius, ScalesWithThePoles) {
  RandomFilters random(6);
  for (std::size_t order : {3, 64, 300, 1024}) {
    std::vector<double> a = random.by_montel(order, false);
    const double radius = pole_radius(a);
    EXPECT_LT(radius, 1.0);
    // Powers of two, so that the coefficients stay exact; high powers fall off at either end of the range.
    EXPECT_NEAR(pole_radius(scale_poles(a, 0.5)) / radius, 0.5, 1e-14);
    if (order > 300) continue;
    EXPECT_NEAR(pole_radius(scale_poles(a, 8)) / radius, 8, 1e-13);
  }
}

TEST(Poles, ConjugatesTogetherLargestFirst) {
  const Poles roots{{0.6, 0.7}, {0.6, -0.7}, {-0.9, 0}, {0.1, 0.2}, {0.1, -0.2}, {0.3, 0}};
  auto a = expand(roots);
  a.resize(8, 0.0);
  const auto found = poles(a);
  ASSERT_EQ(found.size(), 8u);
  for (std::size_t i = 0; i < roots.size(); ++i) {
    const std::size_t j = std::array<std::size_t, 6>{0, 1, 2, 4, 5, 3}[i];
    EXPECT_LE(std::abs(found[j] - roots[i]), 1e-14) << i;
  }
  EXPECT_EQ(found[1], std::conj(found[0]));
  EXPECT_EQ(found[5], std::conj(found[4]));
  EXPECT_EQ(found[2].imag(), 0.0);
  EXPECT_EQ(found[6], 0.0);  // exactly, from the zero coefficients
  EXPECT_EQ(found[7], 0.0);
  EXPECT_TRUE(poles({}).empty());
}

TEST(Poles, OfAComb) {
  for (std::size_t order : {1, 2, 3, 16, 101, 300, 1024}) {
    const auto found = poles(comb(order, 0.5));
    ASSERT_EQ(found.size(), order);
    for (std::size_t j = 0; j < order; ++j) {
      const auto expected = std::polar(std::pow(0.5, 1.0 / static_cast<double>(order)),
                                       2 * std::numbers::pi * static_cast<double>(j) / static_cast<double>(order));
      const double nearest = std::abs(*std::min_element(found.begin(), found.end(), [&](auto x, auto y) {
        return std::abs(x - expected) < std::abs(y - expected);
      }) - expected);
      EXPECT_LE(nearest, 1e-13) << order << " " << j;
    }
  }
}

// Beyond order 128 they come from an iteration that knows nothing of conjugates.
TEST(Poles, OfHighOrderAreTheEigenvalues) {
  RandomFilters random(8);
  for (const std::size_t order : {129, 200, 331}) {
    SCOPED_TRACE(order);
    std::vector<double> a = random.by_montel(order, false), companion(order * order, 0.0);
    for (std::size_t k = 0; k < order; ++k) companion[k] = -a[k];
    for (std::size_t k = 1; k < order; ++k) companion[k * order + k - 1] = 1;
    const auto expected = eigenvalues(companion, order, MatrixShape::hessenberg, "test");
    a.resize(order + 2, 0.0);
    const auto found = poles(a);
    ASSERT_EQ(found.size(), order + 2);
    EXPECT_EQ(found[order], 0.0);
    for (std::size_t i = 0; i < order; ++i) {
      double nearest = 1;
      for (const auto& x : expected) nearest = std::min(nearest, std::abs(x - found[i]));
      EXPECT_LE(nearest, 1e-11);
      if (found[i].imag() > 0) {
        EXPECT_EQ(found[i + 1], std::conj(found[i]));
      }
      if (i > 0) {
        EXPECT_LE(std::abs(found[i]), std::abs(found[i - 1]));
      }
    }
  }
}

// Moduli over twelve decades: without balancing the small ones would be noise.
TEST(Poles, Balanced) {
  Poles roots;
  for (int decade = 6; decade >= -6; decade -= 2) roots.emplace_back(std::pow(10.0, decade), 0.0);
  const auto found = poles(expand(roots));
  for (std::size_t i = 0; i < roots.size(); ++i) EXPECT_LE(std::abs(found[i] / roots[i] - 1.0), 1e-12) << i;
}

TEST(Poles, ExpandBackToTheCoefficients) {
  RandomFilters random(7);
  for (int i = 0; i < 40; ++i) {
    const TransferFunction tf = random.draw(1, 1, random.integer(1, 100));
    auto found = poles(tf.a);
    ASSERT_EQ(found.size(), tf.order);
    EXPECT_TRUE(std::is_sorted(found.begin(), found.end(),
                               [](auto x, auto y) { return std::abs(x) > std::abs(y) * (1 + 1e-15); }));
    // Leja order: multiplied up as they are sorted, intermediate products would lose the digits.
    for (std::size_t done = 1; done < found.size(); ++done) {
      std::vector<double> distance(found.size(), -infinity);
      for (std::size_t j = done; j < found.size(); ++j) {
        distance[j] = 0;
        for (std::size_t k = 0; k < done; ++k) distance[j] += std::log(std::abs(found[j] - found[k]) + 1e-300);
      }
      std::swap(found[done],
                found[static_cast<std::size_t>(std::max_element(distance.begin(), distance.end()) - distance.begin())]);
    }
    const auto back = expand(found);
    for (std::size_t k = 0; k < tf.order; ++k) EXPECT_NEAR(back[k], tf.a[k], 1e-10) << tf.order;
  }
}

TEST(MinAbsDenominator, AgainstTheDefinition) {
  RandomFilters random(8);
  for (int i = 0; i < 100; ++i) {
    const std::size_t order = random.integer(0, 40), length = random.length(200);
    const TransferFunction tf = random.draw(1, 1, order);
    long double expected = HUGE_VALL;
    for (std::size_t j = 0; j < length; ++j) {
      std::complex<long double> sum = 1;
      for (std::size_t k = 1; k <= order; ++k)
        sum += static_cast<long double>(tf.a[k - 1]) *
               std::polar(1.0L, -2 * std::numbers::pi_v<long double> * static_cast<long double>(j * k % length) /
                                    static_cast<long double>(length));
      expected = std::min(expected, std::abs(sum));
    }
    EXPECT_NEAR(min_abs_denominator(tf.a, length), static_cast<double>(expected), 1e-13) << order << " " << length;
  }
}

TEST(MinAbsDenominator, SmallCases) {
  EXPECT_EQ(min_abs_denominator({}, 10), 1.0);
  EXPECT_EQ(min_abs_denominator(std::vector<double>{0.5, -0.25}, 1), 1.25);
  EXPECT_NEAR(min_abs_denominator(comb(600, 0.75), 1200), 0.25, 1e-13);
  EXPECT_NEAR(min_abs_denominator(comb(64, 1), 4096), 0.0, 1e-13);  // poles on the points themselves
  EXPECT_NEAR(min_abs_denominator(comb(5, -1), 5), 2.0, 1e-15);
}

TEST(Condition, OfAComb) {
  for (std::size_t order : {1, 7, 64, 600})
    for (double r : {0.0, 0.5, 0.99, 1.0})
      for (std::size_t length : {1, 64, 65, 1000, 5000}) {
        double sum = 0, power = 1;
        for (std::size_t t = 0; t < length; t += order, power *= r) sum += power;
        EXPECT_NEAR(condition(comb(order, r), length) / ((1 + r) * sum), 1.0, 1e-13)
            << order << " " << r << " " << length;
      }
}

TEST(Condition, AgainstTheDefinition) {
  RandomFilters random(9);
  for (int i = 0; i < 100; ++i) {
    const std::size_t order = random.integer(0, 300), length = random.length(3000);
    TransferFunction tf = random.draw(2, 2, order);
    double expected = 0;
    for (std::size_t channel : {0, 1}) {
      const double* a = tf.a.data() + channel * order;
      std::vector<long double> g(length, 0.0L);
      g[0] = 1;
      long double sum = 1, norm = 1;
      for (std::size_t t = 1; t < length; ++t) {
        for (std::size_t k = 1; k <= std::min(order, t); ++k) g[t] -= a[k - 1] * g[t - k];
        sum += std::abs(g[t]);
      }
      for (std::size_t k = 0; k < order; ++k) norm += std::abs(a[k]);
      expected = std::max(expected, static_cast<double>(norm * sum));
    }
    EXPECT_NEAR(condition(tf, length) / expected, 1.0, 1e-10) << order << " " << length;
  }
}

TEST(Condition, Limits) {
  EXPECT_EQ(condition(std::vector<double>{}, 1000), 1.0);
  EXPECT_EQ(condition(std::vector<double>{0.5}, 1), 1.5);
  EXPECT_EQ(condition(std::vector<double>{-2}, 5000), infinity);
  EXPECT_EQ(condition(std::vector<double>{-1e200, 1e200}, 100), infinity);
  // A response that sleeps for 599 samples and then grows must not be cut off.
  EXPECT_EQ(condition(comb(600, 2), 1201), 3.0 * (1 + 2 + 4));
  // Well past the end of the response; millions of samples cost nothing.
  EXPECT_DOUBLE_EQ(condition(std::vector<double>{-0.5}, std::size_t{1} << 40), 3.0);
}

TEST(Stability, RefusesWhatIsNotFinite) {
  const std::vector<double> bad{0.5, std::numeric_limits<double>::quiet_NaN()};
  EXPECT_THROW(is_stable(bad), Error);
  EXPECT_THROW(poles(bad), Error);
  EXPECT_THROW(min_abs_denominator(bad, 8), Error);
  EXPECT_THROW(min_abs_denominator(std::vector<double>{0.5}, 0), Error);
  EXPECT_THROW(condition(bad, 8), Error);
  try {
    pole_radius(bad);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "[rtf::pole_radius] a[1] is nan; coefficients must be finite");
  }
}

// The random tests rest on this: in every band of orders most filters are well-conditioned even for float.
TEST(RandomFilters, MostAreWellConditioned) {
  constexpr std::array<std::array<std::size_t, 2>, 4> bands{{{1, 8}, {9, 64}, {65, 256}, {257, 600}}};
  RandomFilters random(10);
  for (const auto& [low, high] : bands) {
    const int count = 300;
    int well = 0, on_the_circle = 0;
    for (int i = 0; i < count; ++i) {
      const auto [channels, groups] = random.channels_and_groups(8);
      const TransferFunction tf = random.draw(channels, groups, random.integer(low, high));
      well += condition(tf, 5000) <= 1e2;
      on_the_circle += std::abs(tf.a.back()) == 1;
    }
    RecordProperty("share_" + std::to_string(high), std::to_string(well * 100 / count));
    EXPECT_GE(well, count * 8 / 10) << low << ".." << high;
    EXPECT_GT(on_the_circle, 0);
  }
}

TEST(RandomFilters, LengthsAreMixed) {
  RandomFilters random(11);
  int ones = 0, odd = 0, powers = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::size_t length = random.length(5000);
    ASSERT_GE(length, 1u);
    ASSERT_LE(length, 5000u);
    ones += length == 1;
    odd += length % 2;
    powers += (length & (length - 1)) == 0;
    EXPECT_EQ(random.length(1), 1u);
  }
  EXPECT_GT(ones, 10);
  EXPECT_GT(odd, 400);
  EXPECT_GT(powers, 100);
}

}  // namespace
}  // namespace rtf
