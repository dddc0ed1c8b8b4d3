#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "form_oracle.h"
#include "rtf/conversion.h"
#include "rtf/error.h"
#include "rtf/reduce.h"

namespace rtf {
namespace {

using namespace testing;

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

TEST(StateSpaceConversion, ByEitherRoute) {
  RandomFilters random(7);
  for (int round = 0; round < 60; ++round) {
    const StateSpace source =
        draw_state_space(random, round < 4 ? static_cast<std::size_t>(round) : random.integer(1, 40), 1, 1);
    ConversionOptions options;
    options.report_length = 100;
    double errors[3], condition = 1;
    for (const auto method : {StateSpaceMethod::eigenvalues, StateSpaceMethod::markov, StateSpaceMethod::automatic}) {
      options.method = method;
      const auto converted = to_transfer_function(source, options);
      expect_true(step(converted), source, 100, "order " + std::to_string(source.order));
      EXPECT_LE(converted.report.error, 1e-14 * converted.report.condition);
      condition = converted.report.condition;
      errors[static_cast<int>(method)] = converted.report.error;
    }
    EXPECT_LE(errors[0], std::max(std::min(errors[1], errors[2]), 2.3e-16 * condition));
  }
}

TEST(StateSpaceConversion, OfSeveralInputsAndOutputs) {
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

// --- narrow filters --------------------------------------------------------------------------------------------------

// x = T y with T lower triangular: the same system in the coordinates y.
StateSpace in_coordinates(const StateSpace& s, const std::vector<Wide>& T) {
  const std::size_t n = s.order;
  const auto solve = [&](auto&& column) {  // T y = column, in place
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t k = 0; k < i; ++k) column(i) -= T[i * n + k] * column(k);
      column(i) /= T[i * n + i];
    }
  };
  std::vector<Wide> A(n * n), B(s.B.begin(), s.B.end()), C(n);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      for (std::size_t k = j; k < n; ++k) A[i * n + j] += s.A[i * n + k] * T[k * n + j];
      if (i >= j) C[j] += s.C[i] * T[i * n + j];
    }
  for (std::size_t j = 0; j < n; ++j) solve([&](std::size_t i) -> Wide& { return A[i * n + j]; });
  solve([&](std::size_t i) -> Wide& { return B[i]; });
  StateSpace result{n, 1, 1, {}, {}, {}, s.D};
  for (const Wide x : A) result.A.push_back(static_cast<double>(x));
  for (const Wide x : B) result.B.push_back(static_cast<double>(x));
  for (const Wide x : C) result.C.push_back(static_cast<double>(x));
  return result;
}

// The states after an impulse become orthonormal: a reachability Gramian of the identity, over `length` samples.
StateSpace orthonormal(const StateSpace& s, std::size_t length) {
  const std::size_t n = s.order;
  std::vector<std::vector<Wide>> states(n, std::vector<Wide>(length));
  for (std::size_t t = 0; t < length; ++t)
    for (std::size_t i = 0; i < n; ++i) {
      if (t == 0) states[i][0] = s.B[i];
      for (std::size_t k = 0; t > 0 && k < n; ++k) states[i][t] += s.A[i * n + k] * states[k][t - 1];
    }
  std::vector<Wide> T(n * n);  // Gram and Schmidt
  for (std::size_t i = 0; i < n; ++i) {
    const auto dot = [&](std::size_t k) {
      Wide sum = 0;
      for (std::size_t t = 0; t < length; ++t) sum += states[i][t] * states[k][t];
      return sum;
    };
    for (std::size_t k = 0; k < i; ++k) {
      T[i * n + k] = dot(k);
      for (std::size_t t = 0; t < length; ++t) states[i][t] -= T[i * n + k] * states[k][t];
    }
    T[i * n + i] = std::sqrt(static_cast<double>(dot(i)));
    for (std::size_t t = 0; t < length; ++t) states[i][t] /= T[i * n + i];
  }
  return in_coordinates(s, T);
}

