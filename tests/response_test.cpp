#include "rtf/response.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <limits>
#include <numbers>

#include "random_filter.h"
#include "rtf/error.h"
#include "rtf/executor.h"
#include "rtf/stability.h"
#include "temporary_folder.h"

namespace rtf {
namespace {

using Complex = std::complex<long double>;
constexpr double epsilon = std::numeric_limits<double>::epsilon();
using std::numbers::pi;

struct Reference {
  Complex A, N, A_slope, N_slope;

  Complex response() const { return N / A; }
  Complex log_slope() const { return N_slope / N - A_slope / A; }
  // What moving the point by the rounding of cos and sin may do to H, relative to it, beside the promised 1e-12.
  double tolerance() const {
    return static_cast<double>(2 * epsilon * (std::abs(N_slope / N) + std::abs(A_slope / A))) + 2e-12;
  }
};

// The definition, power by power in long double.
Reference reference(const TransferFunction& tf, std::size_t channel, double angle) {
  const CoefficientsView view(tf);
  Reference result{1, 0, 0, 0};
  for (std::size_t k = 1; k <= tf.order; ++k) {
    const Complex power = std::polar(1.0L, -static_cast<long double>(angle) * static_cast<long double>(k));
    const long double a = view.denominator(channel)[k - 1], b = view.numerator(channel)[k - 1];
    result.A += a * power;
    result.N += b * power;
    result.A_slope += a * static_cast<long double>(k) * power;
    result.N_slope += b * static_cast<long double>(k) * power;
  }
  result.N += static_cast<long double>(tf.h0[channel]) * result.A;
  result.N_slope += static_cast<long double>(tf.h0[channel]) * result.A_slope;
  return result;
}

TransferFunction one_channel(std::vector<double> a, std::vector<double> b, double h0) {
  auto tf = make_coefficients(1, 1, a.size());
  tf.a = std::move(a);
  tf.b = std::move(b);
  tf.h0 = {h0};
  return tf;
}

// Poles r e^{+-i angle}.
TransferFunction resonator(double r, double angle, double b1, double b2, double h0) {
  return one_channel({-2 * r * std::cos(angle), r * r}, {b1, b2}, h0);
}

std::vector<double> random_angles(testing::RandomFilters& random, std::size_t count) {
  std::vector<double> angles = {0, pi, -pi / 2, 7.5};
  while (angles.size() < count) angles.push_back(random.uniform(-pi, pi));
  return angles;
}

TEST(FrequencyResponse, IsTheDefinition) {
  testing::RandomFilters random(1);
  for (int round = 0; round < 60; ++round) {
    const auto [channels, groups] = random.channels_and_groups(6);
    const TransferFunction tf = random.draw(channels, groups, round < 4 ? round : random.integer(0, 300));
    const std::vector<double> angles = random_angles(random, random.integer(5, 200));
    const auto values = frequency_response(tf, angles);
    const auto delays = group_delay(tf, angles);
    ASSERT_EQ(values.size(), channels * angles.size());
    for (std::size_t c = 0; c < channels; ++c)
      for (std::size_t i = 0; i < angles.size(); ++i) {
        const Reference expected = reference(tf, c, angles[i]);
        // A comb of radius 1 has poles on the circle, where the answer hangs on the last bit of the angle.
        if (std::abs(expected.A) < 1e-9L) continue;
        const std::complex<double> value = values[c * angles.size() + i];
        EXPECT_LE(std::abs(Complex(value) - expected.response()), expected.tolerance() * std::abs(expected.response()))
            << "order " << tf.order << " angle " << angles[i];
        // The slopes lose what A and N lose, and have another factor of the order.
        const double allowed =
            expected.tolerance() * static_cast<double>(tf.order + 1) *
            static_cast<double>(1 + std::abs(expected.N_slope / expected.N) + std::abs(expected.A_slope / expected.A));
        EXPECT_NEAR(delays[c * angles.size() + i], static_cast<double>(expected.log_slope().real()), allowed);
      }
  }
}

TEST(FrequencyResponse, NextToAPoleNoDigitIsLostToCancellation) {
  // Six poles at 0.99: |A(1)| = 1e-12 while its coefficients are about 20.
  std::vector<double> a;
  for (const double c : {6.0, 15.0, 20.0, 15.0, 6.0, 1.0})
    a.push_back((a.size() % 2 == 0 ? -c : c) * std::pow(0.99, static_cast<double>(a.size() + 1)));
  const TransferFunction tf = one_channel(a, {1, 0, 0, 0, 0, 0}, 0.5);
  for (const double angle : {0.0, 1e-3, 0.01}) {
    const auto value = frequency_response(tf, std::vector{angle})[0];
    const Reference expected = reference(tf, 0, angle);
    // Of the long double reference 19 digits are left 7; ours has 32 to lose.
    EXPECT_LE(std::abs(Complex(value) - expected.response()), 1e-5 * std::abs(expected.response()));
  }
  // A(1) is a sum of doubles of one exponent range, exact in long double when added in pairs of near size.
  long double sum = 1;
  for (const double value : a) sum += value;
  EXPECT_NEAR(frequency_response(tf, std::vector{0.0})[0].real() / static_cast<double>(0.5L + 1 / sum), 1, 1e-6);
}

TEST(FrequencyResponse, PolesAndZerosOnTheCircle) {
  const TransferFunction pole = one_channel({-1}, {1}, 0), zero = one_channel({0}, {-1}, 1);
  EXPECT_TRUE(std::isinf(std::abs(frequency_response(pole, std::vector{0.0})[0])));
  EXPECT_TRUE(std::isnan(group_delay(pole, std::vector{0.0})[0]));
  EXPECT_EQ(frequency_response(zero, std::vector{0.0})[0], 0.0);
  EXPECT_TRUE(std::isnan(group_delay(zero, std::vector{0.0})[0]));
  EXPECT_EQ(test::error_of([&] {
              frequency_response(pole, std::vector{0.0, HUGE_VAL});
            }),
            "[rtf::frequency_response] angle 1 is inf; angles must be finite");
  EXPECT_TRUE(frequency_response(pole, {}).empty());
}

TEST(FrequencyResponse, AtMultiplesOfARightAnglePolesAreMet) {
  const std::complex<double> infinite = HUGE_VAL;
  EXPECT_EQ(frequency_response(one_channel({1}, {1}, 3), std::vector{pi})[0], infinite);
  EXPECT_EQ(frequency_response(one_channel({0, 1}, {1, 0}, 0), std::vector{pi / 2, 3 * pi / 2}),
            (std::vector{infinite, infinite}));
  EXPECT_EQ(frequency_response(one_channel({-0.5}, {1}, 0), std::vector{pi})[0].imag(), 0);
  // 1 / 1 with a pole and a zero there.
  EXPECT_TRUE(std::isnan(frequency_response(one_channel({1}, {0}, 1), std::vector{pi})[0].real()));
  // A small angle is what it is.
  EXPECT_NE(frequency_response(one_channel({-1}, {1}, 0), std::vector{1e-20})[0], infinite);
}

TEST(FrequencyResponse, OfAGainNextToTheLargestDouble) {
  const TransferFunction one = one_channel({-1.5, 0.7}, {1.25, 0.5}, 1);  // |N| is more than 3, |H| at pi less than 1
  const std::vector<double> angles{pi, 2.5, 2.0};
  TransferFunction tf = one;
  for (double& value : tf.b) value *= 0x1p1022;
  tf.h0[0] *= 0x1p1022;
  const auto expected = frequency_response(one, angles), actual = frequency_response(tf, angles);
  for (std::size_t i = 0; i < angles.size(); ++i)
    EXPECT_LE(std::abs(actual[i] * 0x1p-1022 - expected[i]), 1e-15 * std::abs(expected[i]));
  const auto delays = group_delay(tf, angles), of_one = group_delay(one, angles);
  for (std::size_t i = 0; i < angles.size(); ++i) EXPECT_NEAR(delays[i], of_one[i], 1e-14);
}

TEST(GroupDelay, OfADelay) {
  const TransferFunction tf = one_channel({0, 0, 0}, {0, 0, 2.5}, 0);
  for (const double delay : group_delay(tf, std::vector{0.0, 0.3, 3.0})) EXPECT_NEAR(delay, 3, 1e-14);
}

// The moving sum's zeros lie on the grid but for the rounding of its angles; its delay is (n - 1) / 2 everywhere else.
TEST(GroupDelay, NextToZerosOnTheCircle) {
  for (const std::size_t taps : {3, 8, 64, 100}) {
    TransferFunction sum = make_coefficients(1, 1, taps - 1);
    sum.b.assign(taps - 1, 1.0);
    sum.h0 = {1.0};
    const double wanted = static_cast<double>(taps - 1) / 2;
    std::size_t jumps = 0;
    for (const double delay : group_delay(sum, angle_grid(512, false))) {
      jumps += std::isnan(delay);
      if (!std::isnan(delay)) EXPECT_NEAR(delay, wanted, 1e-9);
    }
    EXPECT_LE(jumps, taps / 2);
  }
}

TEST(StepResponse, IsTheSumOfTheKernel) {
  testing::RandomFilters random(2);
  for (int round = 0; round < 100; ++round) {
    const auto [channels, groups] = random.channels_and_groups(4);
    const TransferFunction tf = random.draw(channels, groups, random.integer(0, 40));
    const std::size_t length = random.length(600);
    const auto response = step_response(tf, length);
    for (std::size_t c = 0; c < channels; ++c) {
      std::vector<long double> expected = testing::reference_kernel(tf, c, length);
      for (std::size_t t = 1; t < length; ++t) expected[t] += expected[t - 1];
      EXPECT_LE(testing::relative_error(std::span(response).subspan(c * length, length), expected),
                testing::accuracy_bound(condition(tf, length), false) * static_cast<double>(length));
    }
  }
  EXPECT_EQ(test::error_of([] { step_response(one_channel({-0.5}, {1}, 0), 0); }),
            "[rtf::step_response] length is 0; it must be at least 1");
}

// Stable filters whose kernel has died out after `length` samples.
TransferFunction draw_short(testing::RandomFilters& random, std::size_t order, std::size_t length) {
  for (;;) {
    TransferFunction tf = random.draw(1, 1, order);
    if (std::pow(pole_radius(tf.a), static_cast<double>(length)) < 1e-19) return tf;
  }
}

TEST(H2Norm, IsTheEnergyOfTheKernel) {
  testing::RandomFilters random(3);
  for (int round = 0; round < 100; ++round) {
    const TransferFunction tf = draw_short(random, random.integer(0, 80), 20000);
    long double energy = 0;
    for (const long double h : testing::reference_kernel(tf, 0, 20000)) energy += h * h;
    // In 106 bits up to the last step, so the condition number of the recurrence does not enter.
    EXPECT_NEAR(h2_norm(tf)[0] / static_cast<double>(std::sqrt(energy)), 1, 1e-13 * static_cast<double>(tf.order + 1))
        << "order " << tf.order;
  }
}

TEST(H2Norm, KnownValues) {
  EXPECT_EQ(h2_norm(one_channel({}, {}, -3))[0], 3);
  EXPECT_NEAR(h2_norm(one_channel({-0.6}, {2}, 0))[0], 2 / 0.8, 1e-15);
  // 1 - 2^-40 from the circle: 1 / (1 - r^2) to the last digits.
  const double r = 1 - 0x1p-40;
  EXPECT_NEAR(h2_norm(one_channel({-r}, {1}, 0))[0] / std::sqrt(1 / ((1 - r) * (1 + r))), 1, 1e-14);
  EXPECT_EQ(h2_norm(one_channel({-1}, {1}, 0))[0], HUGE_VAL);
  EXPECT_EQ(h2_norm(one_channel({-2}, {1}, 0))[0], HUGE_VAL);
  EXPECT_EQ(h2_norm(one_channel({-2}, {0}, 4))[0], 4);
}

// Singular values by one-sided Jacobi in long double.
std::vector<long double> singular_values(std::vector<std::vector<long double>> columns) {
  const std::size_t n = columns.size();
  const auto dot = [](const auto& x, const auto& y) {
    long double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
    return sum;
  };
  for (int sweep = 0; sweep < 30; ++sweep) {
    long double off = 0;
    for (std::size_t p = 0; p < n; ++p)
      for (std::size_t q = p + 1; q < n; ++q) {
        const long double x = dot(columns[p], columns[p]), y = dot(columns[q], columns[q]);
        const long double z = dot(columns[p], columns[q]);
        if (std::abs(z) <= 1e-19L * std::sqrt(x * y)) continue;
        off = std::max(off, std::abs(z) / std::sqrt(x * y));
        const long double theta = 0.5L * std::atan2(2 * z, x - y), c = std::cos(theta), s = std::sin(theta);
        for (std::size_t i = 0; i < columns[p].size(); ++i) {
          const long double u = columns[p][i], v = columns[q][i];
          columns[p][i] = c * u + s * v;
          columns[q][i] = c * v - s * u;
        }
      }
    if (off < 1e-18L) break;
  }
  std::vector<long double> values;
  for (const auto& column : columns) values.push_back(std::sqrt(dot(column, column)));
  std::sort(values.rbegin(), values.rend());
  return values;
}

TEST(HankelSingularValues, AreThoseOfTheHankelMatrix) {
  testing::RandomFilters random(4);
  constexpr std::size_t size = 100;
  for (int round = 0; round < 30; ++round) {
    const TransferFunction tf = draw_short(random, random.integer(1, 24), size);
    const auto h = testing::reference_kernel(tf, 0, 2 * size);
    std::vector<std::vector<long double>> hankel(size, std::vector<long double>(size));
    for (std::size_t i = 0; i < size; ++i)
      for (std::size_t j = 0; j < size; ++j) hankel[i][j] = h[i + j + 1];
    const auto expected = singular_values(hankel);
    const auto values = hankel_singular_values(tf);
    ASSERT_EQ(values.size(), tf.order);
    for (std::size_t i = 0; i < tf.order; ++i)
      EXPECT_NEAR(values[i], static_cast<double>(expected[i]), 1e-14 * 20 * static_cast<double>(expected[0]))
          << "order " << tf.order << " value " << i;
  }
}

TEST(HankelSingularValues, KnownValues) {
  // b w / (1 - r w): sigma = |b| / (1 - r^2). A delay of n: n ones.
  EXPECT_NEAR(hankel_singular_values(one_channel({-0.5}, {-3}, 7))[0], 4, 1e-15);
  for (const double value : hankel_singular_values(one_channel({0, 0, 0}, {0, 0, 1}, 0))) EXPECT_NEAR(value, 1, 1e-15);
  EXPECT_TRUE(hankel_singular_values(one_channel({}, {}, 2)).empty());
  EXPECT_EQ(hankel_singular_values(one_channel({-2}, {0}, 2)), std::vector{0.0});
  EXPECT_EQ(test::error_of([] { hankel_singular_values(one_channel({-1.5}, {1}, 0)); }),
            "[rtf::hankel_singular_values] channel 0 has poles up to radius 1.5; all must be inside the unit circle");
}

TEST(HInfinityNorm, IsAttainedAndNothingIsAbove) {
  testing::RandomFilters random(5);
  for (int round = 0; round < 150; ++round) {
    const auto [channels, groups] = random.channels_and_groups(3);
    const TransferFunction tf = random.draw(channels, groups, random.integer(1, 60));
    const auto peaks = h_infinity_norm(tf);
    std::vector<double> angles;
    for (int i = 0; i <= 20000; ++i) angles.push_back(pi * i / 20000);
    const auto grid = frequency_response(tf, angles);
    for (std::size_t c = 0; c < channels; ++c) {
      if (!is_stable({CoefficientsView(tf).denominator(c), tf.order})) {
        EXPECT_EQ(peaks[c].value, HUGE_VAL);
        EXPECT_TRUE(std::isnan(peaks[c].angle));
        continue;
      }
      EXPECT_GE(peaks[c].angle, 0);
      EXPECT_LE(peaks[c].angle, pi);
      const Reference attained = reference(tf, c, peaks[c].angle);
      EXPECT_NEAR(peaks[c].value / static_cast<double>(std::abs(attained.response())), 1, attained.tolerance());
      for (std::size_t i = 0; i < angles.size(); ++i)
        ASSERT_LE(std::abs(grid[c * angles.size() + i]), peaks[c].value * (1 + 1e-9)) << "angle " << angles[i];
    }
  }
}

TEST(HInfinityNorm, KnownValues) {
  EXPECT_EQ(h_infinity_norm(one_channel({}, {}, -3))[0].value, 3);
  const Peak low = h_infinity_norm(one_channel({-0.75}, {1}, 0))[0],
             high = h_infinity_norm(one_channel({0.75}, {1}, 0))[0];
  EXPECT_NEAR(low.value, 4, 1e-14);
  EXPECT_EQ(low.angle, 0);
  EXPECT_NEAR(high.value, 4, 1e-14);
  EXPECT_NEAR(high.angle, pi, 1e-15);
  EXPECT_EQ(h_infinity_norm(one_channel({-1}, {1}, 0))[0].value, HUGE_VAL);
  EXPECT_EQ(h_infinity_norm(one_channel({-1}, {0}, 2))[0].value, 2);
  // Allpass: (a2 + a1 w + w^2) / (1 + a1 w + a2 w^2) is 1 everywhere, a level set without crossings.
  const double a1 = -1.2, a2 = 0.81;
  EXPECT_NEAR(h_infinity_norm(one_channel({a1, a2}, {a1 - a2 * a1, 1 - a2 * a2}, a2))[0].value, 1, 1e-9);
}

TEST(HInfinityNorm, NarrowPeaks) {
  // 1 / (1 - 2 r cos(t) w + r^2 w^2) peaks at cos = (1 + r^2) cos(t) / (2 r) with 1 / ((1 - r^2) |sin t|).
  testing::RandomFilters random(6);
  for (const double gap : {1e-2, 1e-4, 1e-6, 1e-8, 1e-10}) {
    for (int round = 0; round < 10; ++round) {
      const double r = 1 - gap, angle = random.uniform(0.3, pi - 0.3);
      const TransferFunction tf = resonator(r, angle, 2 * r * std::cos(angle), -r * r, 1);  // N = 1
      const double a1 = tf.a[0], a2 = tf.a[1];
      // From the coefficients as they are rounded: the largest 1/|A|, |A|^2 a parabola in cos.
      const long double gap2 = 1 - static_cast<long double>(a2);
      const long double value =
          1 / (gap2 * std::sqrt(1 - static_cast<long double>(a1) * a1 / (4 * static_cast<long double>(a2))));
      const Peak peak = h_infinity_norm(tf)[0];
      // The rounding of the angle moves A by 2^-53 beside a gap this wide.
      EXPECT_NEAR(peak.value / static_cast<double>(value), 1, 1e-9 + 4 * epsilon / gap) << gap << " " << angle;
    }
  }
}

TEST(HInfinityNorm, GainsWhoseSquaresAreNoDoubles) {
  for (const double gain : {0x1p530, 0x1p1000, 0x1p-530, 0x1p-1000}) {
    const TransferFunction one = resonator(0.9, 1, 1, 0.4, 0.3);
    TransferFunction tf = one;
    for (double& value : tf.b) value *= gain;
    tf.h0[0] *= gain;
    const Peak expected = h_infinity_norm(one)[0], actual = h_infinity_norm(tf)[0];
    EXPECT_EQ(actual.value, expected.value * gain);
    EXPECT_EQ(actual.angle, expected.angle);
  }
}

TEST(Response, ThreadsChangeNothing) {
  const TransferFunction tf = testing::RandomFilters(7).draw(12, 4, 20);
  std::vector<double> angles;
  for (int i = 0; i < 300; ++i) angles.push_back(0.01 * i);
  const std::size_t before = threads();
  set_threads(1);
  const auto h = frequency_response(tf, angles);
  const auto norms = h2_norm(tf);
  const auto peaks = h_infinity_norm(tf);
  set_threads(3);
  EXPECT_EQ(frequency_response(tf, angles), h);
  EXPECT_EQ(h2_norm(tf), norms);
  for (std::size_t c = 0; c < peaks.size(); ++c) EXPECT_EQ(h_infinity_norm(tf)[c].value, peaks[c].value);
  set_threads(before);
}

}  // namespace
}  // namespace rtf
