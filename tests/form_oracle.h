// What the conversions are held against: impulse responses by the definitions, in an arithmetic of its own, and
// random systems with clustered and repeated poles and delays.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "random_filter.h"
#include "rtf/conversion.h"

namespace rtf::testing {

// Wider than what is tested: 113 bits where the compiler has them.
#ifdef __SIZEOF_FLOAT128__
__extension__ using Wide = __float128;
#else
using Wide = long double;
#endif

inline Wide magnitude(Wide x) { return x < 0 ? -x : x; }

// --- impulse responses by the definitions
// -----------------------------------------------------------------------------

inline std::vector<Wide> oracle(const TransferFunction& tf, std::size_t length) {
  std::vector<Wide> h(length);
  for (std::size_t t = 0; t < length; ++t) {
    h[t] = t >= 1 && t <= tf.order ? tf.b[t - 1] : 0;
    for (std::size_t k = 1; k <= tf.order && k < t; ++k) h[t] -= tf.a[k - 1] * h[t - k];
  }
  if (length > 0) h[0] = tf.h0[0];
  return h;
}

inline std::vector<Wide> oracle(const PolynomialRatio& ratio, std::size_t length) {
  std::vector<Wide> h(length);
  for (std::size_t t = 0; t < length; ++t) {
    h[t] = t < ratio.b.size() ? ratio.b[t] : 0;
    for (std::size_t k = 1; k < ratio.a.size() && k <= t; ++k) h[t] -= ratio.a[k] * h[t - k];
    h[t] /= ratio.a[0];
  }
  return h;
}

// x' = A x from x = B; the first row of y is D.
inline std::vector<Wide> oracle(const StateSpace& s, std::size_t length, std::size_t output = 0,
                                std::size_t input = 0) {
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

inline std::vector<Wide> oracle(const Modal& modal, std::size_t length) {
  std::vector<Wide> h(length);
  for (std::size_t i = 0; i < modal.poles.size(); ++i) {
    WideComplex term = modal.residues[i];
    for (std::size_t t = 1; t < length; ++t, term = term * modal.poles[i]) h[t] += term.re;
  }
  if (length > 0) h[0] = modal.h0;
  return h;
}

// One complex pole after the other, each with the zero that is nearest to it: that keeps the numbers small.
inline std::vector<Wide> oracle(const ZeroPoleGain& zpk, std::size_t length) {
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

inline std::vector<Wide> oracle(const SecondOrderSections& sos, std::size_t length) {
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

inline std::vector<Wide> oracle(const System& system, std::size_t length) {
  return std::visit([&](const auto& form) { return oracle(form, length); }, system);
}

inline double difference(const std::vector<Wide>& actual, const std::vector<Wide>& expected) {
  Wide error = 0, largest = 0;
  for (std::size_t t = 0; t < expected.size(); ++t) {
    error = std::max(error, magnitude(actual[t] - expected[t]));
    largest = std::max(largest, magnitude(expected[t]));
  }
  return static_cast<double>(largest > 0 ? error / largest : error);
}

// --- random systems -----------------------------------------------------------------------------------------------

// 1, c_1, ..., c_n of the polynomial with these real roots and pairs.
inline std::vector<double> expanded(const std::vector<std::complex<double>>& roots) {
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

inline Case draw(RandomFilters& random) {
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

// A narrow low-pass as filter design has them: poles of a Butterworth filter, all near 1, all zeros at -1.
inline ZeroPoleGain narrow(std::size_t order, double cutoff) {
  ZeroPoleGain zpk;
  const double pi = 3.141592653589793, radius = std::tan(pi * cutoff / 2);
  long double gain = 1;
  for (std::size_t k = 0; k < order / 2; ++k) {
    const std::complex<double> s =
        std::polar(radius, pi / 2 + pi * static_cast<double>(2 * k + 1) / static_cast<double>(2 * order));
    const std::complex<double> pole = (1.0 + s) / (1.0 - s);
    zpk.poles.insert(zpk.poles.end(), {pole, std::conj(pole)});
    gain *= std::norm(1.0 - pole) / 4;
  }
  if (order % 2 == 1) {
    zpk.poles.push_back((1 - radius) / (1 + radius));
    gain *= (1 - zpk.poles.back().real()) / 2;
  }
  zpk.zeros.assign(order, -1.0);
  zpk.gain = static_cast<double>(gain);
  return zpk;
}

// Sections one after the other as one state space, each fed by the output of the one before.
inline StateSpace cascade(const SecondOrderSections& sos) {
  const std::size_t n = 2 * sos.sections.size();
  StateSpace s{n, 1, 1, std::vector<double>(n * n), std::vector<double>(n), std::vector<double>(n), {1}};
  for (std::size_t i = 0; i < sos.sections.size(); ++i) {
    const auto& c = sos.sections[i];
    const std::size_t row = 2 * i;
    // u is the output so far: C x + D u_0.
    for (std::size_t k = 0; k < row; ++k) s.A[row * n + k] = s.C[k];
    s.B[row] = s.D[0];
    s.A[row * n + row] = -c[4];
    s.A[row * n + row + 1] = -c[5];
    s.A[(row + 1) * n + row] = 1;
    for (std::size_t k = 0; k < row; ++k) s.C[k] *= c[0];
    s.D[0] *= c[0];
    s.C[row] = c[1] - c[0] * c[4];
    s.C[row + 1] = c[2] - c[0] * c[5];
  }
  return s;
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

inline const std::vector<std::pair<std::string, Convert>>& conversions() {
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
inline void expect_true(const Step& made, const System& source, std::size_t length, const std::string& what) {
  const double error = difference(oracle(made.system, length), oracle(source, length)), reported = made.report.error;
  const double floor = 0x1p-90 * made.report.condition;  // where 106 bits end
  EXPECT_EQ(made.report.length, length);
  EXPECT_LE(error, 2 * reported + floor) << what;
  EXPECT_LE(reported, 2 * error + floor) << what;
  EXPECT_GE(made.report.condition, 1) << what;
}

}  // namespace rtf::testing
