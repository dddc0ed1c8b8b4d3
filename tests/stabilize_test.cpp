#include "rtf/stabilize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "expect_refusal.h"
#include "random_filter.h"
#include "rtf/correction.h"
#include "rtf/error.h"
#include "rtf/kernel.h"
#include "rtf/response.h"
#include "rtf/stability.h"

namespace rtf {
namespace {

using testing::RandomFilters;

std::span<const double> denominator(const Coefficients& c, std::size_t group) {
  return std::span(c.a).subspan(group * c.order, c.order);
}

// Denominators drawn as ever, then all their poles scaled so that the largest has this modulus.
void set_radius(Coefficients& c, std::size_t group, double radius) {
  const double factor = radius / pole_radius(denominator(c, group));
  double power = 1;
  for (std::size_t k = 0; k < c.order; ++k) c.a[group * c.order + k] *= power *= factor;
}

// Some denominators outside the circle, some inside.
TransferFunction draw_unstable(RandomFilters& random, std::size_t order, double radius) {
  const auto [channels, groups] = random.channels_and_groups(4);
  TransferFunction tf = random.draw(channels, groups, order);
  for (std::size_t g = 0; g < groups; ++g)
    if (pole_radius(denominator(tf, g)) > 0 && (g == 0 || random.chance(0.6)))
      set_radius(tf, g, random.uniform(1 + (radius - 1) / 4, radius));
  return tf;
}

double l2_error(std::span<const double> x, std::span<const double> y) {
  long double difference = 0, whole = 0;
  for (std::size_t t = 0; t < y.size(); ++t) {
    difference += std::pow(static_cast<long double>(x[t]) - y[t], 2);
    whole += std::pow(static_cast<long double>(y[t]), 2);
  }
  return static_cast<double>(std::sqrt(difference / whole));
}

void expect_reported_errors(const std::vector<double>& errors, const std::vector<double>& kernel,
                            const std::vector<double>& wanted) {
  const std::size_t length = wanted.size() / errors.size();
  for (std::size_t c = 0; c < errors.size(); ++c)
    EXPECT_NEAR(errors[c],
                l2_error(std::span(kernel).subspan(c * length, length), std::span(wanted).subspan(c * length, length)),
                1e-9);
}

template <class Value>
void expect_untouched_where_stable(const Value& before, const Value& after) {
  const std::size_t n = before.order, members = before.channels / before.groups;
  for (std::size_t g = 0; g < before.groups; ++g) {
    EXPECT_TRUE(is_stable(denominator(after, g)));
    if (!is_stable(denominator(before, g))) continue;
    EXPECT_TRUE(std::ranges::equal(denominator(before, g), denominator(after, g)));
    const auto count = members * n;
    EXPECT_TRUE(std::ranges::equal(std::span(before.b).subspan(g * count, count),
                                   std::span(after.b).subspan(g * count, count)));
  }
}

TEST(Stabilize, ReflectKeepsTheMagnitude) {
  std::vector<double> angles;
  for (int i = 0; i < 1000; ++i) angles.push_back(std::numbers::pi * (i + 0.5) / 1000);
  RandomFilters random(1);
  int checked = 0;
  for (int trial = 0; trial < 100; ++trial) {
    const std::size_t order = random.integer(1, 64);
    const TransferFunction tf = draw_unstable(random, order, trial % 3 == 0 ? 1.5 : 1.05);
    SCOPED_TRACE(::testing::Message() << "trial " << trial << " order " << order);
    const auto result = stabilize(tf, StabilizeMethod::reflect, 50);
    expect_untouched_where_stable(tf, result.value);
    const auto before = frequency_response(tf, angles), after = frequency_response(result.value, angles);
    for (std::size_t c = 0; c < tf.channels; ++c) {
      double peak = 0, worst = 0;
      for (std::size_t i = 0; i < angles.size(); ++i) {
        const double x = std::abs(before[c * angles.size() + i]), y = std::abs(after[c * angles.size() + i]);
        peak = std::max(peak, x);
        worst = std::max(worst, std::abs(x - y));
      }
      // As the targets have it: the bound holds as it stands up to kappa = 1e6.
      const double kappa = condition(denominator(result.value, result.value.group_of(c)), 4000);
      EXPECT_LE(worst, 1e-9 * peak * std::max(1.0, kappa / 1e6)) << "kappa " << kappa;
      checked += kappa <= 1e6;
    }
  }
  EXPECT_GE(checked, 150);  // of about 250 channels
}

TEST(Stabilize, ReflectOfATrainedFilterKeepsTheMagnitudeOfItsSpectrum) {
  RandomFilters random(2);
  for (int trial = 0; trial < 20; ++trial) {
    const TrainedTransferFunction trained{draw_unstable(random, random.integer(1, 24), 1.02), random.length(300)};
    const auto result = stabilize(trained, StabilizeMethod::reflect);
    EXPECT_EQ(result.value.length, trained.length);
    std::vector<double> angles;
    for (std::size_t i = 0; i < trained.length; ++i)
      angles.push_back(2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(trained.length));
    const auto before = frequency_response(TransferFunction{trained}, angles);
    const auto after = frequency_response(TransferFunction{result.value}, angles);
    double peak = 0;
    for (const auto& value : before) peak = std::max(peak, std::abs(value));
    for (std::size_t i = 0; i < before.size(); ++i)
      EXPECT_NEAR(std::abs(before[i]), std::abs(after[i]),
                  1e-9 * peak * std::max(1.0, condition(TransferFunction{result.value}, 4000) / 1e6));
    expect_reported_errors(result.error, wrapped_kernel(result.value), wrapped_kernel(trained));
  }
}

TEST(Stabilize, RefitOfTrainedFiltersIsStableAndNoWorseThanReflect) {
  RandomFilters random(3);
  int better = 0, all = 0;
  for (int trial = 0; trial < 12; ++trial) {
    const TrainedTransferFunction trained{draw_unstable(random, random.integer(1, 24), 1.01), 1000};
    SCOPED_TRACE(::testing::Message() << "trial " << trial << " order " << trained.order);
    const auto result = stabilize(trained, StabilizeMethod::refit);
    expect_untouched_where_stable(trained, result.value);
    expect_reported_errors(result.error, wrapped_kernel(result.value), wrapped_kernel(trained));
    for (std::size_t c = 0; c < trained.channels; ++c) {
      EXPECT_LE(result.error[c], result.reflect_error[c]);
      if (is_stable(denominator(trained, trained.group_of(c)))) continue;
      better += result.error[c] < 0.9 * result.reflect_error[c];
      ++all;
    }
    // It can be streamed now.
    EXPECT_NO_THROW(correct(result.value));
  }
  EXPECT_GE(2 * better, all);
}

TEST(Stabilize, RefitAndMontelOfPlainFilters) {
  RandomFilters random(4);
  for (int trial = 0; trial < 20; ++trial) {
    const std::size_t length = random.integer(1, 200);
    const TransferFunction tf = draw_unstable(random, random.integer(1, 20), 1.02);
    SCOPED_TRACE(::testing::Message() << "trial " << trial << " order " << tf.order << " length " << length);
    for (const auto method : {StabilizeMethod::refit, StabilizeMethod::montel}) {
      const auto result = stabilize(tf, method, length);
      expect_reported_errors(result.error, exact_kernel(result.value, length), exact_kernel(tf, length));
      for (std::size_t g = 0; g < tf.groups; ++g) EXPECT_TRUE(is_stable(denominator(result.value, g)));
      for (std::size_t c = 0; c < tf.channels; ++c) {
        if (method == StabilizeMethod::refit) {
          EXPECT_LE(result.error[c], result.reflect_error[c]);
        }
        if (length <= tf.order) {
          EXPECT_LE(result.error[c], 1e-9);
        }
      }
      if (method == StabilizeMethod::refit) continue;
      for (std::size_t g = 0; g < tf.groups; ++g) {
        double before = 0, after = 0;
        for (const double value : denominator(tf, g)) before += std::abs(value);
        for (const double value : denominator(result.value, g)) after += std::abs(value);
        EXPECT_NEAR(after, std::min(before, montel_norm), 1e-12);
      }
    }
  }
}

TEST(Stabilize, RefitOfOneChannelIsNoWorseThanMontel) {
  RandomFilters random(5);
  for (int trial = 0; trial < 30; ++trial) {
    TransferFunction tf = random.draw(1, 1, random.integer(1, 12));
    if (!(pole_radius(tf.a) > 0)) continue;
    set_radius(tf, 0, random.uniform(1.005, 1.05));
    SCOPED_TRACE(::testing::Message() << "trial " << trial << " order " << tf.order);
    EXPECT_LE(stabilize(tf, StabilizeMethod::refit, 50).error[0],
              (1 + 1e-9) * stabilize(tf, StabilizeMethod::montel, 50).error[0] + 1e-12);
  }
  TransferFunction one = make_coefficients(1, 1, 1);
  one.a = {-1.01};
  one.b = {1.0};
  one.h0 = {1.0 / 1.01};
  EXPECT_LT(stabilize(one, StabilizeMethod::refit, 50).error[0], 0.14);
}

TEST(Stabilize, PolesOnTheCircle) {
  TransferFunction tf = make_coefficients(1, 1, 1);
  tf.a = {-1.0};
  tf.b = {1.0};
  testing::expect_refusal("pole on the unit circle", [&] { stabilize(tf, StabilizeMethod::reflect, 10); });
  TransferFunction twice = make_coefficients(1, 1, 2);
  twice.a = {-2.0, 1.0};
  testing::expect_refusal("pole on the unit circle", [&] { stabilize(twice, StabilizeMethod::reflect, 10); });
  twice.a = {-2 * std::cos(0.7), 1.0};
  testing::expect_refusal("pole on the unit circle", [&] { stabilize(twice, StabilizeMethod::reflect, 10); });
  const auto result = stabilize(tf, StabilizeMethod::refit, 10);
  EXPECT_TRUE(is_stable(result.value.a));
  EXPECT_LT(result.error[0], 0.1);
  EXPECT_TRUE(std::isinf(result.reflect_error[0]));
}

TEST(Stabilize, RefusesBadArguments) {
  TransferFunction tf = make_coefficients(1, 1, 1);
  tf.a = {-3.0};
  tf.b = {1.0};
  testing::expect_refusal("[rtf::stabilize] length is 0", [&] { stabilize(tf, StabilizeMethod::refit, 0); });
  testing::expect_refusal("overflows within 2000 samples", [&] { stabilize(tf, StabilizeMethod::refit, 2000); });
}

}  // namespace
}  // namespace rtf