// A dense matrix with the same eigenvalues, as well-conditioned as before: reflected at random planes.
StateSpace rotated(StateSpace s, RandomFilters& random) {
  const std::size_t n = s.order;
  for (std::size_t round = 0; round < n; ++round) {
    std::vector<double> v = random.normals(n);
    double norm = 0;
    for (const double x : v) norm += x * x;
    const auto reflect = [&](double* x, std::size_t stride) {
      double sum = 0;
      for (std::size_t i = 0; i < n; ++i) sum += v[i] * x[i * stride];
      for (std::size_t i = 0; i < n; ++i) x[i * stride] -= 2 * sum / norm * v[i];
    };
    for (std::size_t i = 0; i < n; ++i) reflect(&s.A[i * n], 1);
    for (std::size_t j = 0; j < n; ++j) reflect(&s.A[j], n);
    reflect(s.B.data(), 1);
    reflect(s.C.data(), 1);
  }
  return s;
}

TEST(StateSpaceConversion, DenseMatricesOfNarrowFiltersKeepTheKernel) {
  RandomFilters random(13);
  for (const auto& [order, cutoff] : {std::pair<std::size_t, double>{8, 0.01},
                                      {12, 0.02},
                                      {16, 0.05},
                                      {16, 0.02},
                                      {20, 0.1},
                                      {20, 0.05},
                                      {24, 0.1}}) {
    SecondOrderSections sections = to_sections(narrow(order, cutoff)).value;
    // The gain in equal parts: states of one size.
    auto& first = sections.sections.front();
    const double gain = first[0], part = std::pow(gain, 1.0 / static_cast<double>(sections.sections.size()));
    for (std::size_t k = 0; k < 3; ++k) first[k] /= gain;
    for (auto& section : sections.sections)
      for (std::size_t k = 0; k < 3; ++k) section[k] *= part;
    const StateSpace source = rotated(orthonormal(cascade(sections), 4000), random);
    for (const auto& [name, there] : conversions()) {
      if (name == "ba" || name == "ss") continue;  // doubles do not hold the coefficients
      const std::string what = name + ", order " + std::to_string(order) + ", cutoff " + std::to_string(cutoff);
      ConversionOptions options;
      options.report_length = 400;
      const Step made = there(source, options);
      expect_true(made, source, 400, what);
      EXPECT_LE(made.report.error, 1e-12 * made.report.condition) << what;
      EXPECT_LE(made.report.condition, 1e7) << what;  // or the bound would say nothing
    }
  }
}

// Their zeros are all around, and one of them far out for the sake of a feed-through next to nothing: roots of the
// coefficients are no start for them.
TEST(StateSpaceConversion, ReducedNarrowFiltersKeepTheKernel) {
  const StateSpace whole = realization(narrow(64, 0.1));
  const std::pair<std::size_t, std::optional<double>> cases[] = {{16, {}},    {24, {}},  {24, 0.0},
                                                                 {24, 1e-20}, {24, 0.3}, {40, {}}};
  for (const auto& [order, feed_through] : cases) {
    StateSpace source = reduce(whole, order).system;
    if (feed_through) source.D = {*feed_through};
    for (const auto& [name, there] : conversions()) {
      if (name != "modal" && name != "zpk" && name != "sos") continue;  // doubles do not hold the coefficients
      const std::string what = name + ", order " + std::to_string(order) + ", D " + std::to_string(source.D[0]);
      const Step made = there(source, {});
      expect_true(made, source, 1024, what);
      EXPECT_LE(made.report.error, 1e-14 * made.report.condition) << what;
      EXPECT_LE(made.report.error, name == "modal" ? 1e-8 : 1e-12) << what;
    }
    if (order > 16) {
      EXPECT_THROW(to_transfer_function(source), Error);
    }
  }
}

TEST(StateSpaceConversion, RepeatedPolesAreRefusedByModalAlone) {
  RandomFilters random(14);
  StateSpace chain{4, 1, 1, {0.5, 0, 0, 0, 1, 0.5, 0, 0, 0, 1, 0.5, 0, 0, 0, 1, -0.3}, {1, 0, 0, 0}, {0, 0, 0, 1}, {2}};
  for (const StateSpace& source : {chain, rotated(chain, random)})
    for (const auto& [name, there] : conversions()) {
      if (name == "modal") {
        EXPECT_THROW(to_modal(source), Error);
        continue;
      }
      const Step made = there(source, {});
      expect_true(made, source, 1024, name);
      EXPECT_LE(made.report.error, 1e-13 * made.report.condition) << name;
    }
}

}  // namespace
}  // namespace rtf
