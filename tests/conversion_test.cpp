#include "rtf/conversion.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>

#include "form_oracle.h"
#include "rtf/error.h"
#include "temporary_folder.h"

namespace rtf {
namespace {

using namespace testing;
using test::error_of;

TEST(Conversion, RoundTripsKeepTheKernel) {
  RandomFilters random(6);
  constexpr std::size_t systems = 2000;
  std::vector<double> worst(conversions().size()), share(conversions().size());
  std::vector<std::vector<double>> conditions(conversions().size());
  std::size_t refused = 0, wrongly = 0;
  for (std::size_t round = 0; round < systems; ++round) {
    const Case drawn = draw(random);
    ConversionOptions options;
    options.report_length = 1 + drawn.tf.order + random.integer(0, 60);
    const System source = drawn.tf;
    for (std::size_t i = 0; i < conversions().size(); ++i) {
      const auto& [name, there] = conversions()[i];
      const std::string what = name + ", system " + std::to_string(round) + ", order " + std::to_string(drawn.tf.order);
      std::optional<Step> made;
      try {
        made = there(source, options);
      } catch (const Error& error) {
        ASSERT_EQ(name, "modal") << what << error.what();
        ++refused;
        // Random poles are distinct but for several at zero.
        const std::vector<double>& a = drawn.tf.a;
        wrongly += drawn.poles == Poles::drawn && (a.size() < 2 || a.back() != 0 || a[a.size() - 2] != 0);
        continue;
      }
      expect_true(*made, source, options.report_length, what);
      const Step back = step(to_transfer_function(made->system, options));
      expect_true(back, made->system, options.report_length, what + ", back");
      const double condition = std::max(made->report.condition, back.report.condition);
      const double error =
          difference(oracle(back.system, options.report_length), oracle(source, options.report_length));
      EXPECT_LE(error, 1e-8 * condition) << what;   // the promise
      EXPECT_LE(error, 1e-13 * condition) << what;  // what 106 bits in between make of it
      worst[i] = std::max(worst[i], error);
      share[i] = std::max(share[i], error / condition);
      conditions[i].push_back(condition);
    }
  }
  std::printf("%-12s %8s %14s %16s %12s\n", "form", "systems", "largest error", "over condition",
              "condition: median, 9 in 10, most");
  for (std::size_t i = 0; i < conversions().size(); ++i) {
    auto& list = conditions[i];
    std::sort(list.begin(), list.end());
    const double median = list[list.size() / 2];
    std::printf("%-12s %8zu %14.1e %16.1e %12.1e %.1e %.1e\n", conversions()[i].first.c_str(), list.size(), worst[i],
                share[i], median, list[list.size() * 9 / 10], list.back());
    EXPECT_LE(median, 1e3) << conversions()[i].first;  // an estimate that is always huge would promise nothing
  }
  EXPECT_EQ(wrongly, 0u) << "of " << refused << " systems that modal refused had distinct poles";
  EXPECT_LE(refused, systems * 3 / 10);
}

TEST(Conversion, NarrowFiltersKeepTheKernelFromEveryForm) {
  std::size_t compared = 0;
  for (const auto& [order, cutoff] : {std::pair<std::size_t, double>{2, 0.3},
                                      {5, 0.1},
                                      {8, 0.02},
                                      {8, 0.005},
                                      {12, 0.02},
                                      {13, 0.05},
                                      {20, 0.1},
                                      {24, 0.01}}) {
    const ZeroPoleGain design = narrow(order, cutoff);
    const SecondOrderSections sections = to_sections(design).value;
    std::vector<System> sources = {design, sections, to_modal(design).value};
    if (order <= 12) sources.push_back(cascade(sections));  // beyond, 106 bits of det(zI - A) are too few
    for (const System& source : sources)
      for (const auto& [name, there] : conversions()) {
        ConversionOptions options;
        options.report_length = 300;
        const std::string what = std::string(form_name(source)) + " to " + name + ", order " + std::to_string(order) +
                                 ", cutoff " + std::to_string(cutoff);
        std::optional<Step> made;
        try {
          made = there(source, options);
        } catch (const Error& error) {
          // Doubles hold the factors of such a filter, not its coefficients; nor its poles once they went through them.
          EXPECT_TRUE(name == "ba" || name == "ss" || name == "zpk inside" ||
                      !std::holds_alternative<ZeroPoleGain>(source))
              << what << error.what();
          continue;
        }
        expect_true(*made, source, 300, what);
        EXPECT_LE(made->report.error, 1e-13 * made->report.condition) << what;
        ++compared;
      }
  }
  EXPECT_GE(compared, 100u);
}

// --- state spaces ---------------------------------------------------------------------------------------------------

StateSpace draw_state_space(RandomFilters& random, std::size_t order, std::size_t inputs, std::size_t outputs) {
  StateSpace s{order,
               inputs,
               outputs,
               random.normals(order * order),
               random.normals(order * inputs),
               random.normals(outputs * order),
               random.normals(outputs * inputs)};
  for (double& x : s.A) x *= 0.8 / std::sqrt(static_cast<double>(order));  // Girko: a radius of about 0.8
  return s;
}

TEST(Conversion, StateSpaceByEitherRoute) {
  RandomFilters random(7);
  for (int round = 0; round < 60; ++round) {
    const StateSpace source =
        draw_state_space(random, round < 4 ? static_cast<std::size_t>(round) : random.integer(1, 40), 1, 1);
    ConversionOptions options;
    options.report_length = 100;
    double errors[3];
    for (const auto method : {StateSpaceMethod::eigenvalues, StateSpaceMethod::markov, StateSpaceMethod::automatic}) {
      options.method = method;
      const auto converted = to_transfer_function(source, options);
      expect_true(step(converted), source, 100, "order " + std::to_string(source.order));
      EXPECT_LE(converted.report.error,
                (method == StateSpaceMethod::eigenvalues ? 1e-9 : 1e-14) * converted.report.condition);
      errors[static_cast<int>(method)] = converted.report.error;
    }
    EXPECT_EQ(errors[0], std::min(errors[1], errors[2]));
  }
}

TEST(Conversion, StateSpaceOfSeveralInputsAndOutputs) {
  RandomFilters random(8);
  for (int round = 0; round < 40; ++round) {
    const std::size_t order = random.integer(0, 24), inputs = random.integer(1, 4), outputs = random.integer(1, 4);
    const StateSpace source = draw_state_space(random, order, inputs, outputs);
    const std::size_t length = 80;
    ConversionOptions options;
    options.report_length = length;
    for (const auto method : {StateSpaceMethod::eigenvalues, StateSpaceMethod::markov, StateSpaceMethod::automatic}) {
      options.method = method;
      const auto [tf, report] = to_mimo_transfer_function(source, options);
      std::vector<Wide> expected, actual;
      for (std::size_t i = 0; i < outputs; ++i)
        for (std::size_t j = 0; j < inputs; ++j) {
          const auto entry = oracle(source, length, i, j);
          auto one = make_coefficients(1, 1, order);
          one.a = tf.a;
          one.b.assign(tf.b.begin() + static_cast<std::ptrdiff_t>((i * inputs + j) * order),
                       tf.b.begin() + static_cast<std::ptrdiff_t>((i * inputs + j + 1) * order));
          one.h0 = {tf.h0[i * inputs + j]};
          const auto other = oracle(one, length);
          expected.insert(expected.end(), entry.begin(), entry.end());
          actual.insert(actual.end(), other.begin(), other.end());
        }
      const double error = difference(actual, expected), floor = 0x1p-90 * report.condition;
      EXPECT_LE(error, 2 * report.error + floor);
      EXPECT_LE(report.error, 2 * error + floor);
      EXPECT_LE(error, 1e-9 * report.condition);
    }
  }
}

// --- special systems
// --------------------------------------------------------------------------------------------------

TransferFunction make(std::vector<double> a, std::vector<double> b, double h0) {
  auto tf = make_coefficients(1, 1, a.size());
  tf.a = std::move(a);
  tf.b = std::move(b);
  tf.h0 = {h0};
  return tf;
}

TEST(Conversion, RepeatedPolesWorkInAllFormsButModal) {
  for (std::size_t copies = 2; copies <= 6; ++copies)
    for (const std::complex<double> pole : {std::complex(0.5, 0.0), std::complex(0.3, 0.8)}) {
      std::vector<double> a = expanded(std::vector(copies, pole));
      a.erase(a.begin());
      const std::size_t order = a.size();
      const TransferFunction tf = make(std::move(a), std::vector<double>(order, 1.0), 1);
      for (const auto& [name, there] : conversions()) {
        if (name == "modal") {
          const std::string message = error_of([&] { to_modal(tf); });
          EXPECT_EQ(message.rfind("[rtf::to_modal] poles 0.", 0), 0u) << message;
          EXPECT_NE(message.find("apart"), std::string::npos) << message;
          continue;
        }
        const Step made = there(tf, {});
        expect_true(made, tf, 1024, name);
        EXPECT_LE(made.report.error, 1e-14 * made.report.condition) << name << ", " << copies << " poles";
      }
    }
}

TEST(Conversion, ConditionOfModalGrowsAsPolesMeet) {
  for (const double distance : {1e-2, 1e-4, 1e-6}) {
    const double p = 0.5, q = 0.5 + distance;
    const auto report = to_modal(make({-(p + q), p * q}, {1, 0}, 0)).report;
    EXPECT_GT(report.condition, 0.1 / distance);  // residues of +-p / distance that nearly cancel
    EXPECT_LT(report.condition, 100 / distance);
    EXPECT_LE(report.error, 1e-14 * report.condition);
  }
}

TEST(Conversion, DelaysGainsAndFiniteResponsesAreKept) {
  const std::vector<TransferFunction> systems = {
      make({}, {}, 2),                       // a gain
      make({}, {}, 0),                       // nothing
      make({-0.5}, {0}, 0),                  // nothing, with a pole
      make({0.2, -0.5, 0.1}, {0, 0, 1}, 0),  // a delay of three samples
      make({0, 0, 0}, {1, -2, 3}, 0.5),      // finite
      make({-0.5, 0, 0}, {0, 1, 0}, 0),      // poles and zeros at zero
      make({-0.25}, {1}, 1e-30),             // a feed-through that hardly is one
      make({-1.5, 0.5625}, {1e-12, 1}, 0),   // a double pole, and a zero far out
  };
  for (const TransferFunction& tf : systems)
    for (const auto& [name, there] : conversions()) {
      if (name == "modal" && tf.order > 1) continue;  // poles at zero and others are repeated here
      const Step made = there(tf, {});
      expect_true(made, tf, 1024, name);
      EXPECT_LE(made.report.error, 1e-15) << name;
      const Step back = step(to_transfer_function(made.system));
      EXPECT_LE(difference(oracle(back.system, 100), oracle(tf, 100)), 1e-15) << name;
    }
  const auto zpk = to_zero_pole_gain(systems[3]).value;
  EXPECT_TRUE(zpk.zeros.empty());
  EXPECT_EQ(zpk.gain, 1);
  const auto delayed = to_sections(systems[3]).value.sections;
  EXPECT_EQ(delayed.size(), 2u);
}

TEST(Conversion, TheEndsOfTheDoublesAreCompared) {
  for (const auto& [scale, tolerance] : {std::pair{1e307, 1e-15}, {1e-300, 1e-15}, {1e-320, 1e-3}}) {
    const TransferFunction tf = make({-0.5, 0.06}, {scale, 0.5 * scale}, 10 * scale);
    for (const auto& [name, there] : conversions()) {
      const Step made = there(tf, {});
      EXPECT_EQ(made.report.length, 1024u) << name << scale;
      EXPECT_LE(made.report.error, tolerance) << name << scale;
      if (name == "ba" || name == "ss") {
        EXPECT_LE(difference(oracle(made.system, 100), oracle(tf, 100)), tolerance) << name << scale;
      }
      // And back: such a file can be read.
      const Step back = step(to_transfer_function(made.system));
      EXPECT_LE(difference(oracle(back.system, 100), oracle(tf, 100)), tolerance) << name << scale;
    }
    EXPECT_LE(to_state_space(tf).report.error, 1e-30) << scale;  // the same numbers
  }
}

TEST(Conversion, TheLeadingCoefficientOfARatioMayBeAnything) {
  const auto tf = to_transfer_function(PolynomialRatio{{1, 2, 3, 4}, {-2, 1}}).value;
  EXPECT_EQ(tf.order, 3u);
  EXPECT_EQ(tf.a, (std::vector<double>{-0.5, 0, 0}));
  EXPECT_EQ(tf.h0, (std::vector<double>{-0.5}));
  EXPECT_EQ(tf.b, (std::vector<double>{-1.25, -1.5, -2}));
}

TEST(Conversion, FeedThroughIsSeparateOrInside) {
  const TransferFunction tf = make({-0.5}, {1}, 2);
  const auto separate = to_zero_pole_gain(tf).value;
  EXPECT_TRUE(separate.zeros.empty());
  EXPECT_EQ(separate.gain, 1);
  EXPECT_EQ(separate.h0, 2);
  ConversionOptions options;
  options.feed_through = FeedThrough::inside;
  const auto inside = to_zero_pole_gain(tf, options).value;  // 2 z / (z - 0.5): 2 - w + w
  EXPECT_EQ(inside.zeros, (std::vector<std::complex<double>>{0}));
  EXPECT_EQ(inside.gain, 2);
  EXPECT_EQ(inside.h0, 0);
}

TEST(Conversion, SectionsHaveTheCriticalPolesLast) {
  RandomFilters random(9);
  for (int round = 0; round < 50; ++round) {
    const TransferFunction tf = random.draw(1, 1, random.integer(1, 64));
    const auto sections = to_sections(tf).value.sections;
    EXPECT_EQ(sections.size(), (tf.order + 1) / 2);
    double before = -1;
    for (const auto& s : sections) {
      // The largest modulus of the two poles, from their sum and product.
      const double half = -s[4] / 2, d = half * half - s[5];
      const double radius = d < 0 ? std::sqrt(s[5]) : std::abs(half) + std::sqrt(d);
      EXPECT_GE(radius, before - 1e-9);
      before = radius;
      EXPECT_EQ(s[3], 1);
    }
  }
}

TEST(Conversion, KernelOfEveryFormIsTheDefinition) {
  RandomFilters random(10);
  for (int round = 0; round < 30; ++round) {
    const TransferFunction tf = draw(random).tf;
    for (const auto& [name, there] : conversions()) {
      if (name == "modal" && round % 3 != 0) continue;
      Step made;
      try {
        made = there(tf, {});
      } catch (const Error&) {
        continue;
      }
      for (const std::size_t length : {0, 1, 2, 70}) {
        const auto values = kernel(made.system, length);
        const auto expected = oracle(made.system, length);
        ASSERT_EQ(values.size(), length);
        EXPECT_LE(difference({values.begin(), values.end()}, expected), 1e-15) << name;
      }
    }
  }
}

TEST(Conversion, ChannelsAreTakenApartAndPutTogether) {
  RandomFilters random(11);
  for (const std::size_t groups : {1, 2, 3, 6}) {
    const TransferFunction tf = random.draw(6, groups, 5);
    std::vector<TransferFunction> channels;
    for (std::size_t c = 0; c < 6; ++c) channels.push_back(select_channel(tf, c));
    const TransferFunction joined = join_channels(channels);
    EXPECT_EQ(joined.groups, groups);
    EXPECT_EQ(joined.a, tf.a);
    EXPECT_EQ(joined.b, tf.b);
    EXPECT_EQ(joined.h0, tf.h0);
  }
  const TransferFunction joined = join_channels(std::vector{make({0.5}, {1}, 2), make({0.25, 0.1}, {3, 4}, 5)});
  EXPECT_EQ(joined.a, (std::vector<double>{0.5, 0, 0.25, 0.1}));
  EXPECT_EQ(joined.b, (std::vector<double>{1, 0, 3, 4}));
}

TEST(Conversion, TakingManyChannelsApartIsNotQuadratic) {
  constexpr std::size_t channels = 100000;
  TransferFunction tf = make_coefficients(channels, 1, 2);
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t c = 0; c < channels; ++c) select_channel(tf, c);
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  EXPECT_LT(spent.count(), 5);  // some 10 ms when each channel looks at its own numbers alone
  tf.b[5] = NAN;
  EXPECT_NE(error_of([&] { select_channel(tf, 2); }).find("must be finite"), std::string::npos);
  tf.b.pop_back();
  EXPECT_NE(error_of([&] { select_channel(tf, 0); }).find("b has"), std::string::npos);
}

TEST(Conversion, ValuesOffByRoundingArePaired) {
  Modal modal{{{0.5, 0.3}, {0.2, 0}, {0.5, -0.3 * (1 + 1e-15)}}, {{1, 2}, {3, 1e-18}, {1 + 1e-15, -2}}, 0};
  const auto tf = to_transfer_function(modal).value;
  EXPECT_NEAR(tf.b[0], 5, 1e-12);
  modal.poles[2] = {0.5, -0.31};
  EXPECT_NE(error_of([&] { to_transfer_function(modal); }).find("poles[0] is 0.5+0.3i"), std::string::npos);
}

TEST(Conversion, RefusesWhatIsNoSystem) {
  const auto expect = [](const System& system, const std::string& part) {
    const std::string message = error_of([&] { to_zero_pole_gain(system); });
    EXPECT_EQ(message.rfind("[rtf::to_zero_pole_gain] ", 0), 0u) << message;
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect(make_coefficients(2, 1, 1), "2 channels");
  expect(PolynomialRatio{{1}, {}}, "a has no values");
  expect(PolynomialRatio{{1}, {0, 1}}, "a[0] is 0");
  expect(PolynomialRatio{{1, HUGE_VAL}, {1}}, "b[1] is inf");
  expect(StateSpace{1, 2, 1, {0}, {1, 1}, {1}, {0, 0}}, "2 inputs");
  expect(Modal{{0.5}, {}, 0}, "residues has 0 values");
  expect(Modal{{{0.5, 0.1}, {0.5, -0.1}}, {{1, 1}, {1, 1}}, 0}, "residues[0] is 1+1i");
  expect(ZeroPoleGain{{1}, {}, 1, 0}, "1 zeros and 0 poles");
  expect(ZeroPoleGain{{}, {{0.5, NAN}}, 1, 0}, "poles[0]");
  expect(SecondOrderSections{}, "no sections");
  expect(SecondOrderSections{{{1, 0, 0, 0, 0, 0}}}, "section 0 has a0 = 0");
  ConversionOptions none;
  none.report_length = 0;
  EXPECT_NE(error_of([&] { to_sections(make({}, {}, 1), none); }).find("report_length"), std::string::npos);
}

}  // namespace
}  // namespace rtf
