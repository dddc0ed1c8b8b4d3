#include "rtf/reduce.h"

#include <gtest/gtest.h>

#include <Eigen/SVD>
#include <algorithm>
#include <cmath>
#include <numbers>

#include "random_filter.h"
#include "rtf/error.h"
#include "rtf/executor.h"
#include "rtf/response.h"
#include "rtf/stability.h"

namespace rtf {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using testing::RandomFilters;
using testing::reference_kernel;

// h_1..h_{length-1} of every output to every input, by stepping: responses[output * inputs + input].
std::vector<std::vector<double>> markov(const StateSpace& s, std::size_t length) {
  std::vector<std::vector<double>> responses(s.outputs * s.inputs);
  for (std::size_t input = 0; input < s.inputs; ++input) {
    std::vector<long double> x(s.order);
    for (std::size_t i = 0; i < s.order; ++i) x[i] = s.B[i * s.inputs + input];
    for (std::size_t t = 1; t < length; ++t) {
      for (std::size_t output = 0; output < s.outputs; ++output) {
        long double y = 0;
        for (std::size_t i = 0; i < s.order; ++i) y += s.C[output * s.order + i] * x[i];
        responses[output * s.inputs + input].push_back(static_cast<double>(y));
      }
      std::vector<long double> next(s.order, 0.0L);
      for (std::size_t i = 0; i < s.order; ++i)
        for (std::size_t j = 0; j < s.order; ++j) next[i] += s.A[i * s.order + j] * x[j];
      x = std::move(next);
    }
  }
  return responses;
}

// Singular values of the block Hankel matrix of these responses: the definition of Hankel singular values.
Eigen::VectorXd hankel_by_definition(const std::vector<std::vector<double>>& responses, std::size_t outputs,
                                     std::size_t inputs) {
  const auto size = static_cast<Index>(responses[0].size() / 2);
  MatrixXd H(size * static_cast<Index>(outputs), size * static_cast<Index>(inputs));
  for (std::size_t o = 0; o < outputs; ++o)
    for (std::size_t i = 0; i < inputs; ++i)
      for (Index s = 0; s < size; ++s)
        for (Index t = 0; t < size; ++t)
          H(s * static_cast<Index>(outputs) + static_cast<Index>(o),
            t * static_cast<Index>(inputs) + static_cast<Index>(i)) =
              responses[o * inputs + i][static_cast<std::size_t>(s + t)];
  return Eigen::JacobiSVD<MatrixXd>(H).singularValues();
}

StateSpace random_system(RandomFilters& random, std::size_t order, std::size_t inputs, std::size_t outputs) {
  StateSpace s;
  s.order = order;
  s.inputs = inputs;
  s.outputs = outputs;
  s.A = random.normals(order * order);
  s.B = random.normals(order * inputs);
  s.C = random.normals(outputs * order);
  s.D = random.normals(outputs * inputs);
  // A norm below one, so that responses die out within the lengths used here.
  Eigen::Map<MatrixXd> A(s.A.data(), static_cast<Index>(order), static_cast<Index>(order));
  A *= 0.78 / Eigen::JacobiSVD<MatrixXd>(A).singularValues()[0];
  return s;
}

TEST(Reduce, ValuesAreThoseOfTheHankelMatrixAndTheErrorStaysBelowTheBound) {
  RandomFilters random(1);
  for (int trial = 0; trial < 40; ++trial) {
    const std::size_t n = random.integer(1, 24);
    const auto [channels, groups] = random.channels_and_groups(3);
    TransferFunction tf = random.draw(channels, groups, n);
    double radius = 0;
    for (std::size_t g = 0; g < groups; ++g) radius = std::max(radius, pole_radius(std::span(tf.a).subspan(g * n, n)));
    if (radius > 0.9) continue;  // the definition below needs a kernel that has died out
    SCOPED_TRACE(::testing::Message() << "trial " << trial << " order " << n);
    const std::size_t order = random.integer(0, n), length = 501;
    const Reduction reduced = reduce(tf, order);
    ASSERT_EQ(reduced.tf.order, order);
    ASSERT_EQ(reduced.tf.groups, groups);
    EXPECT_EQ(reduced.tf.h0, tf.h0);
    const std::size_t members = channels / groups;
    for (std::size_t g = 0; g < groups; ++g) {
      std::vector<std::vector<double>> responses;
      for (std::size_t c = g * members; c < (g + 1) * members; ++c) {
        const auto h = reference_kernel(tf, c, length);
        responses.emplace_back(h.begin() + 1, h.end());
      }
      const Eigen::VectorXd expected = hankel_by_definition(responses, members, 1);
      double tail = 0;
      for (std::size_t i = 0; i < n; ++i) {
        EXPECT_NEAR(reduced.hankel[g][i], expected[static_cast<Index>(i)], 1e-9 * expected[0]);
        if (i >= order) tail += expected[static_cast<Index>(i)];
      }
      EXPECT_NEAR(reduced.bound[g], 2 * tail, 1e-8 * expected[0]);
      EXPECT_TRUE(is_stable(std::span(reduced.tf.a).subspan(g * order, order)));
      // Rounding of the new coefficients is no part of the bound.
      const double slack = 1e-9 * expected[0] * std::max(1.0, condition(reduced.tf, length) / 1e6);
      double all = 0;
      for (std::size_t c = g * members; c < (g + 1) * members; ++c) {
        EXPECT_LE(reduced.error[c], reduced.bound[g] + slack);
        all += reduced.error[c] * reduced.error[c];
      }
      // No system of this order is nearer than the next singular value; the grid may miss a little of the peak.
      if (order < n) {
        EXPECT_GE(std::sqrt(all) + slack, 0.99 * expected[static_cast<Index>(order)]);
      }
    }
  }
}

TEST(Reduce, ReportsTheLargestDifference) {
  RandomFilters random(2);
  const TransferFunction tf = random.draw(2, 2, 12);
  const Reduction reduced = reduce(tf, 5);
  std::vector<double> angles;
  for (int i = 0; i <= 20000; ++i) angles.push_back(std::numbers::pi * i / 20000);
  const auto x = frequency_response(tf, angles), y = frequency_response(reduced.tf, angles);
  for (std::size_t c = 0; c < 2; ++c) {
    double largest = 0;
    for (std::size_t i = 0; i < angles.size(); ++i)
      largest = std::max(largest, std::abs(x[c * angles.size() + i] - y[c * angles.size() + i]));
    EXPECT_NEAR(reduced.error[c], largest, 1e-3 * largest);
  }
}

// Counts what others run on it.
class CountingExecutor : public Executor {
 public:
  std::size_t workers() const override { return 1; }
  void run(std::size_t tasks, Task task, void* context) override {
    ++runs;
    for (std::size_t i = 0; i < tasks; ++i) task(context, i, 0);
  }

