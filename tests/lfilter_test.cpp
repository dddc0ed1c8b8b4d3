#include "rtf/lfilter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "expect_refusal.h"
#include "random_filter.h"
#include "rtf/rtf.h"

namespace {

using rtf::TransferFunction;
using rtf::testing::expect_refusal;
using rtf::testing::RandomFilters;

// The transposed direct form as textbooks have it, one row, in long double; z goes in and comes out.
std::vector<long double> transposed(const std::vector<double>& b, const std::vector<double>& a,
                                    const std::vector<double>& u, std::vector<long double>& z) {
  const std::size_t n = z.size();
  const auto at = [](const std::vector<double>& v, std::size_t i) -> long double { return i < v.size() ? v[i] : 0.0; };
  std::vector<long double> y(u.size());
  for (std::size_t t = 0; t < u.size(); ++t) {
    y[t] = at(b, 0) / a[0] * u[t] + (n > 0 ? z[0] : 0.0L);
    for (std::size_t k = 0; k < n; ++k)
      z[k] = (k + 1 < n ? z[k + 1] : 0.0L) + (at(b, k + 1) * u[t] - at(a, k + 1) * y[t]) / a[0];
  }
  return y;
}

std::vector<double> times(double scale, std::vector<double> values) {
  for (double& value : values) value *= scale;
  return values;
}

TEST(Lfilter, IsTheTransposedDirectForm) {
  RandomFilters random(20);
  for (int round = 0; round < 200; ++round) {
    const std::size_t length = random.length(300), order = random.integer(0, std::min<std::size_t>(length + 4, 40));
    const std::size_t batch = random.integer(1, 3), taps = random.integer(1, 40), groups = random.integer(1, 2);
    const std::size_t channels = groups * random.integer(1, 3);
    const double scale = random.uniform(0.5, 2) * (random.chance(0.5) ? 1 : -1);
    std::vector<double> a, b = random.normals(channels * taps);
    const auto rests = times(scale, random.draw(groups, groups, order).a);
    for (std::size_t g = 0; g < groups; ++g) {
      a.push_back(scale);
      for (std::size_t k = 0; k < order; ++k) a.push_back(rests[g * order + k]);
    }
    const TransferFunction tf = rtf::from_ratios(b, a, channels, groups);
    ASSERT_EQ(tf.order, std::max(order, taps - 1));
    const auto u = random.normals(batch * channels * length), zi = random.normals(batch * channels * tf.order);
    std::vector<double> y(u.size()), zf(zi.size());
    const bool has_zi = random.chance(0.7);
    const double kappa = rtf::condition(tf, length);
    rtf::lfilter<double>(tf, rtf::length_last(u.data(), batch, channels, length),
                         rtf::length_last(y.data(), batch, channels, length),
                         has_zi ? std::span<const double>(zi) : std::span<const double>(), zf);
    for (std::size_t row = 0; row < batch * channels; ++row) {
      const std::size_t c = row % channels, g = c / (channels / groups);
      const auto part = [](const std::vector<double>& all, std::size_t i, std::size_t size) {
        return std::vector<double>(all.begin() + static_cast<std::ptrdiff_t>(i * size),
                                   all.begin() + static_cast<std::ptrdiff_t>((i + 1) * size));
      };
      const auto state = part(zi, row, tf.order);
      std::vector<long double> z(tf.order, 0);
      if (has_zi) z.assign(state.begin(), state.end());
      const auto wanted = transposed(part(b, c, taps), part(a, g, order + 1), part(u, row, length), z);
      long double largest = 1, weight = 0;  // the state is a sum over a y and b u
      for (const long double value : wanted) largest = std::max(largest, std::abs(value));
      for (const double value : part(b, c, taps)) weight += std::abs(value / scale);
      for (const double value : part(a, g, order + 1)) weight += std::abs(value / scale);
      const long double allowed = rtf::testing::accuracy_bound(kappa, false) * largest;
      for (std::size_t t = 0; t < length; ++t) EXPECT_NEAR(y[row * length + t], wanted[t], allowed) << round;
      for (std::size_t k = 0; k < tf.order; ++k) EXPECT_NEAR(zf[row * tf.order + k], z[k], weight * allowed) << round;
    }
  }
}

// (1 - r w)^4 with zeros near the pole, as a narrow high pass has, or none: 1/A reaches 1e6 and more, and a state that
// is off by a rounding of it would be all that is heard of the next block.
TEST(Lfilter, StatesOfNarrowFiltersHaveTheirDigits) {
  RandomFilters random(23);
  const std::size_t length = 300, blocks = 6;
  const double r = 0.99;
  const std::vector<double> a{1, -4 * r, 6 * r * r, -4 * r * r * r, r * r * r * r};
  const std::vector<double> low{1e-8, 0, 0, 0, 0}, high{1, -4, 6, -4, 1};
  for (const auto& b : {low, high}) {
    const TransferFunction tf = rtf::from_ratios(b, a, 1, 1);
    ASSERT_GT(rtf::condition(tf, length) * 0x1p-52, 1e-10);  // past it signals without states go by way of transforms
    std::vector<double> z(4, 0.0);
    std::vector<long double> exact_z(4, 0.0L);
    long double largest = 0, error = 0;
    for (std::size_t block = 0; block < blocks; ++block) {
      const auto u = random.normals(length);
      std::vector<double> y(length), zf(4);
      rtf::lfilter<double>(tf, rtf::length_last(u.data(), 1, 1, length), rtf::length_last(y.data(), 1, 1, length), z,
                           zf);
      const auto wanted = transposed(b, a, u, exact_z);
      for (std::size_t t = 0; t < length; ++t) {
        largest = std::max(largest, std::abs(wanted[t]));
        error = std::max(error, std::abs(wanted[t] - y[t]));
      }
      z = zf;
    }
    // One rounding of the largest state after another, through 1/A: no more than the bound for one run of all blocks.
    EXPECT_LE(error, 0x1p-52L * rtf::condition(tf, blocks * length) * largest);
  }
}

TEST(Lfilter, FloatSamplesHaveStatesInDouble) {
  RandomFilters random(21);
  const TransferFunction tf = random.draw(2, 1, 5);
  const std::size_t length = 60, cut = 23;
  std::vector<float> u(2 * length), whole(u.size());
  for (float& value : u) value = static_cast<float>(random.normal());
  std::vector<double> last(10), between(10), end(10);
  const auto in = rtf::length_last<const float>(u.data(), 1, 2, length);
  rtf::lfilter<float>(tf, in, rtf::length_last(whole.data(), 1, 2, length), {}, last);
  std::vector<float> parts(u.size());
  const auto out = rtf::length_last(parts.data(), 1, 2, length);
  auto first_in = in, second_in = in;
  auto first_out = out, second_out = out;
  first_in.length = first_out.length = cut;
  second_in.length = second_out.length = length - cut;
  second_in.data = in.at(0, cut, 0);
  second_out.data = out.at(0, cut, 0);
  rtf::lfilter<float>(tf, first_in, first_out, {}, between);
  rtf::lfilter<float>(tf, second_in, second_out, between, end);
  double scale = 1;
  for (const float value : whole) scale = std::max(scale, std::abs(static_cast<double>(value)));
  for (std::size_t i = 0; i < u.size(); ++i) EXPECT_NEAR(parts[i], whole[i], 1e-6 * scale);
  for (std::size_t i = 0; i < last.size(); ++i) EXPECT_NEAR(end[i], last[i], 1e-10 * scale);
}

// Filters that block a constant have b next to h0 a: every digit of the difference counts.
TEST(Lfilter, ProperPartsHaveAllTheirDigits) {
  RandomFilters random(22);
  for (int round = 0; round < 100; ++round) {
    const double scale = random.uniform(0.5, 2);
    std::vector<double> a = times(scale, random.normals(7)), b = times(0.8, a);
    for (double& value : b) value *= 1 + random.uniform(-1e-9, 1e-9);
    const TransferFunction tf = rtf::from_ratios(b, a, 1, 1);
    for (std::size_t k = 0; k < 6; ++k) {
      // The product has up to 106 bits, of which its error has what long double lacks.
      const double product = tf.h0[0] * a[k + 1], lost = std::fma(tf.h0[0], a[k + 1], -product);
      const long double exact = ((static_cast<long double>(b[k + 1]) - product) - lost) / a[0];
      EXPECT_NEAR(tf.b[k], exact, 0x1p-51 * std::abs(exact)) << round;
    }
  }
}

TEST(Lfilter, Refuses) {
  const std::vector<double> one{1}, two{1, 2}, zero{0, 1};
  expect_refusal("[rtf::lfilter] a_0 of denominator 0 is inf; it must be finite and not 0", [&] {
    rtf::from_ratios(two, std::vector<double>{HUGE_VAL, 1}, 1, 1);
  });
  expect_refusal("[rtf::lfilter] a_0 of denominator 0 is 0", [&] { rtf::from_ratios(two, zero, 1, 1); });
  expect_refusal("a has 0 numbers in 1 rows", [&] { rtf::from_ratios(two, {}, 1, 1); });
  expect_refusal("do not divide", [&] { rtf::from_ratios(std::vector<double>(3, 1.0), two, 3, 2); });
  const TransferFunction tf = rtf::from_ratios(one, two, 1, 1);
  std::vector<double> u(4), y(4), state(2);
  const auto in = rtf::length_last<const double>(u.data(), 1, 1, 4);
  const auto out = rtf::length_last(y.data(), 1, 1, 4);
  expect_refusal("zi has 2 values; 1 are needed", [&] { rtf::lfilter<double>(tf, in, out, state); });
  std::vector<double> longer(2000);
  const auto long_in = rtf::length_last<const double>(longer.data(), 1, 1, 2000);
  expect_refusal("[rtf::lfilter] over 2000 samples rounding may grow",
                 [&] { rtf::lfilter<double>(tf, long_in, rtf::length_last(longer.data(), 1, 1, 2000)); });
}

}  // namespace
