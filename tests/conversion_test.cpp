#include "rtf/conversion.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include "random_filter.h"
#include "rtf/error.h"
#include "temporary_folder.h"

namespace rtf {
namespace {

using test::error_of;
using testing::RandomFilters;

// An arithmetic of its own, wider than what is tested: 113 bits where the compiler has them.
#ifdef __SIZEOF_FLOAT128__
__extension__ using Wide = __float128;
#else
using Wide = long double;
#endif

Wide magnitude(Wide x) { return x < 0 ? -x : x; }

// --- impulse responses by the definitions
// -----------------------------------------------------------------------------

std::vector<Wide> oracle(const TransferFunction& tf, std::size_t length) {
  std::vector<Wide> h(length);
  for (std::size_t t = 0; t < length; ++t) {
    h[t] = t >= 1 && t <= tf.order ? tf.b[t - 1] : 0;
    for (std::size_t k = 1; k <= tf.order && k < t; ++k) h[t] -= tf.a[k - 1] * h[t - k];
  }
  if (length > 0) h[0] = tf.h0[0];
  return h;
}

std::vector<Wide> oracle(const PolynomialRatio& ratio, std::size_t length) {
  std::vector<Wide> h(length);
  for (std::size_t t = 0; t < length; ++t) {
    h[t] = t < ratio.b.size() ? ratio.b[t] : 0;
    for (std::size_t k = 1; k < ratio.a.size() && k <= t; ++k) h[t] -= ratio.a[k] * h[t - k];
    h[t] /= ratio.a[0];
  }
  return h;
}

// x' = A x from x = B; the first row of y is D.
std::vector<Wide> oracle(const StateSpace& s, std::size_t length, std::size_t output = 0, std::size_t input = 0) {
  std::vector<Wide> h(length), x(s.order), next(s.order);
  for (std::size_t k = 0; k < s.order; ++k) x[k] = s.B[k * s.inputs + input];
  for (std::size_t t = 1; t < length; ++t) {
    for (std::size_t i = 0; i < s.order; ++i) {
      h[t] += s.C[output * s.order + i] * x[i];
      next[i] = 0;
      for (std::size_t k = 0; k < s.order; ++k)
        if (s.A[i * s.order + k] != 0) next[i] += s.A[i * s.order + k] * x[k];
    }
    x.swap(next);
  }
  if (length > 0) h[0] = s.D[output * s.inputs + input];
  return h;
}

struct WideComplex {
  Wide re, im;
  WideComplex(Wide r, Wide i) : re(r), im(i) {}
  WideComplex(std::complex<double> x) : re(x.real()), im(x.imag()) {}
  WideComplex operator*(const WideComplex& y) const { return {re * y.re - im * y.im, re * y.im + im * y.re}; }
  WideComplex operator+(const WideComplex& y) const { return {re + y.re, im + y.im}; }
};

std::vector<Wide> oracle(const Modal& modal, std::size_t length) {
  std::vector<Wide> h(length);
  for (std::size_t i = 0; i < modal.poles.size(); ++i) {
    WideComplex term = modal.residues[i];
    for (std::size_t t = 1; t < length; ++t, term = term * modal.poles[i]) h[t] += term.re;
  }
  if (length > 0) h[0] = modal.h0;
  return h;
}

// One complex pole after the other, each with the zero that is nearest to it: that keeps the numbers small.
std::vector<Wide> oracle(const ZeroPoleGain& zpk, std::size_t length) {
  std::vector<WideComplex> x(length, WideComplex(0, 0));
  const std::size_t delay = zpk.poles.size() - zpk.zeros.size();
  if (delay < length) x[delay] = WideComplex(zpk.gain, 0);
  auto zeros = zpk.zeros;
  for (const std::complex<double> pole : zpk.poles) {
    for (std::size_t t = 1; t < length; ++t) x[t] = x[t] + WideComplex(pole) * x[t - 1];
    if (zeros.empty()) continue;
    const auto nearest = std::min_element(zeros.begin(), zeros.end(),
                                          [&](auto y, auto z) { return std::abs(y - pole) < std::abs(z - pole); });
    for (std::size_t t = length; t-- > 1;) x[t] = x[t] + WideComplex(-*nearest) * x[t - 1];
    zeros.erase(nearest);
  }
  std::vector<Wide> h;
  for (const WideComplex& value : x) h.push_back(value.re);
  if (length > 0) h[0] += zpk.h0;
  return h;
}

std::vector<Wide> oracle(const SecondOrderSections& sos, std::size_t length) {
  std::vector<Wide> h(length);
  if (length > 0) h[0] = 1;
  for (const auto& s : sos.sections) {
    std::vector<Wide> y(length);
    for (std::size_t t = 0; t < length; ++t) {
      for (std::size_t k = 0; k < 3 && k <= t; ++k) y[t] += s[k] * h[t - k];
      for (std::size_t k = 1; k < 3 && k <= t; ++k) y[t] -= s[3 + k] * y[t - k];
      y[t] /= s[3];
    }
    h.swap(y);
  }
  return h;
}

std::vector<Wide> oracle(const System& system, std::size_t length) {
  return std::visit([&](const auto& form) { return oracle(form, length); }, system);
}

double difference(const std::vector<Wide>& actual, const std::vector<Wide>& expected) {
  Wide error = 0, largest = 0;
  for (std::size_t t = 0; t < expected.size(); ++t) {
    error = std::max(error, magnitude(actual[t] - expected[t]));
    largest = std::max(largest, magnitude(expected[t]));
  }
  return static_cast<double>(largest > 0 ? error / largest : error);
}

// --- random systems -----------------------------------------------------------------------------------------------

// 1, c_1, ..., c_n of the polynomial with these real roots and pairs.
std::vector<double> expanded(const std::vector<std::complex<double>>& roots) {
  std::vector<long double> c{1};
  for (const auto& x : roots) {
    const std::size_t degree = x.imag() == 0 ? 1 : 2;
    const long double first = x.imag() == 0 ? -x.real() : -2 * x.real(), second = x.imag() == 0 ? 0 : std::norm(x);
    c.resize(c.size() + degree, 0);
    for (std::size_t k = c.size(); k-- > 1;) c[k] += first * c[k - 1] + (k > 1 ? second * c[k - 2] : 0);
  }
  return {c.begin(), c.end()};
}

enum class Poles { drawn, clustered, repeated };

struct Case {
  TransferFunction tf;
  Poles poles = Poles::drawn;
};

Case draw(RandomFilters& random) {
  Case drawn;
  const std::size_t order = random.chance(0.1) ? random.integer(0, 2) : random.integer(0, 64);
  drawn.tf = random.draw(1, 1, order);
  TransferFunction& tf = drawn.tf;
  if (random.chance(0.25)) {
    drawn.poles = random.chance(0.5) ? Poles::clustered : Poles::repeated;
    // A few centres, each with up to four poles on it or around it.
    const double spread = drawn.poles == Poles::clustered ? std::pow(10.0, random.uniform(-5, -1)) : 0;
    std::vector<std::complex<double>> roots;
    for (std::size_t centres = random.integer(1, 3); centres > 0; --centres) {
      const double radius = random.uniform(0.2, 0.95), angle = random.uniform(0.3, 2.8);
      const bool real = random.chance(0.5);
      for (std::size_t copies = random.integer(2, 4); copies > 0; --copies)
        roots.push_back((real ? radius : std::polar(radius, angle)) * (1 + spread * random.uniform()));
    }
    std::vector<double> a = expanded(roots);
    a.erase(a.begin());
    tf = make_coefficients(1, 1, a.size());
    tf.a = a;
    tf.b = random.normals(a.size());
    tf.h0 = {random.normal()};
  }
  if (random.chance(0.2)) std::fill_n(tf.b.begin(), random.integer(0, tf.order), 0.0);   // a delay, or nothing at all
  if (random.chance(0.1)) std::fill_n(tf.b.rbegin(), random.integer(0, tf.order), 0.0);  // zeros at zero
  if (random.chance(0.1)) std::fill_n(tf.a.rbegin(), random.integer(0, tf.order), 0.0);  // poles at zero
  if (random.chance(0.2)) tf.h0 = {0};
  return drawn;
}

// --- round trips --------------------------------------------------------------------------------------------------

struct Step {
  System system;
  ConversionReport report;
};

template <class Target>
Step step(Converted<Target> converted) {
  return {System(std::move(converted.value)), converted.report};
}

using Convert = std::function<Step(const System&, const ConversionOptions&)>;

const std::vector<std::pair<std::string, Convert>>& conversions() {
  static const std::vector<std::pair<std::string, Convert>> all = {
      {"ba", [](const System& s, const ConversionOptions& o) { return step(to_polynomial_ratio(s, o)); }},
      {"ss", [](const System& s, const ConversionOptions& o) { return step(to_state_space(s, o)); }},
      {"modal", [](const System& s, const ConversionOptions& o) { return step(to_modal(s, o)); }},
      {"zpk", [](const System& s, const ConversionOptions& o) { return step(to_zero_pole_gain(s, o)); }},
      {"zpk inside",
       [](const System& s, ConversionOptions o) {
         o.feed_through = FeedThrough::inside;
         return step(to_zero_pole_gain(s, o));
       }},
      {"sos", [](const System& s, const ConversionOptions& o) { return step(to_sections(s, o)); }},
  };
  return all;
}

// The report tells the truth: its error is the one that wider arithmetic finds, and no more than the condition
// explains.
void expect_true(const Step& made, const System& source, std::size_t length, const std::string& what) {
  const double error = difference(oracle(made.system, length), oracle(source, length)), reported = made.report.error;
  const double floor = 0x1p-90 * made.report.condition;  // where 106 bits end
  EXPECT_EQ(made.report.length, length);
  EXPECT_LE(error, 2 * reported + floor) << what;
  EXPECT_LE(reported, 2 * error + floor) << what;
  EXPECT_GE(made.report.condition, 1) << what;
}

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
        wrongly += drawn.poles == Poles::drawn && (drawn.tf.order < 2 || drawn.tf.a[drawn.tf.order - 2] != 0);
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