  static inline std::size_t runs = 0;
};

TEST(Reduce, SameBitsForEveryThreadCountOnTheExecutorThatIsGiven) {
  RandomFilters random(5);
  const auto one = make_thread_pool(1), three = make_thread_pool(3);
  for (const std::size_t groups : {6, 2}) {
    const TransferFunction tf = random.draw(6, groups, 10);
    const std::size_t threads_before = threads();
    set_default_executor(std::make_unique<CountingExecutor>());
    CountingExecutor::runs = 0;
    const Reduction x = reduce(tf, 4, *one), y = reduce(tf, 4, *three);
    EXPECT_EQ(CountingExecutor::runs, 0u);
    set_threads(threads_before);
    EXPECT_EQ(x.tf.a, y.tf.a);
    EXPECT_EQ(x.tf.b, y.tf.b);
    EXPECT_EQ(x.error, y.error);
  }
}

TEST(Reduce, OfAStateSpace) {
  RandomFilters random(3);
  for (int trial = 0; trial < 12; ++trial) {
    const std::size_t n = random.integer(1, 20), inputs = random.integer(1, 3), outputs = random.integer(1, 3);
    SCOPED_TRACE(::testing::Message() << "trial " << trial << " order " << n);
    const StateSpace system = random_system(random, n, inputs, outputs);
    const auto responses = markov(system, 201);
    const Eigen::VectorXd expected = hankel_by_definition(responses, outputs, inputs);
    const std::size_t order = random.integer(0, n);
    const StateSpaceReduction reduced = reduce(system, order);
    for (std::size_t i = 0; i < n; ++i)
      EXPECT_NEAR(reduced.hankel[i], expected[static_cast<Index>(i)], 1e-9 * expected[0]);
    ASSERT_LE(reduced.system.order, order);
    EXPECT_EQ(reduced.system.D, system.D);
    // The difference is a system too; its Hankel norm lies between the next value and the bound.
    auto difference = markov(reduced.system, 201);
    for (std::size_t i = 0; i < difference.size(); ++i)
      for (std::size_t t = 0; t < difference[i].size(); ++t) difference[i][t] -= responses[i][t];
    const double norm = hankel_by_definition(difference, outputs, inputs)[0];
    EXPECT_LE(norm, reduced.bound + 1e-9 * expected[0]);
    if (order < n) {
      EXPECT_GE(norm, expected[static_cast<Index>(order)] - 1e-9 * expected[0]);
    }
  }
}

TEST(Realization, HasTheKernelOfEveryForm) {
  RandomFilters random(21);
  for (const std::size_t order : {0, 1, 2, 5, 12}) {
    SCOPED_TRACE(order);
    const TransferFunction tf = random.draw(1, 1, order);
    const std::vector<System> forms = {tf,
                                       to_polynomial_ratio(tf).value,
                                       to_state_space(System(tf)).value,
                                       to_modal(tf).value,
                                       to_zero_pole_gain(tf).value,
                                       to_sections(tf).value};
    for (const System& form : forms) {
      SCOPED_TRACE(form_name(form));
      const std::vector<double> expected = kernel(form, 300), found = kernel(System(realization(form)), 300);
      double size = 0;
      for (const double value : expected) size = std::max(size, std::abs(value));
      for (std::size_t t = 0; t < 300; ++t) ASSERT_NEAR(found[t], expected[t], 1e-9 * size) << t;
    }
  }
}

// 64 poles within 0.2 of 1, whose 64 coefficients no double holds: in sections, and in what is made of those, they fit.
TEST(Realization, ANarrowFilterOfHighOrderKeepsItsBound) {
  SecondOrderSections sos;
  for (int i = 0; i < 32; ++i) {
    const auto pole = std::polar(0.9 + 0.09 * i / 31, 0.02 + 0.12 * i / 31);
    const double zero = std::cos(0.3 + 0.08 * i);
    const double gain = std::norm(1.0 - pole) / (2 - 2 * zero);
    sos.sections.push_back({gain, -2 * gain * zero, gain, 1, -2 * pole.real(), std::norm(pole)});
  }
  EXPECT_THROW(to_transfer_function(sos), Error);
  const StateSpace system = realization(sos);
  ASSERT_EQ(system.order, 64u);
  for (const std::size_t order : {4, 8, 16, 32}) {
    SCOPED_TRACE(order);
    const StateSpaceReduction reduced = reduce(system, order);
    const double error = largest_difference(system, reduced.system);
    EXPECT_LE(error, reduced.bound + 1e-12 * reduced.hankel[0]);
    EXPECT_GE(error, reduced.hankel[order] - 1e-12 * reduced.hankel[0]);
  }
}

TEST(LargestDifference, IsThatOfTheDefinition) {
  RandomFilters random(22);
  const TransferFunction tf = random.draw(2, 1, 9);
  const StateSpace one = realization(select_channel(tf, 0)), other = realization(select_channel(tf, 1));
  std::vector<double> angles;
  for (int i = 0; i <= 20000; ++i) angles.push_back(std::numbers::pi * i / 20000);
  const auto H = frequency_response(tf, angles);
  double largest = 0;
  for (std::size_t i = 0; i < angles.size(); ++i) largest = std::max(largest, std::abs(H[i] - H[angles.size() + i]));
  EXPECT_NEAR(largest_difference(one, other), largest, 1e-3 * largest);
  EXPECT_EQ(largest_difference(one, one), 0);
  EXPECT_THROW(largest_difference(one, random_system(random, 3, 2, 1)), Error);
}

// The difference as one system, whose largest value another search finds with a proof that nothing is above it.
TEST(LargestDifference, IsTheNormOfTheDifference) {
  RandomFilters random(23);
  for (int round = 0; round < 40; ++round) {
    const std::size_t n = random.integer(2, 16);
    const TransferFunction tf = random.draw(1, 1, n);
    if (!is_stable(tf.a) || pole_radius(tf.a) > 1 - 1e-6) continue;  // a comb of radius 1
    const Reduction reduced = reduce(tf, n / 2);
    const StateSpace one = realization(tf), other = realization(reduced.tf);
    StateSpace both = one;
    both.order = one.order + other.order;
    both.A.assign(both.order * both.order, 0.0);
    for (std::size_t i = 0; i < one.order; ++i)
      for (std::size_t j = 0; j < one.order; ++j) both.A[i * both.order + j] = one.A[i * one.order + j];
    for (std::size_t i = 0; i < other.order; ++i)
      for (std::size_t j = 0; j < other.order; ++j)
        both.A[(one.order + i) * both.order + one.order + j] = other.A[i * other.order + j];
    both.B.insert(both.B.end(), other.B.begin(), other.B.end());
    for (const double x : other.C) both.C.push_back(-x);
    both.D[0] -= other.D[0];
    const auto [difference, report] = to_transfer_function(both);
    const double norm = h_infinity_norm(difference)[0].value, allowed = 1e-8 + 1e3 * report.error;
    EXPECT_NEAR(reduced.error[0] / norm, 1, allowed) << n;
    EXPECT_NEAR(largest_difference(one, other) / norm, 1, allowed) << n;
  }
}

TEST(Reduce, ToTheSameOrderKeepsTheKernel) {
  RandomFilters random(4);
  for (const std::size_t n : {1, 2, 9, 30}) {
    const TransferFunction tf = random.draw(3, 1, n);
    const Reduction same = reduce(tf, n);
    for (std::size_t c = 0; c < 3; ++c) {
      const auto kernel = reference_kernel(tf, c, 300);
      EXPECT_LE(testing::relative_error(reference_kernel(same.tf, c, 300), kernel),
                1e-9 * std::max(1.0, condition(tf, 300) / 1e4));
    }
  }
}

TEST(Reduce, DropsWhatIsNotThere) {
  // The pole at 0.9 has residue zero: order 1 is exact.
  TransferFunction tf = make_coefficients(1, 1, 2);
  tf.a = {-1.4, 0.45};
  tf.b = {1.0, -0.9};
  const Reduction reduced = reduce(tf, 1);
  EXPECT_NEAR(reduced.tf.a[0], -0.5, 1e-12);
  EXPECT_NEAR(reduced.tf.b[0], 1, 1e-12);
  EXPECT_LE(reduced.error[0], 1e-12);
  tf.b = {0.0, 0.0};
  EXPECT_EQ(reduce(tf, 1).tf.b[0], 0);
  EXPECT_EQ(reduce(make_coefficients(2, 1, 0), 0).tf.h0, std::vector<double>(2, 1.0));
}

// Squares of these gains leave the range of doubles; all but a factor stays as it is at gain 1.
TEST(Reduce, OfAnyGain) {
  TransferFunction tf = make_coefficients(1, 1, 3);
  tf.a = {-0.5, 0.06, 0.1};
  tf.b = {1.0, 1.0, -0.25};
  tf.h0 = {0.0};
  StateSpace system = to_state_space(tf, 0);
  const Reduction expected = reduce(tf, 2);
  const StateSpaceReduction expected_system = reduce(system, 2);
  const std::vector<double> b = tf.b, C = system.C, B = system.B, hankel = hankel_singular_values(tf);
  for (const int exponent : {-1000, -660, 1, 660, 1020}) {
    SCOPED_TRACE(exponent);
    for (std::size_t k = 0; k < 3; ++k) tf.b[k] = std::ldexp(b[k], exponent);
    const Reduction reduced = reduce(tf, 2);
    EXPECT_EQ(reduced.tf.a, expected.tf.a);
    for (std::size_t k = 0; k < 2; ++k) EXPECT_EQ(std::ldexp(reduced.tf.b[k], -exponent), expected.tf.b[k]);
    EXPECT_EQ(std::ldexp(reduced.bound[0], -exponent), expected.bound[0]);
    const auto found = hankel_singular_values(tf);
    for (std::size_t k = 0; k < 3; ++k) {
      EXPECT_EQ(std::ldexp(reduced.hankel[0][k], -exponent), expected.hankel[0][k]);
      EXPECT_NEAR(std::ldexp(found[k], -exponent), hankel[k], 1e-15);
      system.C[k] = std::ldexp(C[k], exponent);
    }
    const StateSpaceReduction other = reduce(system, 2);
    EXPECT_NEAR(std::ldexp(other.hankel[0], -exponent), expected_system.hankel[0], 1e-14);
    for (std::size_t k = 0; k < 4; ++k) EXPECT_NEAR(other.system.A[k], expected_system.system.A[k], 1e-12);
    for (std::size_t k = 0; k < 2; ++k)  // balanced: the gain is in equal parts in both
      EXPECT_NEAR(std::abs(std::ldexp(other.system.B[k] * other.system.C[k], -exponent)),
                  std::abs(expected_system.system.B[k] * expected_system.system.C[k]), 1e-12);
  }
}

void expect_refusal(ErrorCode code, const std::string& text, const auto& call) {
  try {
    call();
    FAIL() << "no error; expected " << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
  }
}

TEST(Reduce, RefusesUnstableSystemsAndHigherOrders) {
  TransferFunction tf = make_coefficients(1, 1, 2);
  tf.a = {-2.0, 1.02};
  tf.b = {1.0, 0.0};
  expect_refusal(ErrorCode::unstable, "[rtf::reduce] denominator 0 has a pole of modulus 1.0", [&] { reduce(tf, 1); });
  expect_refusal(ErrorCode::unstable, "[rtf::reduce]", [&] { reduce(to_state_space(tf, 0), 1); });
  tf.a = {-1.0, 0.0};
  expect_refusal(ErrorCode::unstable, "modulus 1;", [&] { reduce(tf, 1); });
  expect_refusal(ErrorCode::argument, "order 3 is above the order 2", [&] { reduce(tf, 3); });
}

}  // namespace
}  // namespace rtf
