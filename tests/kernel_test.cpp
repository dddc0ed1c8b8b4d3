#include "rtf/kernel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>

#include "random_filter.h"
#include "rtf/rtf.h"

namespace {

using rtf::KernelMethod;
using rtf::TransferFunction;
using rtf::testing::RandomFilters;

constexpr KernelMethod every_method[] = {KernelMethod::automatic, KernelMethod::recurrence, KernelMethod::division,
                                         KernelMethod::newton};

TransferFunction single(std::vector<double> a, std::vector<double> b, double h0) {
  TransferFunction tf = rtf::make_coefficients(1, 1, a.size());
  tf.a = std::move(a);
  tf.b = std::move(b);
  tf.h0 = {h0};
  return tf;
}

TEST(ExactKernel, OnePoleIsAGeometricSeries) {
  for (const auto method : every_method) {
    const auto k = rtf::exact_kernel(single({-0.5}, {1.0}, 2.0), 6, method);
    EXPECT_EQ(k, (std::vector<double>{2, 1, 0.5, 0.25, 0.125, 0.0625}));
  }
}

// Poles close together, as narrow filters have them: a channel that runs alone must lose no more than one of many.
TEST(ExactKernel, AChannelAloneLosesNoMoreThanOneOfMany) {
  constexpr std::size_t length = 600;
  for (const std::size_t order : {2, 4, 6, 8}) {
    constexpr long double pole = 0.9375L;  // its powers are exact
    std::vector<double> a(order), b(order, 0.0);
    long double binomial = 1, power = 1;
    for (std::size_t k = 1; k <= order; ++k) {
      binomial *= static_cast<long double>(order - k + 1) / static_cast<long double>(k);
      power *= -pole;
      a[k - 1] = static_cast<double>(binomial * power);
    }
    b[0] = 1;
    const TransferFunction alone = single(a, b, 0.0);
    const auto k = rtf::exact_kernel(alone, length, KernelMethod::recurrence);
    const double kappa = rtf::condition(alone, length);
    double largest = 0;
    std::vector<double> expected(length, 0.0);
    long double value = 1;  // binomial(t + order - 2, order - 1) pole^(t - 1)
    for (std::size_t t = 1; t < length; ++t) {
      expected[t] = static_cast<double>(value);
      largest = std::max(largest, std::abs(expected[t]));
      value *= pole * static_cast<long double>(t + order - 1) / static_cast<long double>(t);
    }
    for (std::size_t t = 0; t < length; ++t)
      EXPECT_NEAR(k[t], expected[t], std::numeric_limits<double>::epsilon() * kappa * largest) << order << " " << t;
  }
}

// Newton's steps diverge where 1/A is large; beyond order 256 they are what is tried first.
TEST(ExactKernel, ALongDelayBeforeSlowPolesIsTheShortFilterDelayed) {
  constexpr std::size_t delay = 300, length = 2000;
  // (1 - 0.9375 w)^5
  const std::vector<double> slow = {-4.6875, 8.7890625, -8.23974609375, 3.8623809814453125, -0.72419643402099609375};
  std::vector<double> a(delay + 5, 0.0), b(delay + 5, 0.0);
  std::copy(slow.begin(), slow.end(), a.begin());
  b[delay] = 1e-6;
  const auto delayed = rtf::exact_kernel(single(a, b, 0.0), length);
  const auto direct = rtf::exact_kernel(single(slow, {1e-6, 0, 0, 0, 0}, 0.0), length - delay);
  const double largest = *std::max_element(direct.begin(), direct.end());
  const double bound = std::numeric_limits<double>::epsilon() * rtf::condition(slow, length) * largest;
  for (std::size_t t = 1; t < length - delay; ++t) EXPECT_NEAR(delayed[t + delay], direct[t], bound) << t;
}

TEST(ExactKernel, FirAndDelayAreExact) {
  RandomFilters random(1);
  const std::vector<double> taps = random.normals(8);
  for (const auto method : every_method) {
    const auto k = rtf::exact_kernel(rtf::from_fir(taps, 1), 12, method);
    for (std::size_t t = 0; t < 12; ++t) EXPECT_EQ(k[t], t < 8 ? taps[t] : 0.0);
    const auto delay = rtf::exact_kernel(single({0, 0, 0}, {0, 0, 1}, 0), 5, method);
    EXPECT_EQ(delay, (std::vector<double>{0, 0, 0, 1, 0}));
  }
}

TEST(ExactKernel, OrderZeroIsAGain) {
  for (const auto method : every_method)
    EXPECT_EQ(rtf::exact_kernel(single({}, {}, 3.0), 4, method), (std::vector<double>{3, 0, 0, 0}));
}

TEST(ExactSpectrum, IsTheTransformOfThePaddedKernel) {
  RandomFilters random(2);
  for (int i = 0; i < 60; ++i) {
    const std::size_t order = random.integer(0, 40), length = random.length(90);
    TransferFunction tf = rtf::make_coefficients(2, 1, order);
    tf.a = random.by_montel(order, false);
    tf.b = random.normals(2 * order);
    const auto spectrum = rtf::exact_spectrum(tf, length);
    for (std::size_t c = 0; c < 2; ++c) {
      const auto h = rtf::testing::reference_kernel(tf, c, length);
      long double size = 0;
      for (const long double value : h) size += std::abs(value);
      for (std::size_t k = 0; k <= length; ++k) {
        std::complex<long double> sum = 0;
        for (std::size_t t = 0; t < length; ++t)
          sum += h[t] * std::polar(1.0L, -std::acos(-1.0L) * static_cast<long double>(k * t % (2 * length)) /
                                             static_cast<long double>(length));
        const std::complex<long double> got(spectrum[c * (length + 1) + k]);
        EXPECT_LE(static_cast<double>(std::abs(got - sum) / size), 1e-12) << order << " " << length;
      }
    }
  }
}

TEST(WrappedKernel, IsThePeriodizedResponseWithTheLastLagOnTheFirstSample) {
  // One pole: k_t = r~ l^{t-1} / (1 - l^L), and lag L folds onto k_0.
  for (const std::size_t length : {1, 2, 3, 7, 8, 31}) {
    rtf::TrainedTransferFunction trained = rtf::make_coefficients<rtf::TrainedTransferFunction>(1, 1, 1);
    trained.a = {-0.9};
    trained.b = {2.0};
    trained.h0 = {0.25};
    trained.length = length;
    const auto k = rtf::wrapped_kernel(trained);
    const double scale = 2.0 / (1 - std::pow(0.9, length));
    EXPECT_NEAR(k[0], 0.25 + scale * std::pow(0.9, length - 1), 1e-13 * scale);
    for (std::size_t t = 1; t < length; ++t) EXPECT_NEAR(k[t], scale * std::pow(0.9, t - 1), 1e-13 * scale);
  }
}

TEST(WrappedKernel, FoldsOrdersPastTheLength) {
  RandomFilters random(3);
  for (int i = 0; i < 40; ++i) {
    const std::size_t length = random.integer(1, 12), order = length + random.integer(0, 20);
    rtf::TrainedTransferFunction trained = rtf::make_coefficients<rtf::TrainedTransferFunction>(1, 1, order);
    trained.a = random.by_montel(order, false);
    trained.b = random.normals(order);
    trained.length = length;
    const auto k = rtf::wrapped_kernel(trained);
    for (std::size_t bin = 0; bin < length; ++bin) {
      const auto value = [&](const std::vector<double>& c, double leading) {
        std::complex<double> sum = leading;
        for (std::size_t j = 1; j <= order; ++j)
          sum += c[j - 1] * std::polar(1.0, -2 * std::acos(-1.0) * static_cast<double>(bin * j % length) /
                                                static_cast<double>(length));
        return sum;
      };
      std::complex<double> got = 0;
      for (std::size_t t = 0; t < length; ++t)
        got += k[t] * std::polar(1.0, -2 * std::acos(-1.0) * static_cast<double>(bin * t % length) /
                                          static_cast<double>(length));
      EXPECT_LE(std::abs(got - value(trained.b, 0) / value(trained.a, 1) - trained.h0[0]), 1e-11);
    }
  }
}

TEST(WrappedKernel, RefusesAPoleOnARootOfUnity) {
  rtf::TrainedTransferFunction trained = rtf::make_coefficients<rtf::TrainedTransferFunction>(1, 1, 1);
  trained.a = {-1.0};
  trained.b = {1.0};
  for (const std::size_t length : {1, 2, 15, 64, 1000}) {
    trained.length = length;
    try {
      rtf::wrapped_kernel(trained);
      FAIL() << length;
    } catch (const rtf::Error& error) {
      EXPECT_EQ(error.code(), rtf::ErrorCode::unstable);
      EXPECT_NE(std::string(error.what()).find("[rtf::wrapped_kernel]"), std::string::npos);
    }
  }
}

TEST(ExactKernel, RefusesAResponseThatOverflows) {
  for (const auto method : every_method) {
    EXPECT_NO_THROW(rtf::exact_kernel(single({-1.5}, {1.0}, 0.0), 1000, method));
    EXPECT_THROW(rtf::exact_kernel(single({-1.5}, {1.0}, 0.0), 3000, method), rtf::Error);
  }
}

TEST(ExactSpectrum, RefusesAPoleOnARootOfUnity) {
  EXPECT_THROW(rtf::exact_spectrum(single({-1.0}, {1.0}, 0.0), 4), rtf::Error);
}

TEST(WrappedKernel, RefusesCoefficientsThatOverflow) {
  auto trained = rtf::make_coefficients<rtf::TrainedTransferFunction>(1, 1, 1);
  trained.a = {1e160};
  trained.b = {1e160};
  trained.length = 8;
  EXPECT_THROW(rtf::wrapped_kernel(trained), rtf::Error);
}

TEST(Kernel, PastTheTrainedLengthIsRefusedLikeTheRecurrence) {
  auto trained = rtf::make_coefficients<rtf::TrainedTransferFunction>(1, 1, 1);
  trained.a = {-1.01};
  trained.b = {1.0};
  trained.length = 200;
  EXPECT_NO_THROW(rtf::kernel(trained, 300));
  EXPECT_THROW(rtf::kernel(trained, 4000), rtf::Error);
}

TEST(WrappedKernel, FloatIsTheRoundedDouble) {
  RandomFilters random(4);
  rtf::TrainedTransferFunction trained;
  static_cast<rtf::Coefficients&>(trained) = random.draw(21, 7, 10);
  trained.length = 101;
  const auto exact = rtf::wrapped_kernel(trained);
  const rtf::WrappedKernelPlan plan(21, 7, 10, 101);
  std::vector<std::byte> workspace(plan.workspace_bytes(rtf::default_executor()));
  std::vector<float> rounded(exact.size());
  rtf::wrapped_kernel<float>(plan, trained, rounded, workspace, rtf::default_executor());
  for (std::size_t i = 0; i < exact.size(); ++i) EXPECT_EQ(rounded[i], static_cast<float>(exact[i]));
}

TEST(Kernel, OfATrainedFilterContinuesPastItsLength) {
  RandomFilters random(5);
  rtf::TrainedTransferFunction trained;
  static_cast<rtf::Coefficients&>(trained) = random.draw(3, 3, 6);
  trained.length = 20;
  const auto wrapped = rtf::wrapped_kernel(trained), shorter = rtf::kernel(trained, 11),
             longer = rtf::kernel(trained, 50);
  const auto exact = rtf::exact_kernel(rtf::correct(trained), 50);
  for (std::size_t c = 0; c < 3; ++c) {
    for (std::size_t t = 0; t < 11; ++t) EXPECT_EQ(shorter[c * 11 + t], wrapped[c * 20 + t]);
    for (std::size_t t = 0; t < 20; ++t) EXPECT_EQ(longer[c * 50 + t], wrapped[c * 20 + t]);
    for (std::size_t t = 20; t < 50; ++t) EXPECT_EQ(longer[c * 50 + t], exact[c * 50 + t]);
  }
}

}  // namespace
