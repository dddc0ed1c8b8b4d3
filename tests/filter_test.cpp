#include "rtf/filter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <functional>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "expect_refusal.h"
#include "random_filter.h"
#include "rtf/rtf.h"

namespace {

using rtf::FilterMethod;
using rtf::TransferFunction;
using rtf::testing::expect_refusal;
using rtf::testing::RandomFilters;

constexpr FilterMethod every_method[] = {FilterMethod::recurrence, FilterMethod::fft, FilterMethod::block};

TransferFunction montel(std::size_t channels, std::size_t order) {
  RandomFilters random(order);
  TransferFunction tf = random.draw(channels, 1, order);
  tf.a = random.by_montel(order, false);
  return tf;
}

TEST(FilterPlan, ChoosesByCostAmongEligibleMethods) {
  EXPECT_EQ(rtf::FilterPlan<float>(montel(128, 4), 16, 4096).method(), FilterMethod::recurrence);
  EXPECT_EQ(rtf::FilterPlan<float>(montel(128, 1024), 16, 4096).method(), FilterMethod::fft);
  EXPECT_EQ(rtf::FilterPlan<float>(montel(1, 2), 1, 100000).method(), FilterMethod::recurrence);
  EXPECT_EQ(rtf::FilterPlan<double>(montel(8, 300), 1, 64, {}).warning(), "");
}

// (1 - 0.999 w)^4: kappa is 16 / 1e-12 in the limit, past what double holds to 1e-10.
TransferFunction ill_conditioned() {
  TransferFunction tf = rtf::make_coefficients(1, 1, 4);
  const double r = 0.999;
  tf.a = {-4 * r, 6 * r * r, -4 * r * r * r, r * r * r * r};
  tf.b = {1e-9, 0, 0, 0};
  return tf;
}

TEST(FilterPlan, WarnsWhenAForcedMethodMissesTheTolerance) {
  const TransferFunction tf = ill_conditioned();
  const std::size_t length = 300;
  const double bound = rtf::FilterPlan<double>(tf, 1, length).rounding_bound();
  ASSERT_GT(bound, 1e-10);
  EXPECT_EQ(rtf::FilterPlan<double>(tf, 1, length).method(), FilterMethod::fft);
  EXPECT_NE(rtf::FilterPlan<double>(tf, 1, length).warning(), "");
  for (const FilterMethod method : every_method) {
    const rtf::FilterPlan<double> plan(tf, 1, length, {method});
    EXPECT_NE(plan.warning().find("past the tolerance"), std::string::npos) << rtf::name(method);
  }
  // Float results ask for less, so the same recurrence in double is eligible there.
  EXPECT_EQ(rtf::FilterPlan<float>(tf, 1, length).method(), FilterMethod::recurrence);
  EXPECT_EQ(rtf::FilterPlan<float>(tf, 1, length, {FilterMethod::recurrence}).warning(), "");
}

TEST(FilterPlan, StatesOfIllConditionedFiltersComeFromTheRecurrence) {
  const TransferFunction tf = ill_conditioned();
  const std::size_t length = 300;
  const rtf::FilterOptions with_state{FilterMethod::automatic, true, true};
  const rtf::FilterPlan<double> plan(tf, 1, length, with_state);
  EXPECT_EQ(plan.method(), FilterMethod::recurrence);
  // Of transforms the state is off in every direction, which goes through 1/A once more.
  const auto text = [&](FilterMethod method) {
    return rtf::FilterPlan<float>(tf, 1, length, {method, true, true}).warning();
  };
  EXPECT_EQ(text(FilterMethod::recurrence), "");
  EXPECT_NE(text(FilterMethod::fft), "");
  EXPECT_NE(text(FilterMethod::block), "");

  // So the parts of a signal say what the whole says.
  RandomFilters random(10);
  const std::size_t blocks = 8, total = blocks * length;
  const auto u = random.normals(total);
  std::vector<double> whole(total), parts(total), state(tf.order, 0.0);
  rtf::filter<double>(tf, rtf::channels_last(u.data(), 1, total, 1), rtf::channels_last(whole.data(), 1, total, 1));
  for (std::size_t t = 0; t < total; t += length)
    rtf::filter<double>(tf, rtf::channels_last(u.data() + t, 1, length, 1),
                        rtf::channels_last(parts.data() + t, 1, length, 1), state, state);
  double largest = 0;
  for (const double y : whole) largest = std::max(largest, std::abs(y));
  const double bound = rtf::FilterPlan<double>(tf, 1, total).rounding_bound();
  ASSERT_LT(bound, 1e-3);
  for (std::size_t t = 0; t < total; ++t) ASSERT_NEAR(parts[t], whole[t], bound * largest) << t;
}

// 1/A of poles 1 + width e^(i theta), theta spread over the left half plane as Butterworth's are: kappa is about
// (2 / width)^order.
std::vector<double> narrow(std::size_t order, double width) {
  std::vector<std::complex<long double>> product{1};
  for (std::size_t k = 0; k < order; ++k) {
    const long double angle =
        std::numbers::pi_v<long double> * (0.5L + (2.0L * k + 1) / (2.0L * static_cast<long double>(order)));
    const auto pole = 1.0L + std::polar(static_cast<long double>(width), angle);
    product.push_back(0);
    for (std::size_t i = product.size() - 1; i > 0; --i) product[i] -= pole * product[i - 1];
  }
  std::vector<double> a;
  for (std::size_t i = 1; i < product.size(); ++i) a.push_back(static_cast<double>(product[i].real()));
  return a;
}

// Two channels: the narrow filter, and one that rounding hardly touches.
TransferFunction narrow_and_wide(std::size_t order, double width) {
  TransferFunction tf = rtf::make_coefficients(2, 2, order);
  const auto a = narrow(order, width);
  std::copy(a.begin(), a.end(), tf.a.begin());
  tf.a[order] = -0.5;
  tf.b.assign(2 * order, 0.0);
  tf.b[0] = tf.b[order] = 1;
  return tf;
}

TEST(FilterPlan, OfNarrowFiltersIsMeasuredWhereTheBoundIsTooLarge) {
  constexpr std::size_t length = 3000;
  RandomFilters random(9);
  for (const auto& [order, width] : {std::pair<std::size_t, double>{5, 0.003}, {6, 0.01}, {8, 0.04}}) {
    const TransferFunction tf = narrow_and_wide(order, width);
    const rtf::FilterPlan<double> plan(tf, 1, length);
    ASSERT_GT(plan.rounding_bound(), 1e-3);  // else this looks at nothing new
    EXPECT_EQ(plan.method(), FilterMethod::recurrence);
    EXPECT_NE(plan.warning(), "");
    const auto u = random.normals(2 * length);
    std::vector<double> y(u.size());
    rtf::filter<double>(tf, rtf::channels_last(u.data(), 1, length, 2), rtf::channels_last(y.data(), 1, length, 2));
    for (std::size_t c = 0; c < 2; ++c) {
      std::vector<long double> v(order + length, 0);
      long double largest = 0, error = 0;
      for (std::size_t t = 0; t < length; ++t) {
        const long double* past = v.data() + order + t;
        long double next = u[2 * t + c], exact = next;
        for (std::size_t k = 1; k <= order; ++k) {
          next -= static_cast<long double>(tf.a[c * order + k - 1]) * past[-static_cast<std::ptrdiff_t>(k)];
          exact += static_cast<long double>(tf.b[c * order + k - 1]) * past[-static_cast<std::ptrdiff_t>(k)];
        }
        v[order + t] = next;
        largest = std::max(largest, std::abs(exact));
        error = std::max(error, std::abs(exact - y[2 * t + c]));
      }
      // What was measured is at most 1e-3, and other noise loses at most four times as much.
      EXPECT_LE(error, (c == 0 ? 4e-3 : 1e-13) * largest) << order;
    }
  }
}

TEST(FilterPlan, RefusesWhatRoundingDrowns) {
  const auto plan = [](const TransferFunction& tf, FilterMethod method) {
    rtf::FilterPlan<double>(tf, 1, 3000, {method});
  };
  const TransferFunction held = narrow_and_wide(5, 0.003), drowned = narrow_and_wide(8, 0.02);
  for (const FilterMethod method : {FilterMethod::fft, FilterMethod::block})
    expect_refusal(std::string("in method ") + rtf::name(method), [&] { plan(held, method); });
  for (const FilterMethod method : {FilterMethod::automatic, FilterMethod::recurrence})
    expect_refusal("the denominator is ill-conditioned", [&] { plan(drowned, method); });
  // A pole outside is refused where rounding grows by it, and not where it is the other channel that rounding touches.
  TransferFunction outside = held;
  outside.a[5] = -1.5;
  expect_refusal("denominator 1 has a pole", [&] { plan(outside, FilterMethod::automatic); });
  outside.a[5] = -1;
  EXPECT_NO_THROW(plan(outside, FilterMethod::automatic));
}

TEST(Filter, GainDelayAndFirAreExactByRecurrence) {
  RandomFilters random(5);
  const auto u = random.normals(40);
  std::vector<double> y(40);
  const auto in = rtf::channels_last(u.data(), 1, 40, 1);
  const auto out = rtf::channels_last(y.data(), 1, 40, 1);
  TransferFunction gain = rtf::make_coefficients(1, 1, 0);
  gain.h0 = {-2.0};
  rtf::filter<double>(gain, in, out);
  for (std::size_t t = 0; t < 40; ++t) EXPECT_EQ(y[t], -2 * u[t]);
  TransferFunction delay = rtf::make_coefficients(1, 1, 9);
  delay.b[8] = 1;
  delay.h0 = {0.0};
  rtf::filter<double>(delay, in, out, {}, {}, FilterMethod::recurrence);
  for (std::size_t t = 0; t < 40; ++t) EXPECT_EQ(y[t], t < 9 ? 0.0 : u[t - 9]);
}

TEST(Filter, EverySplitGivesTheSameOutputsAndState) {
  RandomFilters random(6);
  for (const FilterMethod method : every_method)
    for (const std::size_t order : {1, 3, 20}) {
      const std::size_t length = 61, channels = 11;
      TransferFunction tf = montel(channels, order);
      const auto u = random.normals(length * channels), x0 = random.normals(channels * order);
      std::vector<double> whole(u.size()), parts(u.size()), end(x0.size()), state = x0;
      rtf::filter<double>(tf, rtf::channels_last(u.data(), 1, length, channels),
                          rtf::channels_last(whole.data(), 1, length, channels), x0, end, method);
      for (std::size_t first = 0; first < length;) {
        const std::size_t count = random.integer(1, length - first);
        rtf::filter<double>(tf, rtf::channels_last(u.data() + first * channels, 1, count, channels),
                            rtf::channels_last(parts.data() + first * channels, 1, count, channels), state, state,
                            method);
        first += count;
      }
      EXPECT_LE(rtf::testing::relative_error(parts, whole), 1e-13) << rtf::name(method) << " " << order;
      EXPECT_LE(rtf::testing::relative_error(state, end), 1e-13) << rtf::name(method) << " " << order;
    }
}

// The state is double whatever the samples are: a float stream cut at every sample gives what one piece gives.
TEST(Filter, FloatStreamsMayBeCutAnywhere) {
  RandomFilters random(16);
  TransferFunction tf = ill_conditioned();
  const std::size_t length = 1000;
  std::vector<float> u(length), whole(length), parts(length);
  for (float& value : u) value = static_cast<float>(random.normal());
  std::vector<double> state(4, 0.0);
  rtf::filter<float>(tf, rtf::channels_last<const float>(u.data(), 1, length, 1),
                     rtf::channels_last(whole.data(), 1, length, 1));
  for (std::size_t t = 0; t < length; ++t)
    rtf::filter<float>(tf, rtf::channels_last<const float>(&u[t], 1, 1, 1), rtf::channels_last(&parts[t], 1, 1, 1),
                       state, state);
  EXPECT_LE(rtf::testing::relative_error(parts, whole), 1e-5);
}

TEST(Filter, InPlace) {
  RandomFilters random(7);
  const TransferFunction tf = montel(5, 6);
  const auto u = random.normals(2 * 30 * 5);
  for (const FilterMethod method : every_method) {
    std::vector<double> y(u.size()), same = u;
    rtf::filter<double>(tf, rtf::channels_last(u.data(), 2, 30, 5), rtf::channels_last(y.data(), 2, 30, 5), {}, {},
                        method);
    const auto view = rtf::channels_last(same.data(), 2, 30, 5);
    rtf::filter<double>(tf, view, view, {}, {}, method);
    EXPECT_EQ(same, y) << rtf::name(method);
  }
}

TEST(Filter, AnEmptySignalKeepsItsState) {
  const TransferFunction tf = montel(3, 4);
  RandomFilters random(8);
  for (const FilterMethod method : every_method) {
    const auto x0 = random.normals(12);
    std::vector<double> xf(12);
    rtf::filter<double>(tf, rtf::channels_last<const double>(nullptr, 1, 0, 3),
                        rtf::channels_last<double>(nullptr, 1, 0, 3), x0, xf, method);
    EXPECT_LE(rtf::testing::relative_error(xf, x0), 1e-14) << rtf::name(method);
  }
}

TEST(Filter, BadArgumentsAreNamed) {
  const TransferFunction tf = montel(2, 3);
  std::vector<double> u(24), state(6);
  const auto view = rtf::channels_last(u.data(), 2, 6, 2);
  const auto message = [](const std::function<void()>& call) -> std::string {
    try {
      call();
    } catch (const rtf::Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(message([&] { rtf::filter<double>(tf, rtf::Signal<const double>(view), view, state); }),
            "[rtf::filter] the initial state has 6 values; 12 are needed");
  EXPECT_EQ(message([&] { rtf::filter<double>(montel(3, 3), rtf::Signal<const double>(view), view); }),
            "[rtf::filter] u has shape (2, 6, 2); the plan is for (2, 6, 3)");
  const rtf::FilterPlan<double> stateless(tf, 2, 6);
  const rtf::Workspace workspace(stateless.workspace_bytes(rtf::default_executor()));
  const std::vector<double> unexpected(12);
  EXPECT_EQ(
      message([&] { rtf::filter(stateless, view, view, unexpected, {}, {}, workspace, rtf::default_executor()); }),
      "[rtf::filter] an initial state the plan was not made for has 12 values; 0 are needed");
  TransferFunction bad = tf;
  bad.a[1] = std::nan("");
  EXPECT_NE(message([&] { rtf::filter<double>(bad, rtf::Signal<const double>(view), view); }).find("a[0][1] is nan"),
            std::string::npos);
}

}  // namespace
