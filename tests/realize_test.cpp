#include "rtf/realize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstdio>
#include <functional>

#include "core/float32.h"
#include "expect_refusal.h"
#include "random_model.h"
#include "rtf/correction.h"
#include "rtf/kernel.h"
#include "rtf/stream.h"

namespace rtf {
namespace {

using testing::expect_refusal;
using testing::RandomModels;

// The numbers themselves, without the arithmetic that runs them: kernels in 106 bits against the layer's.
double numbers_error(const LayerRealization& layer, const std::vector<double>& kernel, std::size_t length) {
  const auto got = testing::layer_kernels(layer, length);
  double worst = 0;
  for (std::size_t c = 0; c < got.size(); ++c)
    worst = std::max(worst, testing::relative_error(got[c], std::span(kernel).subspan(c * length, length)));
  return worst;
}

// Poles drawn over the disc up to `radius` and multiplied out: what a direct form in float32 cannot hold.
TransferFunction expanded_poles(RandomModels& random, std::size_t channels, std::size_t order, double radius) {
  auto tf = make_coefficients(channels, channels, order);
  for (std::size_t c = 0; c < channels; ++c) {
    std::vector<long double> a{1};
    for (std::size_t i = 0; i < order; i += 2) {
      const long double r = radius * std::sqrt(random.uniform()), angle = random.uniform(0, 3.14159);
      const long double pair[] = {1, -2 * r * std::cos(angle), r * r};
      std::vector<long double> product(a.size() + 2, 0.0L);
      for (std::size_t j = 0; j < a.size(); ++j)
        for (std::size_t k = 0; k < 3; ++k) product[j + k] += a[j] * pair[k];
      a = product;
    }
    for (std::size_t k = 0; k < order; ++k) tf.a[c * order + k] = static_cast<double>(a[k + 1]);
  }
  tf.b = random.normals(channels * order);
  return tf;
}

TEST(Realize, HoldsItsBound) {
  RandomModels random(1);
  int chosen[3] = {};
  for (int round = 0; round < 120; ++round) {
    const auto [channels, groups] = random.channels_and_groups(6);
    const std::size_t order = round % 12 == 0 ? random.integer(60, 120) : random.integer(0, 24);
    const std::size_t length = random.length(400);
    RealizeOptions options;
    options.precision = random.chance(0.5) ? DataType::f32 : DataType::f64;
    const double bound = options.precision == DataType::f32 ? 1e-5 : 1e-10;
    TransferFunction tf = random.draw(channels, groups, order);
    bool stable = true;
    for (std::size_t g = 0; g < groups; ++g) stable = stable && is_stable(std::span(tf.a).subspan(g * order, order));
    if (!stable) {
      expect_refusal("[rtf::realize] denominator", [&] { realize(tf, length, options); });
      continue;
    }
    const bool wrapped = random.chance(0.5);
    const Realized result = wrapped ? realize(wrap(tf, length), options) : realize(tf, length, options);
    const double allowed = bound * std::max(1.0, condition(tf, length) / 1e6);
    EXPECT_LE(result.layer.error, allowed);
    EXPECT_EQ(result.trials.back().error <= bound ? result.trials.back().error : result.layer.error,
              result.layer.error);
    EXPECT_LE(numbers_error(result.layer, exact_kernel(tf, length), length), allowed);
    ++chosen[result.layer.realization.index()];
  }
  EXPECT_GT(chosen[0], 60);  // most of these filters are well-conditioned
}

// A direct form of order 64 with poles to radius 0.999 loses its digits in float32, and is replaced.
TEST(Realize, ReplacesFragileCompanions) {
  RandomModels random(2);
  const std::size_t length = 1024;
  for (const double radius : {0.9, 0.99, 0.999}) {
    const TransferFunction tf = expanded_poles(random, 4, 64, radius);
    const Realized result = realize(tf, length);
    ASSERT_EQ(result.trials[0].name, "companion");
    EXPECT_GT(result.trials[0].error, 1e-3) << radius;
    EXPECT_LE(result.layer.error, 1e-5) << radius;
    std::printf("poles to %.3f: companion off by %.1e, %s in %s by %.1e\n", radius, result.trials[0].error,
                realization_name(result.layer.realization), result.layer.precision == DataType::f32 ? "f32" : "f64",
                result.layer.error);
  }
}

TEST(Realize, RefusesOrStabilizes) {
  auto tf = make_coefficients(1, 1, 2);
  tf.a = {-1.9, 0.95};
  tf.b = {1, 0.5};
  EXPECT_FALSE(realize(tf, 64).stabilize_error);
  tf.a = {-2.2, 1.21};
  expect_refusal("denominator 0 has a pole of modulus 1.1", [&] { realize(tf, 64); });
  for (const auto method : {StabilizeMethod::refit, StabilizeMethod::reflect}) {
    RealizeOptions options;
    options.stabilize = method;
    const Realized result = realize(tf, 16, options);
    ASSERT_TRUE(result.stabilize_error);
    EXPECT_GT(*result.stabilize_error, 0);
    EXPECT_LT(result.layer.pole_radius, 1);
  }
  expect_refusal("length is 0", [&] { realize(tf, 0); });
  RealizeOptions narrow;
  narrow.precision = DataType::f32;
  TransferFunction large = make_coefficients(1, 1, 1);
  large.a = {-0.5};
  large.b = {1e100};
  expect_refusal("or they are too large or too small for it", [&] { realize(large, 16, narrow); });
}

// Low passes of order 2 n whose poles lie as close to 1 as `width`: with n = 6 and 0.01 coefficients keep no digit.
std::vector<System> narrow(std::size_t pairs, double width) {
  ZeroPoleGain zpk;
  zpk.gain = 1;
  SecondOrderSections sos;
  for (std::size_t i = 1; i <= pairs; ++i) {
    const auto pole = std::polar(1 - width * static_cast<double>(i), width * static_cast<double>(pairs + 1 - i));
    zpk.poles.insert(zpk.poles.end(), {pole, std::conj(pole)});
    zpk.zeros.insert(zpk.zeros.end(), 2, -1.0);
    zpk.gain *= std::norm(1.0 - pole) / 4;
    sos.sections.push_back({std::norm(1.0 - pole), 2 * std::norm(1.0 - pole), std::norm(1.0 - pole), 4,
                            -8 * pole.real(), 4 * std::norm(pole)});
  }
  return {zpk, sos};
}

TEST(Realize, KeepsSectionsThatCoefficientsDoNotHold) {
  constexpr std::size_t length = 1024;
  for (const DataType precision : {DataType::f32, DataType::f64})
    for (const System& channel : narrow(6, 0.01)) {
      const Realized result = realize(std::span(&channel, 1), length, precision);
      EXPECT_EQ(result.layer.realization.index(), 1u);  // sections
      EXPECT_EQ(result.layer.precision, DataType::f64);
      EXPECT_LE(result.layer.error, precision == DataType::f32 ? 1e-5 : 1e-10);
    }
  // Of what coefficients hold, the cheapest; channels of different orders together.
  const System wide = narrow(1, 0.2)[0], wider = narrow(2, 0.2)[0];
  const System channels[] = {wide, wider};
  EXPECT_EQ(realize(channels, length, DataType::f64).layer.realization.index(), 0u);  // companion
  const System both[] = {narrow(6, 0.01)[1], narrow(1, 0.2)[1]};
  const auto sections =
      std::get<std::vector<SecondOrderSections>>(realize(both, length, DataType::f64).layer.realization);
  ASSERT_EQ(sections.size(), 2u);
  EXPECT_EQ(sections[0].sections.size(), sections[1].sections.size());
  const System unstable = SecondOrderSections{{{1, 0, 0, 1, -2.5, 1}}};
  expect_refusal("channel 0 has a pole of modulus 2", [&] { realize(std::span(&unstable, 1), length, DataType::f64); });
  expect_refusal("length is 0", [&] { realize(channels, 0, DataType::f64); });
  expect_refusal("no channels", [&] { realize(std::span<const System>(), length, DataType::f64); });
  const System modal = Modal{};
  expect_refusal("channel 0 of form modal has no factors",
                 [&] { realize(std::span(&modal, 1), length, DataType::f64); });
}

TEST(Realize, TakesTheFormThatIsAskedFor) {
  RandomModels random(3);
  const TransferFunction tf = expanded_poles(random, 3, 6, 0.9);
  constexpr RealizationChoice choices[] = {RealizationChoice::companion, RealizationChoice::sos,
                                           RealizationChoice::modal};
  for (std::size_t i = 0; i < 3; ++i) {
    RealizeOptions options;
    options.realization = choices[i];
    for (const DataType precision : {DataType::f32, DataType::f64}) {
      options.precision = precision;
      const Realized result = realize(tf, 200, options);
      EXPECT_EQ(result.layer.realization.index(), i);
      EXPECT_LE(result.layer.error, precision == DataType::f32 ? 1e-5 : 1e-10);
    }
  }
  // A repeated pole has no modal form.
  auto twice = make_coefficients(1, 1, 2);
  twice.a = {-1.0, 0.25};
  twice.b = {1, 0};
  RealizeOptions options;
  options.realization = RealizationChoice::modal;
  for (const DataType precision : {DataType::f32, DataType::f64}) {
    options.precision = precision;
    expect_refusal("the layer has no modal form", [&] { realize(twice, 64, options); });
  }
}

// What is fed for a million steps.
using Input = std::function<double(std::size_t)>;

// Largest difference, over the largest value, of a float32 model of one layer from its companion form in double.
double drift_of(const TransferFunction& tf, const LayerRealization& layer, const Input& input) {
  constexpr std::size_t steps = 1'000'000, block = 500;
  const std::size_t channels = tf.channels;
  const stream::Model<float> narrow(filter_model(layer, 1, channels));
  const stream::Model<double> wide(filter_model({tf, DataType::f64}, 1, channels, DataType::f64));
  stream::Streams<float> narrow_streams(narrow, 1);
  stream::Streams<double> wide_streams(wide, 1);
  const std::size_t one = narrow_streams.join();
  wide_streams.join();
  std::vector<float> in(block), out(block * channels);
  std::vector<double> wide_in(block), wide_out(block * channels), error(channels), largest(channels);
  for (std::size_t first = 0; first < steps; first += block) {
    for (std::size_t t = 0; t < block; ++t) wide_in[t] = in[t] = static_cast<float>(input(first + t));
    narrow_streams.process({&one, 1}, channels_last<const float>(in.data(), 1, block, 1),
                           channels_last(out.data(), 1, block, channels));
    wide_streams.process({&one, 1}, channels_last<const double>(wide_in.data(), 1, block, 1),
                         channels_last(wide_out.data(), 1, block, channels));
    for (std::size_t i = 0; i < out.size(); ++i) {
      error[i % channels] = std::max(error[i % channels], std::abs(out[i] - wide_out[i]));
      largest[i % channels] = std::max(largest[i % channels], std::abs(wide_out[i]));
    }
  }
  double worst = 0;
  for (std::size_t c = 0; c < channels; ++c) worst = std::max(worst, error[c] / largest[c]);
  return worst;
}

// A constant, noise and waves at the angles of poles, of a loudness whose digits are anywhere.
std::vector<Input> long_inputs(RandomModels& random, const std::vector<std::complex<double>>& poles) {
  const double loudness = random.uniform(1, 2);
  std::vector<Input> inputs = {[=](std::size_t) { return loudness; },
                               [&random, loudness](std::size_t) { return loudness * random.normal(); }};
  for (const auto& pole : poles)
    inputs.push_back([=](std::size_t t) { return loudness * std::cos(std::arg(pole) * static_cast<double>(t)); });
  return inputs;
}

// A million steps stay within 1e-3 of the double-precision recurrence, in every form.
TEST(Realize, AMillionStepsDoNotDrift) {
  RandomModels random(4);
  const TransferFunction tf = expanded_poles(random, 8, 8, 0.98);
  for (const auto choice : {RealizationChoice::companion, RealizationChoice::sos, RealizationChoice::modal}) {
    RealizeOptions options;
    options.realization = choice;
    options.bound = 1e-3;  // each form in float32, also where another one would be chosen
    const LayerRealization layer = realize(tf, 1024, options).layer;
    ASSERT_EQ(layer.precision, DataType::f32);
    for (const Input& input : long_inputs(random, {poles(std::span(tf.a).first(8))[0]})) {
      const double drift = drift_of(tf, layer, input);
      EXPECT_LT(drift, 1e-3);
      std::printf("%s: off by %.1e after a million steps\n", realization_name(layer.realization), drift);
    }
  }
}

// Real poles, and pairs of given angles.
TransferFunction with_poles(const std::vector<std::complex<double>>& upper) {
  std::vector<double> a{1};
  for (const auto& pole : upper) {
    std::vector<double> factor{1, -pole.real()};
    if (pole.imag() != 0) factor = {1, -2 * pole.real(), std::norm(pole)};
    std::vector<double> product(a.size() + factor.size() - 1, 0.0);
    for (std::size_t i = 0; i < a.size(); ++i)
      for (std::size_t j = 0; j < factor.size(); ++j) product[i + j] += a[i] * factor[j];
    a = product;
  }
  auto tf = make_coefficients(1, 1, a.size() - 1);
  std::copy(a.begin() + 1, a.end(), tf.a.begin());
  // As a checkpoint has it.
  for (double& value : tf.a) value = rounded_to_float32(value);
  tf.b[0] = 1;
  return tf;
}

// Poles that ring far longer than the sequences of the training: what is shipped holds, in float32 or in float64.
TEST(Realize, SlowPolesDoNotDrift) {
  RandomModels random(5);
  struct Slow {
    std::vector<std::complex<double>> poles;
    std::size_t length;
  };
  std::vector<Slow> layers = {
      {{0.99999}, 64},
      {{0.9999}, 1000},
      {{0.9999, 0.9998}, 16},
      {{0.999, 0.998, 0.9}, 200},
      {{std::polar(0.9999, 0.001)}, 200},
      {{0.9999, std::polar(0.7, 1.0), std::polar(0.5, 2.0)}, 1024},
      {{0.99999, std::polar(0.7, 1.0)}, 1024},
      {{-0.9999, std::polar(0.9, 0.1)}, 64},
  };
  for (const double slow : {3e-3, 3e-4, 1e-4, 7e-5})
    for (int i = 0; i < 2; ++i) {
      Slow& layer = layers.emplace_back(Slow{{}, 64});
      for (std::size_t pairs = random.integer(1, 4); pairs > 0; --pairs)
        layer.poles.push_back(std::polar(1 - slow * random.uniform(1, 20), random.uniform(0.02, 3.1)));
      layer.poles[0] = i == 0 ? std::complex<double>(1 - slow) : std::polar(1 - slow, random.uniform(0.02, 3.1));
    }
  int narrow = 0;
  for (const Slow& slow : layers) {
    const TransferFunction tf = with_poles(slow.poles);
    if (!is_stable(tf.a)) continue;  // rounded as a checkpoint has it
    const Realized result = realize(tf, slow.length);
    const bool float32 = result.layer.precision == DataType::f32;
    narrow += float32;
    double worst = 0;
    for (const Input& input : long_inputs(random, slow.poles))
      worst = std::max(worst, drift_of(tf, result.layer, input));
    EXPECT_LT(worst, 1e-3);
    std::printf("radius %.6f, order %zu: %s in %s, drift %.1e measured, %.1e in a million steps\n",
                result.layer.pole_radius, tf.order, realization_name(result.layer.realization), float32 ? "f32" : "f64",
                result.drift.value_or(0), worst);
  }
  EXPECT_GT(narrow, 5);
}

}  // namespace
}  // namespace rtf
