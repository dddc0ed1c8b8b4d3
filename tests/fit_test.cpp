#include "rtf/fit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/roots.h"
#include "expect_refusal.h"
#include "random_filter.h"
#include "rtf/conversion.h"
#include "rtf/error.h"
#include "rtf/kernel.h"
#include "rtf/response.h"
#include "rtf/stability.h"

namespace rtf {
namespace {

using testing::RandomFilters;
using testing::reference_kernel;

constexpr FitMethod all_methods[] = {FitMethod::hankel, FitMethod::prony, FitMethod::iterative};

std::vector<double> kernels(const TransferFunction& tf, std::size_t length) {
  std::vector<double> result;
  for (std::size_t c = 0; c < tf.channels; ++c)
    for (const long double value : reference_kernel(tf, c, length)) result.push_back(static_cast<double>(value));
  return result;
}

// |x - y| / |y| in l2 of each channel, the first `from` samples left out of the difference.
std::vector<double> l2_errors(const std::vector<double>& x, const std::vector<double>& y, std::size_t channels,
                              std::size_t from = 0) {
  const std::size_t length = y.size() / channels;
  std::vector<double> errors;
  for (std::size_t c = 0; c < channels; ++c) {
    long double difference = 0, whole = 0;
    for (std::size_t t = 0; t < length; ++t) {
      const long double d = static_cast<long double>(x[c * length + t]) - y[c * length + t];
      if (t >= from) difference += d * d;
      whole += static_cast<long double>(y[c * length + t]) * y[c * length + t];
    }
    errors.push_back(static_cast<double>(whole > 0 ? std::sqrt(difference / whole) : std::sqrt(difference)));
  }
  return errors;
}

double largest(const std::vector<double>& values) { return *std::max_element(values.begin(), values.end()); }

// What the targets allow, for 1e-8: beyond kappa = 1e6 in proportion to it.
double recovery_bound(double kappa) { return 1e-8 * std::max(1.0, kappa / 1e6); }

// Pairs of poles with moduli in [low, high] and any angle.
std::vector<double> resonant_denominator(RandomFilters& random, std::size_t order, double low, double high) {
  std::vector<std::complex<double>> poles;
  while (poles.size() + 1 < order) {
    poles.push_back(std::polar(random.uniform(low, high), random.uniform(0.01, 0.99) * std::numbers::pi));
    poles.push_back(std::conj(poles.back()));
  }
  if (poles.size() < order) poles.push_back(random.uniform(low, high));
  return rounded(expand(paired_roots(poles)));
}

TransferFunction resonant_filter(RandomFilters& random, std::size_t channels, std::size_t groups, std::size_t order,
                                 double low = 0.8, double high = 0.98) {
  TransferFunction tf = make_coefficients(channels, groups, order);
  for (std::size_t g = 0; g < groups; ++g) {
    const auto a = resonant_denominator(random, order, low, high);
    std::copy(a.begin(), a.end(), tf.a.begin() + static_cast<std::ptrdiff_t>(g * order));
  }
  for (double& value : tf.b) value = random.normal();
  for (double& value : tf.h0) value = random.normal();
  return tf;
}

void expect_recovery(const TransferFunction& tf, std::size_t length, const FitOptions& options, double bound) {
  const std::size_t longer = length + 2000;
  const Fit found = fit(kernels(tf, length), tf.channels, length, options);
  EXPECT_LE(largest(found.error), bound);
  EXPECT_LT(largest(found.radius), 1);
  EXPECT_LE(largest(l2_errors(kernels(found.tf, longer), kernels(tf, longer), tf.channels)), bound);
}

TEST(Fit, RecoversASystemOfOrder24From400Samples) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    RandomFilters random(seed);
    const TransferFunction tf = resonant_filter(random, 1, 1, 24);
    expect_recovery(tf, 400, {24}, recovery_bound(condition(tf, 2400)));
  }
}

// Eight poles within 0.1 of each other, whose coefficients rounded one by one leave some 1e-10 of the kernel. The
// kernel of doubles in 106 bits tells what they hold, whatever running them costs.
TEST(Fit, CoefficientsAreRoundedTogether) {
  ZeroPoleGain zpk;
  for (const double angle : {0.30, 0.33, 0.36, 0.39}) {
    zpk.poles.push_back(std::polar(0.95, angle));
    zpk.poles.push_back(std::polar(0.95, -angle));
  }
  zpk.gain = 1e-4;
  const std::vector<double> samples = kernel(zpk, 300);
  const auto error_of = [&](const TransferFunction& tf) {
    return largest(l2_errors(kernel(System(tf), 300), samples, 1));
  };
  EXPECT_LT(error_of(fit(samples, 1, 300, {8}).tf), 0.01 * error_of(to_transfer_function(zpk).value));
}

