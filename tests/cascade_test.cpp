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
