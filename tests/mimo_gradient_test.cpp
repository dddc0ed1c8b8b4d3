// Every vector-Jacobian product of a MIMO system against derivatives of the plain reference in dual numbers.
#include <gtest/gtest.h>

#include "mimo_reference.h"

namespace {

using namespace rtf::testing;
using rtf::CoefficientsGradient;
using Duals = std::vector<Dual>;

// A gradient to a passes through 1/A twice, so rounding may reach epsilon kappa^2: 2e-10 up to this kappa.
constexpr double worst_kappa = 1e3, worst_error = 1e-9;

double largest(const Values& values) {
  double most = 0;
  for (const double value : values) most = std::max(most, std::abs(value));
  return most;
}

Dual dot(const Values& weights, const Duals& values) {
  Dual sum;
  for (std::size_t i = 0; i < weights.size(); ++i) sum += Dual(weights[i]) * values[i];
  return sum;
}

// loss(direction) is the derivative of the loss when the values under test move along `direction`; tried along single
// values, spread evenly, and along all of them at once.
template <class Loss>
void check(const char* what, const Loss& loss, const Values& gradient, double scale, RandomFilters& random) {
  const std::size_t count = gradient.size(), stride = std::max<std::size_t>(1, count / 8);
  scale = std::max(scale, largest(gradient));
  for (std::size_t i = 0; i < count; i += stride) {
    Values direction(count, 0.0);
    direction[i] = 1;
    EXPECT_LE(std::abs(loss(direction) - gradient[i]), worst_error * scale) << what << "[" << i << "]";
  }
  const Values direction = random.normals(count);
  long double expected = loss(direction), norm = 0;
  for (std::size_t i = 0; i < count; ++i) {
    expected -= static_cast<long double>(gradient[i]) * direction[i];
    norm += std::abs(direction[i]);
  }
  EXPECT_LE(std::abs(expected), worst_error * scale * norm) << what;
}

Duals moved(const Values& values, const Values& direction) {
  Duals result;
  for (std::size_t i = 0; i < values.size(); ++i) result.emplace_back(values[i], direction[i]);
  return result;
}

// loss(ReferenceMimo<Dual>) as a function of a, b and h0 in turn.
template <class Loss>
void check_coefficients(const Loss& loss, const rtf::MimoCoefficients& at, const CoefficientsGradient& gradient,
                        RandomFilters& random) {
  ASSERT_EQ(gradient.a.size(), at.a.size());
  ASSERT_EQ(gradient.b.size(), at.b.size());
  ASSERT_EQ(gradient.h0.size(), at.h0.size());
  const double scale = std::max({largest(gradient.a), largest(gradient.b), largest(gradient.h0)});
  const auto along = [&](Duals ReferenceMimo<Dual>::*part, const Values& values) {
    return [&loss, &at, part, &values](const Values& direction) {
      ReferenceMimo<Dual> system(at);
      system.*part = moved(values, direction);
      return loss(system).slope;
    };
  };
  check("a", along(&ReferenceMimo<Dual>::a, at.a), gradient.a, scale, random);
  check("b", along(&ReferenceMimo<Dual>::b, at.b), gradient.b, scale, random);
  check("h0", along(&ReferenceMimo<Dual>::h0, at.h0), gradient.h0, scale, random);
}

TEST(MimoGradient, Kernels) {
  RandomFilters random(71);
  for (int i = 0; i < 100; ++i) {
    const MimoCase at(random, 40, worst_kappa);
    SCOPED_TRACE(at.sizes());
    const Values weights = random.normals(at.tf.outputs * at.tf.inputs * at.length);
    check_coefficients([&](const auto& system) { return dot(weights, reference_response(system, at.length)); }, at.tf,
                       exact_kernel_vjp(at.tf, at.length, weights), random);
    check_coefficients([&](const auto& system) { return dot(weights, reference_wrapped(system, at.length)); }, at.tf,
                       wrapped_kernel_vjp(at.trained(), weights), random);
  }
}

TEST(MimoGradient, CorrectionAndItsInverse) {
  RandomFilters random(72);
  for (int i = 0; i < 100; ++i) {
    const MimoCase at(random, 40, worst_kappa);
    SCOPED_TRACE(at.sizes());
    const CoefficientsGradient weights{random.normals(at.tf.a.size()), random.normals(at.tf.b.size()),
                                       random.normals(at.tf.h0.size())};
    const auto loss = [&](bool back) {
      return [&weights, &at, back](const ReferenceMimo<Dual>& system) {
        const auto result = reference_correction(system, at.length, back);
        return dot(weights.a, result.a) + dot(weights.b, result.b) + dot(weights.h0, result.h0);
      };
    };
    check_coefficients(loss(true), at.tf, correct_vjp(at.trained(), weights), random);
    check_coefficients(loss(false), at.tf, wrap_vjp(at.tf, at.length, weights), random);
  }
}

TEST(MimoGradient, FilterWithInitialAndFinalState) {
  RandomFilters random(73);
  for (int i = 0; i < 200; ++i) {
    const MimoCase at(random, 40, worst_kappa);
    SCOPED_TRACE(at.sizes());
    const auto& tf = at.tf;
    const std::size_t batch = at.batch, length = at.length, states = tf.inputs * tf.order;
    const bool from = random.chance(0.7), to = random.chance(0.7), last = random.chance(0.5);
    const Values u = random.normals(batch * length * tf.inputs);
    const Values x0 = from ? random.normals(batch * states) : Values();
    const Values wy = random.normals(batch * length * tf.outputs), wx = to ? random.normals(batch * states) : Values();
    // u and the gradient of y in either order of memory; `index` finds (sequence, sample, channel) in the flat values.
    const auto view = [&](const Values& values, std::size_t channels) {
      return last ? rtf::length_last(values.data(), batch, channels, length)
                  : rtf::channels_last(values.data(), batch, length, channels);
    };
    const auto uv = view(u, tf.inputs), wyv = view(wy, tf.outputs);

    const auto loss = [&](const ReferenceMimo<Dual>& system, const Duals& in, const Duals& state) {
      Dual sum;
      for (std::size_t s = 0; s < batch; ++s) {
        Duals sequence, x(states, Dual(0));
        for (std::size_t t = 0; t < length; ++t)
          for (std::size_t j = 0; j < tf.inputs; ++j)
            sequence.push_back(in[static_cast<std::size_t>(uv.at(s, t, j) - u.data())]);
        for (std::size_t k = 0; k < states && from; ++k) x[k] = state[s * states + k];
        const Duals y = reference_run(system, sequence, x);
        for (std::size_t k = 0; k < y.size(); ++k) sum += Dual(*wyv.at(s, k / tf.outputs, k % tf.outputs)) * y[k];
        for (std::size_t k = 0; k < states && to; ++k) sum += Dual(wx[s * states + k]) * x[k];
      }
      return sum;
    };
    const Duals still_u(u.begin(), u.end()), still_x(x0.begin(), x0.end());
    const ReferenceMimo<Dual> still(tf);
    const auto gradient = rtf::filter_vjp<double>(tf, uv, x0, wyv, wx);
    check_coefficients([&](const auto& system) { return loss(system, still_u, still_x); }, tf, gradient.coefficients,
                       random);
    Values du(u.size());  // the result is channels last
    for (std::size_t s = 0, k = 0; s < batch; ++s)
      for (std::size_t t = 0; t < length; ++t)
        for (std::size_t j = 0; j < tf.inputs; ++j)
          du[static_cast<std::size_t>(uv.at(s, t, j) - u.data())] = gradient.u[k++];
    check(
        "u", [&](const Values& direction) { return loss(still, moved(u, direction), still_x).slope; }, du, 0, random);
    ASSERT_EQ(gradient.initial_state.size(), batch * states);
    if (from)
      check(
          "initial_state", [&](const Values& direction) { return loss(still, still_u, moved(x0, direction)).slope; },
          gradient.initial_state, largest(du), random);
  }
}

// y is linear in u and in the kernel, so the gradients are sums that can be written down.
template <class T>
void convolution(std::uint64_t seed, double tolerance) {
  RandomFilters random(seed);
  for (int i = 0; i < 200; ++i) {
    const std::size_t batch = random.integer(1, 3), length = random.length(50), taps = random.length(60);
    const std::size_t m = random.integer(1, 4), p = random.integer(1, 4);
    SCOPED_TRACE(::testing::PrintToString(std::vector{p, m, length, taps, batch}));
    const auto draw = [&](std::size_t count) {
      const Values values = random.normals(count);
      return std::vector<T>(values.begin(), values.end());
    };
    const auto u = draw(batch * length * m), kernel = draw(p * m * taps), w = draw(batch * length * p);
    std::vector<long double> du(u.size(), 0.0L), dk(kernel.size(), 0.0L);
    for (std::size_t s = 0; s < batch; ++s)
      for (std::size_t o = 0; o < p; ++o)
        for (std::size_t j = 0; j < m; ++j)
          for (std::size_t t = 0; t < length; ++t)
            for (std::size_t d = 0; d < std::min(taps, t + 1); ++d) {
              const std::size_t from = (s * length + t - d) * m + j, tap = (o * m + j) * taps + d;
              const long double weight = w[(s * length + t) * p + o];
              du[from] += weight * kernel[tap];
              dk[tap] += weight * u[from];
            }
    std::vector<T> got_u(u.size()), got_k(kernel.size());
    rtf::mimo_convolve_vjp<T>(rtf::channels_last(u.data(), batch, length, m), kernel,
                              rtf::channels_last(w.data(), batch, length, p),
                              rtf::channels_last(got_u.data(), batch, length, m), got_k);
    EXPECT_LE(relative_error(got_u, du), tolerance);
    EXPECT_LE(relative_error(got_k, dk), tolerance);
  }
}

TEST(MimoGradient, Convolution) { convolution<double>(74, 1e-13); }
TEST(MimoGradient, ConvolutionInFloat) { convolution<float>(75, 1e-5); }

}  // namespace