TEST(Fit, RecoversRandomFiltersOfEveryFamily) {
  RandomFilters random(7);
  for (int trial = 0; trial < 60; ++trial) {
    const std::size_t order = random.integer(0, 40), length = 3 * order + random.integer(10, 400);
    const auto [channels, groups] = random.channels_and_groups(4);
    const TransferFunction tf = random.draw(channels, groups, order);
    if (const auto& a = tf.a; order > 0 && pole_radius({a.data(), order}) > 0.999) continue;
    SCOPED_TRACE(::testing::Message() << "trial " << trial << " order " << order << " length " << length);
    FitOptions options{order};
    options.groups = groups;
    expect_recovery(tf, length, options, recovery_bound(condition(tf, length + 2000)));
  }
}

TEST(Fit, SurplusOrderDoesNoHarm) {
  RandomFilters random(3);
  for (const std::size_t surplus : {1, 2, 7, 30}) {
    SCOPED_TRACE(surplus);
    const TransferFunction tf = resonant_filter(random, 2, 2, 9, 0.7, 0.95);
    for (const FitMethod method : all_methods)
      expect_recovery(tf, 200, {9 + surplus, method}, 1e-8 * std::max(1.0, condition(tf, 2200) / 1e5));
  }
}

TEST(Fit, TrivialKernelsAreExact) {
  for (const FitMethod method : all_methods) {
    const std::vector<double> zero(64, 0.0);
    const Fit nothing = fit(zero, 2, 32, {5, method});
    EXPECT_EQ(kernels(nothing.tf, 32), zero);
    EXPECT_EQ(nothing.error, std::vector<double>(2, 0.0));

    RandomFilters random(1);
    const std::vector<double> noise = random.normals(20);
    for (const std::size_t order : {std::size_t{19}, std::size_t{20}, std::size_t{50}}) {  // numerators suffice
      const Fit fir = fit(noise, 1, 20, {order, method});
      EXPECT_EQ(kernels(fir.tf, 20), noise);
      EXPECT_EQ(fir.tf.order, order);
      EXPECT_EQ(fir.error[0], 0);
    }
    const Fit gain = fit(noise, 1, 20, {0, method});
    EXPECT_EQ(gain.tf.h0[0], noise[0]);
    EXPECT_NEAR(gain.error[0], l2_errors(kernels(gain.tf, 20), noise, 1)[0], 1e-15);
    const Fit one = fit(std::vector<double>{3.0}, 1, 1, {4, method});
    EXPECT_EQ(one.tf.h0[0], 3);
    EXPECT_EQ(one.error[0], 0);

    std::vector<double> delay(100, 0.0);  // a FIR filter of order 7
    delay[7] = 2;
    EXPECT_LE(fit(delay, 1, 100, {7, method}).error[0], 1e-12);
  }
}

// The best stable pole for a kernel that grows lies at the circle, where steps that cross it must not be the last.
TEST(Fit, FindsThePoleOfAKernelThatGrows) {
  for (const double rate : {1.001, 1.01, 1.05, -1.01}) {
    SCOPED_TRACE(rate);
    std::vector<double> kernel;
    for (int t = 0; t < 50; ++t) kernel.push_back(std::pow(rate, t));
    const auto error_at = [&](double pole) {
      double power = 1, product = 0, square = 0, whole = 1, rest = 0;
      for (std::size_t t = 1; t < 50; ++t, power *= pole) {
        product += power * kernel[t];
        square += power * power;
        whole += kernel[t] * kernel[t];
        rest += kernel[t] * kernel[t];
      }
      return std::sqrt((rest - product * product / square) / whole);
    };
    double best = 1;
    for (int i = -9999; i < 10000; ++i) best = std::min(best, error_at(i / 10000.0));
    EXPECT_LE(fit(kernel, 1, 50, {1, FitMethod::iterative}).error[0], 1.02 * best);
  }
}

