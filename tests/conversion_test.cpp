#include "rtf/conversion.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <numbers>
#include <optional>

#include "form_oracle.h"
#include "rtf/error.h"
#include "rtf/response.h"
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
  struct Design {
    std::size_t order;
    double cutoff;
    bool coefficients_fit = true;   // into doubles
    bool factors_are_found = true;  // from where they are not given: some need more than 106 bits
  };
  for (const Design& design : {Design{2, 0.3},
                               {5, 0.1},
                               {8, 0.02},
                               {8, 0.005, false},
                               {12, 0.02, false},
                               {13, 0.05},
                               {20, 0.1, false},
                               {24, 0.01, false, false}}) {
    const ZeroPoleGain zpk = narrow(design.order, design.cutoff);
    const SecondOrderSections sections = to_sections(zpk).value;
    for (const System& source : std::vector<System>{zpk, sections, to_modal(zpk).value, cascade(sections)})
      for (const auto& [name, there] : conversions()) {
        ConversionOptions options;
        options.report_length = 300;
        const std::string form = form_name(source), what = form + " to " + name + ", order " +
                                                           std::to_string(design.order) + ", cutoff " +
                                                           std::to_string(design.cutoff);
        std::optional<Step> made;
        try {
          made = there(source, options);
        } catch (const Error& error) {
          const bool from_factors = form == "zpk" || form == "sos";
          EXPECT_NE(name, "ss") << what << error.what();
          EXPECT_TRUE(name == "ba" ? !design.coefficients_fit : !from_factors && !design.factors_are_found)
              << what << error.what();
          continue;
        }
        expect_true(*made, source, 300, what);
        EXPECT_LE(made->report.error, 1e-13 * made->report.condition) << what;
        // Where companion matrices lose digits, a chain of sections or poles side by side hold them.
        if (name == "ss") {
          EXPECT_LE(made->report.error, 1e-12) << what;
        }
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

TEST(Conversion, PolesAroundTheCircleInTheirOrderMakeAComb) {
  // Multiplied one after the other, half of them have coefficients of 1e38.
  constexpr std::size_t order = 256;
  ZeroPoleGain zpk{{}, {}, 1, 0};
  for (std::size_t i = 0; i < order / 2; ++i) {
    const double angle = 2 * std::numbers::pi * (static_cast<double>(i) + 0.5) / order;
    for (const double sign : {1.0, -1.0}) zpk.poles.push_back(std::polar(0.99, sign * angle));
  }
  const TransferFunction tf = to_transfer_function(zpk).value;
  constexpr double rounding = order * 0x1p-53;  // of the poles, each by half an ulp
  for (std::size_t k = 0; k + 1 < order; ++k) EXPECT_LE(std::abs(tf.a[k]), rounding) << k;
  EXPECT_NEAR(tf.a[order - 1], std::pow(0.99, order), rounding);
}

TEST(Conversion, ADoubleRealPoleStaysOnTheAxis) {
  RandomFilters random(12);
  for (int round = 0; round < 2000; ++round) {
    const double pole = random.uniform(-1, 1), other = random.uniform(-1, 1);
    if (std::abs(pole - other) < 0.05) continue;  // three poles close together are another matter
    const std::string what = "pole " + std::to_string(pole) + ", other " + std::to_string(other);
    // Numbers so short that doubles hold the coefficients of a double root.
    const double p = static_cast<float>(pole), q = static_cast<float>(other);
    const double few = std::ldexp(std::round(std::ldexp(pole, 8)), -8),
                 more = std::ldexp(std::round(std::ldexp(other, 8)), -8);
    const std::vector<System> sources = {
        SecondOrderSections{{{1, 0, 0, 1, -2 * p, p * p}, {1, -2 * q, q * q, 1, 0, 0}}},
        SecondOrderSections{{{1, 0, 0, 3, 3 * (-2 * few), 3 * (few * few)}}},
        make({-2 * few - more, few * few + 2 * few * more, -few * few * more}, {1, 0, 0}, 0),
    };
    for (const System& source : sources) {
      const ZeroPoleGain zpk = to_zero_pole_gain(source).value;
      for (const auto& x : zpk.poles) EXPECT_EQ(x.imag(), 0) << what;
      for (const auto& x : zpk.zeros) EXPECT_EQ(x.imag(), 0) << what;
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

// Powers of two that the kernel does not show, or shows as a factor.
TEST(Conversion, NumbersOfAFormMayBeAnySize) {
  const TransferFunction tf = make({-0.5, 0.06}, {1, 0.5}, 10);
  for (const int exponent : {-1015, -500, 500, 1015}) {
    const double huge = std::ldexp(1.0, exponent), inverse = std::ldexp(1.0, -exponent);
    const auto times = [](std::vector<double> row, double factor) {
      for (double& x : row) x *= factor;
      return row;
    };
    const PolynomialRatio ratio = to_polynomial_ratio(tf).value;
    const SecondOrderSections sos = to_sections(tf).value;
    const StateSpace companion = to_state_space(tf).value;
    SecondOrderSections other_sos = sos;
    for (double& x : other_sos.sections[0]) x *= huge;
    StateSpace other_ss = companion, tall = companion;
    other_ss.B = times(companion.B, huge);
    other_ss.C = times(companion.C, inverse);
    tall.B = times(companion.B, huge);
    tall.D = times(companion.D, huge);
    for (const auto& [name, to] : conversions()) {
      for (const System& system :
           {System(PolynomialRatio{times(ratio.b, huge), times(ratio.a, huge)}), System(other_sos), System(other_ss)}) {
        if (name == "ba" && std::holds_alternative<PolynomialRatio>(system)) continue;  // a copy
        const Step made = to(system, {});
        EXPECT_LE(made.report.error, 1e-15) << name << exponent;
        EXPECT_LE(difference(oracle(to_transfer_function(made.system).value, 100), oracle(tf, 100)), 1e-15) << name;
      }
      EXPECT_LE(to(tall, {}).report.error, 1e-15) << name << exponent;
    }
    EXPECT_EQ(kernel(tall, 8), times(kernel(tf, 8), huge));
    EXPECT_EQ(h2_norm(to_transfer_function(tall).value)[0], huge * h2_norm(tf)[0]);
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
