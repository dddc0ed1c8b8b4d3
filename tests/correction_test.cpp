#include "rtf/correction.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "expect_refusal.h"
#include "random_filter.h"
#include "rtf/rtf.h"

namespace {

using rtf::Coefficients;
using rtf::TrainedTransferFunction;
using rtf::TransferFunction;
using rtf::testing::RandomFilters;

// A filter whose largest pole has this radius.
TransferFunction with_radius(RandomFilters& random, std::size_t channels, std::size_t order, double radius) {
  TransferFunction tf = random.draw(channels, 1, order);
  tf.a = random.by_reflection(order, false);
  const double scale = radius / rtf::pole_radius(tf.a);
  double power = 1;
  for (double& a : tf.a) a *= power *= scale;
  return tf;
}

double largest(const std::vector<double>& values) {
  double most = 0;
  for (const double value : values) most = std::max(most, std::abs(value));
  return most;
}

double difference(const std::vector<double>& x, const std::vector<double>& y) {
  double most = 0;
  for (std::size_t i = 0; i < x.size(); ++i) most = std::max(most, std::abs(x[i] - y[i]));
  return most;
}

// Both round trips and the kernel, each relative to the largest value it is made of.
void check(const TransferFunction& tf, std::size_t length, double bound) {
  const TrainedTransferFunction trained = rtf::wrap(tf, length);
  const TransferFunction back = rtf::correct(trained);
  const auto exact = rtf::exact_kernel(tf, length, rtf::KernelMethod::recurrence);
  const double scale = std::max({largest(exact), largest(tf.b), largest(tf.h0)});
  EXPECT_LE(difference(rtf::wrapped_kernel(trained), exact), bound * scale);
  EXPECT_LE(difference(back.b, tf.b), bound * scale);
  EXPECT_LE(difference(back.h0, tf.h0), bound * scale);

  TrainedTransferFunction other;
  static_cast<Coefficients&>(other) = tf;
  other.length = length;
  const TransferFunction corrected = rtf::correct(other);
  const auto wrapped = rtf::wrapped_kernel(other);
  const auto response = rtf::exact_kernel(corrected, length, rtf::KernelMethod::recurrence);
  const double size = std::max({largest(wrapped), largest(other.b), largest(other.h0)});
  EXPECT_LE(difference(wrapped, response), bound * size);
  const TrainedTransferFunction again = rtf::wrap(corrected, length);
  EXPECT_LE(difference(again.b, other.b), bound * size);
  EXPECT_LE(difference(again.h0, other.h0), bound * size);
}

TEST(Correction, RoundTripsForPolesUpToTheCircle) {
  RandomFilters random(11);
  for (const double radius : {0.3, 0.9, 0.99, 0.999, 1.0})
    for (int i = 0; i < 30; ++i) {
      const std::size_t order = random.integer(1, 64), length = random.length(1500);
      SCOPED_TRACE(testing::Message() << "radius " << radius << ", order " << order << ", length " << length);
      const TransferFunction tf = with_radius(random, 2, order, radius);
      const double circle = rtf::min_abs_denominator(tf.a, length);
      if (circle < 1e-4) continue;  // a pole next to a root of unity: Algorithm 1 divides by |A|
      check(tf, length, rtf::testing::accuracy_bound(rtf::condition(tf, length), false));
    }
}

TEST(Correction, RoundTripsOutsideTheCircle) {
  RandomFilters random(12);
  constexpr double epsilon = std::numeric_limits<double>::epsilon();
  for (int i = 0; i < 60; ++i) {
    const std::size_t order = random.integer(1, 64);
    const TransferFunction tf = with_radius(random, 2, order, 1.01);
    const double kappa = rtf::condition(tf, 200);
    SCOPED_TRACE(testing::Message() << "order " << order << ", kappa " << kappa);
    check(tf, 200, 100 * epsilon * kappa * std::pow(1.01, 200));
  }
}

TEST(Correction, RefusesInItsOwnName) {
  TransferFunction tf = rtf::make_coefficients(1, 1, 1);
  tf.a = {std::nan("")};
  TrainedTransferFunction trained;
  static_cast<Coefficients&>(trained) = tf;
  trained.length = 8;
  rtf::testing::expect_refusal("[rtf::correct] a[0][0] is nan", [&] { rtf::correct(trained); });
  rtf::testing::expect_refusal("[rtf::wrap] a[0][0] is nan", [&] { rtf::wrap(tf, 8); });
}

TEST(Correction, RefusesLengthsThatNoMemoryHolds) {
  constexpr std::size_t length = std::size_t{1} << 53;  // times as many channels it is no std::size_t
  const TransferFunction tf = rtf::make_coefficients(2048, 1, 1);
  rtf::testing::expect_refusal("[rtf::wrap] a kernel of 9007199254740994 samples needs at least",
                               [&] { rtf::wrap(tf, length); });
  TrainedTransferFunction trained;
  static_cast<Coefficients&>(trained) = tf;
  trained.length = length;
  rtf::testing::expect_refusal("[rtf::correct] a kernel of 9007199254740992 samples", [&] { rtf::correct(trained); });
}

TEST(Correction, RefusesPolesOnRootsOfUnity) {
  TransferFunction tf = rtf::make_coefficients(1, 1, 1);
  tf.a = {1.0};  // a pole at -1, and (-1)^8 = 1
  tf.b = {1.0};
  rtf::testing::expect_refusal("[rtf::wrap] denominator 0 vanishes", [&] { rtf::wrap(tf, 8); });
  EXPECT_NO_THROW(rtf::wrap(tf, 7));
}

TEST(Correction, RefusesWhatRoundingWouldDrown) {
  TransferFunction tf = rtf::make_coefficients(1, 1, 1);
  tf.a = {-1.5};
  tf.b = {1.0};
  TrainedTransferFunction trained;
  static_cast<Coefficients&>(trained) = tf;
  trained.length = 200;
  EXPECT_NO_THROW(rtf::wrapped_kernel(trained));  // Algorithm 1 itself stays bounded
  const std::function<void()> calls[] = {[&] { rtf::correct(trained); }, [&] { rtf::wrap(tf, 200); },
                                         [&] { rtf::FilterPlan<double>(tf, 1, 200, {rtf::FilterMethod::recurrence}); }};
  for (const auto& refused : calls) {
    try {
      refused();
      FAIL();
    } catch (const rtf::Error& error) {
      EXPECT_EQ(error.code(), rtf::ErrorCode::unstable) << error.what();
    }
  }
}

TEST(Correction, OrdersPastTheLength) {
  RandomFilters random(13);
  for (int i = 0; i < 60; ++i) {
    const std::size_t length = random.integer(1, 12), order = length + random.integer(0, 40);
    TransferFunction tf = random.draw(2, 1, order);
    tf.a = random.by_montel(order, false);
    SCOPED_TRACE(testing::Message() << "order " << order << ", length " << length);
    check(tf, length, 1e-10);
  }
}

TEST(Correction, SolvesTheMatrixEquationOfTheTruncation) {
  // C (I - A^L) = b~ with A the companion matrix, by L matrix products.
  RandomFilters random(14);
  for (int i = 0; i < 20; ++i) {
    const std::size_t n = random.integer(1, 7), length = random.integer(1, 30);
    TrainedTransferFunction trained;
    static_cast<Coefficients&>(trained) = random.draw(1, 1, n);
    trained.a = random.by_montel(n, false);
    trained.length = length;
    const TransferFunction tf = rtf::correct(trained);
    const rtf::StateSpace ss = rtf::to_state_space(tf, 0);
    std::vector<double> row = ss.C;
    for (std::size_t step = 0; step < length; ++step) {
      std::vector<double> next(n, 0.0);
      for (std::size_t p = 0; p < n; ++p)
        for (std::size_t q = 0; q < n; ++q) next[q] += row[p] * ss.A[p * n + q];
      row = next;
    }
    for (std::size_t k = 0; k < n; ++k) EXPECT_NEAR(ss.C[k] - row[k], trained.b[k], 1e-12);
  }
}

}  // namespace