TEST(Fit, ReportsTheErrorAndTheIterativeFitIsTheBest) {
  RandomFilters random(11);
  for (int trial = 0; trial < 25; ++trial) {
    const std::size_t length = random.integer(2, 300), order = random.integer(0, std::min<std::size_t>(40, length));
    const auto [channels, groups] = random.channels_and_groups(4);
    SCOPED_TRACE(::testing::Message() << "trial " << trial << " order " << order << " length " << length);
    std::vector<double> kernel = random.normals(channels * length);
    const double rate = random.uniform(-0.01, 0.1);  // some grow
    for (std::size_t i = 0; i < kernel.size(); ++i) kernel[i] *= std::exp(-rate * static_cast<double>(i % length));
    double least = HUGE_VAL;
    for (const FitMethod method : all_methods) {
      FitOptions options{order, method, groups};
      const Fit found = fit(kernel, channels, length, options);
      for (std::size_t g = 0; g < groups; ++g) EXPECT_TRUE(is_stable(std::span(found.tf.a).subspan(g * order, order)));
      EXPECT_LE(condition(found.tf, length), 1e12);
      const std::vector<double> errors = l2_errors(kernels(found.tf, length), kernel, channels);
      double squares = 0;
      for (std::size_t c = 0; c < channels; ++c) {
        EXPECT_NEAR(found.error[c], errors[c], 1e-3 * errors[c] + 1e-12);
        EXPECT_LE(found.error[c], 1 + 1e-12);
        squares += found.error[c] * found.error[c];
      }
      if (method == FitMethod::iterative) {
        EXPECT_LE(squares, least * (1 + 1e-12));
      }
      least = std::min(least, squares);
    }
  }
}

TEST(Fit, ScaleDoesNotMatter) {
  RandomFilters random(5);
  const std::vector<double> kernel = random.normals(120);
  const Fit plain = fit(kernel, 1, 120, {8});
  for (const double scale : {0x1p-400, 0x1p400}) {
    std::vector<double> scaled = kernel;
    for (double& value : scaled) value *= scale;
    const Fit found = fit(scaled, 1, 120, {8});
    EXPECT_NEAR(found.error[0], plain.error[0], 1e-9);
    EXPECT_NEAR(found.hankel[0][0] / scale, plain.hankel[0][0], 1e-9 * plain.hankel[0][0]);
  }
}

TEST(Fit, SharesADenominator) {
  RandomFilters random(13);
  const TransferFunction tf = resonant_filter(random, 6, 2, 12, 0.7, 0.95);
  for (const FitMethod method : all_methods) {
    FitOptions options{12, method, 2};
    expect_recovery(tf, 300, options, recovery_bound(condition(tf, 2300)) * (method == FitMethod::hankel ? 100 : 1));
  }
}

TEST(Fit, SameBitsForEveryThreadCount) {
  RandomFilters random(17);
  std::vector<double> kernel = random.normals(6 * 400);
  for (std::size_t i = 0; i < kernel.size(); ++i) kernel[i] *= std::exp(-0.01 * static_cast<double>(i % 400));
  for (const std::size_t groups : {6, 2}) {
    FitOptions options{10, FitMethod::iterative, groups};
    const auto one = make_thread_pool(1), three = make_thread_pool(3);
    const Fit x = fit(kernel, 6, 400, options, *one), y = fit(kernel, 6, 400, options, *three);
    EXPECT_EQ(x.tf.a, y.tf.a);
    EXPECT_EQ(x.tf.b, y.tf.b);
    EXPECT_EQ(x.hankel, y.hankel);
  }
}

TEST(Fit, StateSpaceIsTheSameForEveryThreadCount) {
  RandomFilters random(18);
  const TransferFunction tf = resonant_filter(random, 6, 6, 8);
  const std::vector<double> kernel = kernels(tf, 400);
  for (const std::size_t groups : {6, 2}) {
    const FitOptions options{8, FitMethod::hankel, groups};
    const auto one = make_thread_pool(1), three = make_thread_pool(3);
    const StateSpaceFit x = fit_state_space(kernel, 6, 400, options, *one);
    const StateSpaceFit y = fit_state_space(kernel, 6, 400, options, *three);
    EXPECT_EQ(x.error, y.error);
    EXPECT_EQ(x.radius, y.radius);
    EXPECT_EQ(x.hankel, y.hankel);
    for (std::size_t c = 0; c < 6; ++c) {
      EXPECT_EQ(x.systems[c].A, y.systems[c].A);
      EXPECT_EQ(x.systems[c].C, y.systems[c].C);
      if (groups < 6) continue;  // three systems have more poles than one of their order
      EXPECT_LE(x.error[c], 1e-8);
      EXPECT_NEAR(x.radius[c], pole_radius({tf.a.data() + c * 8, 8}), 1e-8);
    }
  }
  EXPECT_THROW(fit_state_space(kernel, 6, 400, {8, FitMethod::prony}), Error);
}

