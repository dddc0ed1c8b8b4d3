#include "rtf/cascade.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "expect_refusal.h"
#include "form_oracle.h"
#include "rtf/response.h"
#include "rtf/workspace.h"

namespace rtf {
namespace {

using namespace testing;

std::vector<double> filtered(const Cascade& cascade, std::vector<double> samples, FilterMethod method) {
  const CascadePlan<double> plan(cascade, 1, samples.size() / cascade.channels(), {method});
  Executor& executor = default_executor();
  const Workspace workspace(plan.workspace_bytes(executor));
  filter(plan, channels_last(samples.data(), 1, plan.length, plan.channels), {}, {}, workspace, executor);
  return samples;
}

TEST(Cascade, OfATransferFunctionIsThatFunction) {
  RandomFilters random(1);
  const TransferFunction tf = random.draw(3, 1, 7);
  const Cascade cascade = to_cascade(tf);
  EXPECT_EQ(cascade.channels(), 3u);
  EXPECT_EQ(cascade.order(), 7u);
  const std::vector<double> angles = {0, 0.1, 1, 3, std::numbers::pi};
  EXPECT_EQ(frequency_response(cascade, angles), frequency_response(tf, angles));
  EXPECT_EQ(group_delay(cascade, angles), group_delay(tf, angles));
  const std::vector<double> samples = random.normals(3 * 200);
  std::vector<double> expected = samples;
  const auto signal = channels_last(expected.data(), 1, 200, 3);
  filter<double>(tf, signal, signal, {}, {}, FilterMethod::recurrence);
  EXPECT_EQ(filtered(cascade, samples, FilterMethod::recurrence), expected);
}

TEST(Cascade, OfNarrowFiltersHasTheirKernel) {
  constexpr std::size_t length = 400;
  for (const auto& [order, cutoff] : {std::pair<std::size_t, double>{5, 0.1}, {12, 0.02}, {13, 0.05}, {24, 0.05}}) {
    ZeroPoleGain zpk = narrow(order, cutoff);
    for (const double h0 : {0.0, 0.5}) {
      zpk.h0 = h0;
      std::vector<System> channels = {zpk};
      if (h0 == 0) channels.push_back(to_sections(zpk).value);
      const Cascade cascade = to_cascade(channels);
      EXPECT_TRUE(is_stable(cascade, 0));
      EXPECT_EQ(cascade.order(), order);
      std::vector<double> impulse(length * channels.size());
      for (std::size_t c = 0; c < channels.size(); ++c) impulse[c] = 1;
      const std::vector<Wide> expected = oracle(zpk, length);
      for (const FilterMethod method : {FilterMethod::automatic, FilterMethod::block}) {
        const std::vector<double> y = filtered(cascade, impulse, method);
        for (std::size_t c = 0; c < channels.size(); ++c) {
          std::vector<Wide> kernel;
          for (std::size_t t = 0; t < length; ++t) kernel.push_back(y[t * channels.size() + c]);
          EXPECT_LE(difference(kernel, expected), 1e-12) << order << " " << name(method);
        }
      }
    }
  }
}

TEST(Cascade, OfPolesAroundTheCircleDoesNotAmplifyAndCancel) {
  constexpr std::size_t order = 128, length = 1000;
  ZeroPoleGain comb{{}, {}, 1, 0};
  for (std::size_t i = 0; i < order / 2; ++i) {
    const double angle = 2 * std::numbers::pi * (static_cast<double>(i) + 0.5) / order;
    for (const double sign : {1.0, -1.0}) comb.poles.push_back(std::polar(0.99, sign * angle));
  }
  std::vector<double> impulse(length);
  impulse[0] = 1;
  const std::vector<double> y = filtered(to_cascade(std::vector<System>{comb}), impulse, FilterMethod::automatic);
  for (std::size_t t = 0; t < length; ++t) {
    const double turns = static_cast<double>(t) / order - 1;
    const bool tooth = t >= order && t % order == 0;
    const double sign = static_cast<int>(turns) % 2 == 0 ? 1 : -1;
    EXPECT_NEAR(y[t], tooth ? sign * std::pow(0.99, turns * order) : 0, 1e-11) << t;
  }
}

// Noise convolved with the kernel of 106 bits; errors far above the last digit of a double are looked for.
double error_of_noise(const Cascade& cascade, std::span<const double> kernel, std::uint64_t seed, FilterMethod method) {
  RandomFilters random(seed);
  const std::vector<double> noise = random.normals(kernel.size());
  const std::vector<double> y = filtered(cascade, noise, method);
  double error = 0, largest = 0;
  for (std::size_t t = 0; t < y.size(); ++t) {
    long double sum = 0;
    for (std::size_t s = 0; s <= t; ++s) sum += static_cast<long double>(kernel[s]) * noise[t - s];
    error = std::max(error, static_cast<double>(std::abs(y[t] - sum)));
    largest = std::max(largest, static_cast<double>(std::abs(sum)));
  }
  return error / largest;
}

TEST(Cascade, RoundingIsEstimatedToAFactorOfFour) {
  RandomFilters random(3);
  std::vector<TransferFunction> filters;
  for (const auto& [order, cutoff] :
       {std::pair<std::size_t, double>{4, 0.01}, {5, 0.02}, {7, 0.02}, {8, 0.05}, {10, 0.05}, {12, 0.1}, {14, 0.1}}) {
    ZeroPoleGain zpk = narrow(order, cutoff);
    filters.push_back(to_transfer_function(zpk).value);
    zpk.zeros.assign(order, 1.0);  // high-pass: the numerator cancels what 1/A amplifies
    filters.push_back(to_transfer_function(zpk).value);
    zpk.zeros.assign(order, 0.5);
    filters.push_back(to_transfer_function(zpk).value);
  }
  for (std::size_t i = 0; i < 20; ++i) filters.push_back(random.draw(1, 1, 2 + 3 * i));
  std::size_t past = 0;
  for (std::size_t i = 0; i < filters.size(); ++i) {
    const std::size_t length = i % 8 == 0 ? 9000 : 1500;  // beyond the samples that are measured, and within
    const Cascade cascade = to_cascade(filters[i]);
    const std::vector<double> exact = kernel(System(filters[i]), length);
    for (const FilterMethod method : {FilterMethod::recurrence, FilterMethod::fft}) {
      const double estimate = CascadePlan<double>(cascade, 1, length, {method}).rounding_estimate();
      const double error = error_of_noise(cascade, exact, 100 + i, method);
      EXPECT_LE(error, 4 * std::max(estimate, 1e-10)) << i << ' ' << name(method);
      if (estimate > 1e-10) {
        EXPECT_GE(error, estimate / 4) << i << ' ' << name(method);
      }
      past += estimate > 1e-10;
    }
  }
  EXPECT_GE(past, 20u);
}

TEST(Cascade, HarmlessSectionsDoNotWarn) {
  // Poles next to 1 and zeros at 1: each section alone has a condition number of 1e6 and loses nothing.
  ZeroPoleGain zpk = narrow(4, 20.0 / 24000);
  zpk.zeros.assign(4, 1.0);
  zpk.gain = 1;
  const Cascade cascade = to_cascade(std::vector<System>{zpk});
  ASSERT_EQ(cascade.stages.size(), 2u);
  const CascadePlan<double> plan(cascade, 1, 5000, {FilterMethod::recurrence});
  EXPECT_NE(plan.stages[0].warning() + plan.stages[1].warning(), "");
  EXPECT_LT(plan.rounding_estimate(), 1e-11);
  EXPECT_EQ(plan.warning(), "");
}

TEST(Cascade, WithAStageThatIsZeroThereIsAPhaseBesideIt) {
  // 2 + (1 + w) / 2 at pi: H is 2, and of the simple zero the slope is w / 2.
  const Cascade cascade = to_cascade(std::vector<System>{ZeroPoleGain{{-1}, {0}, 0.5, 2}});
  const std::vector<double> pi = {std::numbers::pi};
  EXPECT_EQ(frequency_response(cascade, pi)[0], 2.0);
  EXPECT_DOUBLE_EQ(group_delay(cascade, pi)[0], -0.25);
  const Cascade alone = to_cascade(std::vector<System>{ZeroPoleGain{{-1}, {0}, 0.5, 0}});
  EXPECT_TRUE(std::isnan(group_delay(alone, pi)[0]));
}

TEST(Cascade, WithAPoleOnTheCircleIsInfiniteThere) {
  const Cascade cascade = to_cascade(std::vector<System>{ZeroPoleGain{{}, {-1, {0.3, 0.4}, {0.3, -0.4}}, 1, 2}});
  const auto values = frequency_response(cascade, std::vector{std::numbers::pi, 0.5});
  EXPECT_EQ(values[0], std::complex<double>(HUGE_VAL));
  EXPECT_TRUE(std::isfinite(std::abs(values[1])));
  EXPECT_FALSE(is_stable(cascade, 0));
}

TEST(Cascade, NeedsFactorsAndStatesThatFit) {
  expect_refusal("form ba has no factors; zpk or sos is needed", [] {
    to_cascade(std::vector<System>{PolynomialRatio{{1}, {1}}});
  });
  expect_refusal("no stages", [] { frequency_response(Cascade{}, {}); });
  const Cascade cascade = to_cascade(std::vector<System>{narrow(5, 0.1)});
  const CascadePlan<double> plan(cascade, 1, 10, {FilterMethod::recurrence, true, true});
  std::vector<double> samples(10), state(4);
  Executor& executor = default_executor();
  const Workspace workspace(plan.workspace_bytes(executor));
  expect_refusal("the initial state has 4 values",
                 [&] { filter(plan, channels_last(samples.data(), 1, 10, 1), state, state, workspace, executor); });
}

}  // namespace
}  // namespace rtf
