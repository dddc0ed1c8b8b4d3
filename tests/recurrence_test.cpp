#include "rtf/recurrence.h"

#include <gtest/gtest.h>

#include <vector>

#include "random_filter.h"
#include "rtf/rtf.h"

namespace {

using rtf::TransferFunction;
using rtf::testing::RandomFilters;

TEST(Step, IsTheCompanionRealisation) {
  RandomFilters random(1);
  for (int i = 0; i < 30; ++i) {
    const std::size_t n = random.integer(0, 9);
    const TransferFunction tf = random.draw(1, 1, n);
    const rtf::StateSpace ss = rtf::to_state_space(tf, 0);
    std::vector<double> state = random.normals(n);
    for (int t = 0; t < 12; ++t) {
      const double u = random.normal();
      double y = ss.D[0] * u;
      std::vector<double> next(n, 0.0);
      for (std::size_t p = 0; p < n; ++p) {
        y += ss.C[p] * state[p];
        next[p] = ss.B[p] * u;
        for (std::size_t q = 0; q < n; ++q) next[p] += ss.A[p * n + q] * state[q];
      }
      double out = 0;
      rtf::step<double>(tf, {&u, 1}, state, {&out, 1});
      EXPECT_NEAR(out, y, 1e-13);
      for (std::size_t p = 0; p < n; ++p) EXPECT_NEAR(state[p], next[p], 1e-13);
    }
  }
}

TEST(Prefill, ThenStepEqualsSteppingAlone) {
  RandomFilters random(2);
  for (int i = 0; i < 40; ++i) {
    const std::size_t n = random.integer(0, 30), length = random.length(200), channels = random.integer(1, 12);
    TransferFunction tf = random.draw(channels, 1, n);
    tf.a = random.by_montel(n, false);
    const auto u = random.normals((length + 5) * channels);
    std::vector<double> stepped(channels * n, 0.0), filled = stepped, y(u.size()), z(u.size());
    const auto one = [&](std::vector<double>& state, std::vector<double>& out, std::size_t t) {
      rtf::step<double>(tf, std::span(u).subspan(t * channels, channels), state,
                        std::span(out).subspan(t * channels, channels));
    };
    for (std::size_t t = 0; t < length + 5; ++t) one(stepped, y, t);
    rtf::prefill<double>(tf, rtf::channels_last(u.data(), 1, length, channels), filled,
                         rtf::channels_last(z.data(), 1, length, channels));
    for (std::size_t t = length; t < length + 5; ++t) one(filled, z, t);
    EXPECT_LE(rtf::testing::relative_error(z, y), 1e-12);
    EXPECT_LE(rtf::testing::relative_error(filled, stepped), 1e-12);
  }
}

TEST(AdvanceState, IsAPowerOfTheCompanionMatrix) {
  RandomFilters random(3);
  const std::size_t n = 5;
  const TransferFunction tf = random.draw(2, 1, n);
  const auto state = random.normals(3 * 2 * n);
  EXPECT_EQ(rtf::advance_state(tf, state, 0), state);
  std::vector<double> expected = state;
  for (int t = 0; t < 17; ++t) {
    const std::vector<double> silence(6, 0.0);
    std::vector<double> ignored(6);
    rtf::step<double>(tf, silence, expected, ignored);
  }
  EXPECT_LE(rtf::testing::relative_error(rtf::advance_state(tf, state, 17), expected), 1e-12);
  // Longer than the chunks of silence it is fed, and one power after another.
  const auto far = rtf::advance_state(tf, state, 10000);
  EXPECT_LE(rtf::testing::relative_error(rtf::advance_state(tf, rtf::advance_state(tf, state, 5003), 4997), far), 1e-9);
  // Powers add.
  EXPECT_LE(rtf::testing::relative_error(rtf::advance_state(tf, rtf::advance_state(tf, state, 9), 8), expected), 1e-12);
}

TEST(Step, BadArgumentsAreNamed) {
  const TransferFunction tf = rtf::make_coefficients(2, 1, 3);
  std::vector<float> u(4), y(4);
  std::vector<double> state(11);
  try {
    rtf::step<float>(tf, u, state, y);
    FAIL();
  } catch (const rtf::Error& error) {
    EXPECT_STREQ(error.what(), "[rtf::step] the state has 11 values; 12 are needed");
  }
}

}  // namespace