TEST(FitResponse, RecoversARationalFunction) {
  RandomFilters random(19);
  for (const std::size_t order : {0, 1, 2, 8, 15}) {
    SCOPED_TRACE(order);
    const TransferFunction tf = resonant_filter(random, 3, order > 0 ? 3 : 1, order, 0.6, 0.95);
    std::vector<double> angles, weights;
    for (std::size_t i = 0; i < 100; ++i) {
      angles.push_back(random.uniform(0, std::numbers::pi));
      weights.push_back(random.uniform(0.1, 2));
    }
    const auto values = frequency_response(tf, angles);
    for (const FitMethod method : {FitMethod::prony, FitMethod::iterative})
      for (const bool weighted : {false, true}) {
        const Fit found = fit_response(angles, values, 3, weighted ? weights : std::vector<double>(), {order, method});
        EXPECT_LE(largest(found.error), 1e-9);
        EXPECT_LE(largest(l2_errors(kernels(found.tf, 300), kernels(tf, 300), 3)),
                  recovery_bound(condition(tf, 300)) * 10);
      }
  }
}

// Against a dense grid search there is no oracle; but more order, and iteration, must help, and weights must shift it.
TEST(FitResponse, ImprovesOnTheLinearFitOfALowPass) {
  std::vector<double> angles;
  std::vector<std::complex<double>> values;
  for (std::size_t i = 0; i <= 200; ++i) {
    angles.push_back(std::numbers::pi * static_cast<double>(i) / 200);
    values.push_back(angles.back() < 1 ? std::polar(1.0, -8 * angles.back()) : 0.0);
  }
  double before = 1;
  for (const std::size_t order : {4, 8, 16}) {
    const double linear = fit_response(angles, values, 1, {}, {order, FitMethod::prony}).error[0];
    const Fit best = fit_response(angles, values, 1, {}, {order});
    EXPECT_LE(best.error[0], linear);
    EXPECT_LT(best.error[0], before);
    EXPECT_LT(best.radius[0], 1);
    before = best.error[0];
    const auto response = frequency_response(best.tf, angles);
    double difference = 0, whole = 0;
    for (std::size_t i = 0; i < angles.size(); ++i) {
      difference += std::norm(response[i] - values[i]);
      whole += std::norm(values[i]);
    }
    EXPECT_NEAR(best.error[0], std::sqrt(difference / whole), 1e-6);
  }
  EXPECT_LT(before, 0.2);
}

TEST(Fit, RefusesBadArguments) {
  const std::vector<double> six(6, 1.0), angles{0.1, 0.2};
  const std::vector<std::complex<double>> values{1.0, 2.0};
  testing::expect_refusal("[rtf::fit] channels is 0", [&] { fit(six, 0, 6, {2}); });
  testing::expect_refusal("length is 0", [&] { fit({}, 1, 0, {2}); });
  testing::expect_refusal("expected (4, 2)", [&] { fit(six, 4, 2, {2}); });
  testing::expect_refusal("2 groups do not divide 3", [&] { fit(six, 3, 2, {1, FitMethod::prony, 2}); });
  testing::expect_refusal("kernel[1][0] is nan", [&] { fit(std::vector<double>{1, 2, std::nan(""), 3}, 2, 2, {1}); });
  testing::expect_refusal("needs a kernel", [&] { fit_response(angles, values, 1, {}, {1, FitMethod::hankel}); });
  testing::expect_refusal("expected (2, 2)", [&] { fit_response(angles, values, 2, {}, {0}); });
  testing::expect_refusal("weights has 1 values",
                          [&] { fit_response(angles, values, 1, std::vector<double>{1}, {0}); });
  testing::expect_refusal("weight 1 is -1", [&] { fit_response(angles, values, 1, std::vector<double>{1, -1}, {0}); });
  testing::expect_refusal("2 angles; order 3 has 7", [&] { fit_response(angles, values, 1, {}, {3}); });
  testing::expect_refusal("angle 0 is inf", [&] {
    fit_response(std::vector<double>{HUGE_VAL, 1.0}, values, 1, {}, {0});
  });
}

}  // namespace
}  // namespace rtf
