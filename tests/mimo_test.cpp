#include "rtf/mimo.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "mimo_reference.h"
#include "rtf/error.h"
#include "rtf/executor.h"

namespace {

using namespace rtf::testing;
using rtf::MimoTransferFunction;
using rtf::StateSpace;
using Values = std::vector<double>;
using LongValues = std::vector<long double>;

// One step of dense matrices: y (outputs), and x moved on.
LongValues dense_step(const StateSpace& system, LongValues& x, const LongValues& u) {
  const auto product = [](const Values& matrix, const LongValues& vector, LongValues& sum) {
    for (std::size_t i = 0; i < sum.size(); ++i)
      for (std::size_t j = 0; j < vector.size(); ++j) sum[i] += matrix[i * vector.size() + j] * vector[j];
  };
  LongValues y(system.outputs, 0.0L), next(system.order, 0.0L);
  product(system.C, x, y);
  product(system.D, u, y);
  product(system.A, x, next);
  product(system.B, u, next);
  x = next;
  return y;
}

// (outputs, inputs, length) from D, C B, C A B, ...
LongValues dense_kernel(const StateSpace& system, std::size_t length) {
  LongValues kernel(system.outputs * system.inputs * length);
  for (std::size_t j = 0; j < system.inputs; ++j) {
    LongValues x(system.order, 0.0L), u(system.inputs, 0.0L);
    u[j] = 1;
    for (std::size_t t = 0; t < length; ++t) {
      const LongValues y = dense_step(system, x, u);
      for (std::size_t i = 0; i < system.outputs; ++i) kernel[(i * system.inputs + j) * length + t] = y[i];
      u[j] = 0;
    }
  }
  return kernel;
}

std::string sizes(const MimoCase& at) {
  return ::testing::PrintToString(std::vector{at.tf.outputs, at.tf.inputs, at.tf.order, at.length, at.batch});
}

TEST(Mimo, ExactKernelIsThePowersOfTheBlockCompanion) {
  RandomFilters random(61);
  for (int i = 0; i < 60; ++i) {
    const MimoCase at(random, 64, 1e12);
    SCOPED_TRACE(sizes(at));
    const LongValues expected = dense_kernel(to_block_companion(at.tf), at.length);
    for (const auto method : {rtf::KernelMethod::automatic, rtf::KernelMethod::division, rtf::KernelMethod::newton})
      EXPECT_LE(relative_error(exact_kernel(at.tf, at.length, method), expected), accuracy_bound(at.kappa, false));
    EXPECT_LE(relative_error(reference_response(ReferenceMimo<long double>(at.tf), at.length), expected), 1e-15);
  }
}

TEST(Mimo, WrappedKernelSolvesTheCirculantSystem) {
  RandomFilters random(62);
  for (int i = 0; i < 60; ++i) {
    const MimoCase at(random, 64, 1e12);
    SCOPED_TRACE(sizes(at));
    const auto expected = reference_wrapped(ReferenceMimo<long double>(at.tf), at.length);
    EXPECT_LE(relative_error(wrapped_kernel(at.trained()), expected), accuracy_bound(at.kappa, false));
  }
}

TEST(Mimo, CorrectionStreamsTheWrappedKernel) {
  RandomFilters random(63);
  for (int i = 0; i < 60; ++i) {
    const MimoCase at(random, 64, 1e12);
    SCOPED_TRACE(sizes(at));
    const double bound = accuracy_bound(at.kappa, false);
    const auto trained = at.trained();
    const MimoTransferFunction corrected = correct(trained);
    EXPECT_EQ(corrected.a, trained.a);
    EXPECT_LE(relative_error(dense_kernel(to_block_companion(corrected), at.length), wrapped_kernel(trained)), bound);
    const auto plain = reference_correction(ReferenceMimo<long double>(at.tf), at.length, true);
    EXPECT_LE(relative_error(corrected.b, plain.b), bound);
    EXPECT_LE(relative_error(corrected.h0, plain.h0), bound);

    const auto wrapped = wrap(at.tf, at.length);
    EXPECT_EQ(wrapped.length, at.length);
    EXPECT_LE(relative_error(wrapped_kernel(wrapped), exact_kernel(at.tf, at.length)), bound);
    const MimoTransferFunction back = correct(wrapped);
    LongValues all(at.tf.h0.begin(), at.tf.h0.end()), got(back.h0.begin(), back.h0.end());
    all.insert(all.end(), at.tf.b.begin(), at.tf.b.end());
    got.insert(got.end(), back.b.begin(), back.b.end());
    EXPECT_LE(relative_error(got, all), bound);
  }
}

template <class T>
struct Rows {
  std::vector<T> values;
  rtf::Signal<T> signal;
};

// A contiguous signal in either order of memory.
template <class T>
Rows<T> rows(RandomFilters& random, std::size_t batch, std::size_t length, std::size_t channels) {
  Rows<T> made;
  const Values drawn = random.normals(batch * length * channels);
  made.values.assign(drawn.begin(), drawn.end());
  made.signal = random.chance(0.5) ? rtf::channels_last(made.values.data(), batch, length, channels)
                                   : rtf::length_last(made.values.data(), batch, channels, length);
  return made;
}

template <class T>
void recurrence_convolution_and_state_space(std::uint64_t seed) {
  constexpr bool f32 = std::is_same_v<T, float>;
  RandomFilters random(seed);
  for (int i = 0; i < 60; ++i) {
    const MimoCase at(random, 200, f32 ? 1e6 : 1e12);
    SCOPED_TRACE(sizes(at));
    const auto& tf = at.tf;
    const std::size_t batch = at.batch, length = at.length, m = tf.inputs, p = tf.outputs, n = tf.order;
    const auto u = rows<T>(random, batch, length, m);
    const bool silent = random.chance(0.4);
    const Values x0 = silent ? Values(batch * m * n, 0.0) : random.normals(batch * m * n);

    const StateSpace system = to_block_companion(tf);
    LongValues expected, expected_state(batch * m * n);
    for (std::size_t s = 0; s < batch; ++s) {
      LongValues x(m * n);
      for (std::size_t k = 0; k < m * n; ++k) x[k] = x0[(s * m + k % m) * n + k / m];
      for (std::size_t t = 0; t < length; ++t) {
        LongValues in;
        for (std::size_t j = 0; j < m; ++j) in.push_back(*u.signal.at(s, t, j));
        for (const long double y : dense_step(system, x, in)) expected.push_back(y);
      }
      for (std::size_t k = 0; k < m * n; ++k) expected_state[(s * m + k % m) * n + k / m] = x[k];
    }
    const double bound = accuracy_bound(at.kappa, f32), state_bound = accuracy_bound(at.kappa, false);
    const auto check = [&](const char* what, const rtf::Signal<T>& y, const Values& state) {
      std::vector<T> got;
      for (std::size_t s = 0; s < batch; ++s)
        for (std::size_t t = 0; t < length; ++t)
          for (std::size_t o = 0; o < p; ++o) got.push_back(*y.at(s, t, o));
      EXPECT_LE(relative_error(got, expected), bound) << what;
      EXPECT_LE(relative_error(state, expected_state), state_bound) << what;
    };

    for (const auto method : {rtf::FilterMethod::automatic, rtf::FilterMethod::recurrence, rtf::FilterMethod::fft}) {
      auto y = rows<T>(random, batch, length, p);
      Values state(batch * m * n);
      rtf::filter<T>(tf, u.signal, y.signal, silent ? Values() : x0, state, method);
      check(name(method), y.signal, state);
    }
    // A prompt, then sample by sample.
    auto y = rows<T>(random, batch, length, p);
    Values state = x0;
    const std::size_t prompt = random.integer(0, length);
    const auto front = [&](auto signal) {
      signal.length = prompt;
      return signal;
    };
    rtf::prefill<T>(tf, front(u.signal), state, front(y.signal));
    for (std::size_t t = prompt; t < length; ++t) {
      std::vector<T> in, out(batch * p);
      for (std::size_t s = 0; s < batch; ++s)
        for (std::size_t j = 0; j < m; ++j) in.push_back(*u.signal.at(s, t, j));
      rtf::step<T>(tf, in, state, out);
      for (std::size_t k = 0; k < out.size(); ++k) *y.signal.at(k / p, t, k % p) = out[k];
    }
    check("prefill and step", y.signal, state);
    if (silent) {
      const Values kernel = exact_kernel(tf, length);
      rtf::mimo_convolve<T>(u.signal, std::vector<T>(kernel.begin(), kernel.end()), y.signal);
      check("convolution", y.signal, state);
    }
  }
}

TEST(Mimo, RecurrenceConvolutionAndStateSpaceAgree) { recurrence_convolution_and_state_space<double>(64); }
TEST(Mimo, RecurrenceConvolutionAndStateSpaceAgreeInFloat) { recurrence_convolution_and_state_space<float>(65); }

TEST(Mimo, ConvolutionIsTheDirectSumForKernelsOfAnyLength) {
  RandomFilters random(66);
  for (int i = 0; i < 60; ++i) {
    const std::size_t batch = random.integer(1, 3), length = random.length(70), taps = random.length(90);
    const std::size_t m = random.integer(1, 4), p = random.integer(1, 4);
    const auto u = rows<double>(random, batch, length, m);
    const Values kernel = random.normals(p * m * taps);
    Values y(batch * length * p);
    rtf::mimo_convolve<double>(u.signal, kernel, rtf::channels_last(y.data(), batch, length, p));
    LongValues expected;
    for (std::size_t s = 0; s < batch; ++s)
      for (std::size_t t = 0; t < length; ++t)
        for (std::size_t o = 0; o < p; ++o) {
          long double sum = 0;
          for (std::size_t j = 0; j < m; ++j)
            for (std::size_t d = 0; d < std::min(taps, t + 1); ++d)
              sum += static_cast<long double>(kernel[(o * m + j) * taps + d]) * *u.signal.at(s, t - d, j);
          expected.push_back(sum);
        }
    EXPECT_LE(relative_error(y, expected), 1e-13) << length << " " << taps;
  }
}

TEST(Mimo, ThreadsChangeNothing) {
  RandomFilters random(67);
  const MimoCase at(random, 200, 1e6);
  const auto u = rows<double>(random, at.batch, at.length, at.tf.inputs);
  const std::size_t before = rtf::threads();
  std::vector<Values> results;
  for (const std::size_t threads : {1, 3}) {
    rtf::set_threads(threads);
    Values y(at.batch * at.length * at.tf.outputs), x(at.batch * at.tf.inputs * at.tf.order);
    const auto out = rtf::channels_last(y.data(), at.batch, at.length, at.tf.outputs);
    rtf::filter<double>(at.tf, u.signal, out, {}, x);
    const auto gradient = rtf::filter_vjp<double>(at.tf, u.signal, {}, out, x);
    y.insert(y.end(), x.begin(), x.end());
    for (const Values& part : {wrapped_kernel(at.trained()), gradient.u, gradient.coefficients.a,
                               gradient.coefficients.b, gradient.initial_state})
      y.insert(y.end(), part.begin(), part.end());
    results.push_back(y);
  }
  rtf::set_threads(before);
  EXPECT_EQ(results[0], results[1]);
}

TEST(Mimo, BlockCompanionMatrices) {
  MimoTransferFunction tf;
  tf.inputs = 2;
  tf.outputs = 1;
  tf.order = 2;
  tf.a = {0.5, -0.25};
  tf.b = {1, 2, 3, 4};
  tf.h0 = {5, 6};
  const StateSpace system = to_block_companion(tf);
  EXPECT_EQ(system.order, 4u);
  EXPECT_EQ(system.A, (Values{-0.5, 0, 0.25, 0, 0, -0.5, 0, 0.25, 1, 0, 0, 0, 0, 1, 0, 0}));
  EXPECT_EQ(system.B, (Values{1, 0, 0, 1, 0, 0, 0, 0}));
  EXPECT_EQ(system.C, (Values{1, 3, 2, 4}));
  EXPECT_EQ(system.D, (Values{5, 6}));
}

TEST(Mimo, BlockCompanionRoundTripsBitForBit) {
  RandomFilters random(68);
  for (int i = 0; i < 100; ++i) {
    const MimoCase at(random, 8, HUGE_VAL);
    const MimoTransferFunction back = from_block_companion(to_block_companion(at.tf));
    EXPECT_EQ(back.inputs, at.tf.inputs);
    EXPECT_EQ(back.outputs, at.tf.outputs);
    EXPECT_EQ(back.order, at.tf.order);
    EXPECT_EQ(back.a, at.tf.a);
    EXPECT_EQ(back.b, at.tf.b);
    EXPECT_EQ(back.h0, at.tf.h0);
  }
}

template <class Call>
std::string message(const Call& call) {
  try {
    call();
  } catch (const rtf::Error& error) {
    return error.what();
  }
  return "";
}

// 2 outputs, 3 inputs, order 2.
MimoTransferFunction small() {
  MimoTransferFunction tf;
  tf.inputs = 3;
  tf.outputs = 2;
  tf.order = 2;
  tf.a = {0.5, -0.25};
  tf.b.assign(12, 1.0);
  tf.h0.assign(6, 1.0);
  return tf;
}

TEST(Mimo, NamesTheCoefficientsThatDoNotFit) {
  const auto after = [](const auto& change) {
    MimoTransferFunction tf = small();
    change(tf);
    return message([&] { validate(tf, "convert"); });
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(after([](auto&) {}), "");
  EXPECT_EQ(after([](auto& tf) { tf.inputs = 0; }), "[rtf::convert] 0 inputs and 2 outputs; at least one of each is needed");
  EXPECT_EQ(after([](auto& tf) { tf.a.push_back(1); }), "[rtf::convert] a has 3 values, expected (2)");
  EXPECT_EQ(after([](auto& tf) { tf.b.pop_back(); }), "[rtf::convert] b has 11 values, expected (2, 3, 2)");
  EXPECT_EQ(after([](auto& tf) { tf.h0.pop_back(); }), "[rtf::convert] h0 has 5 values, expected (2, 3)");
  EXPECT_EQ(after([&](auto& tf) { tf.a[1] = nan; }), "[rtf::convert] a[1] is nan; coefficients must be finite");
  EXPECT_EQ(after([&](auto& tf) { tf.b[9] = HUGE_VAL; }), "[rtf::convert] b[1][1][1] is inf; coefficients must be finite");
  EXPECT_EQ(after([&](auto& tf) { tf.h0[4] = nan; }), "[rtf::convert] h0[1][1] is nan; coefficients must be finite");
}

TEST(Mimo, RefusesWhatDoesNotFit) {
  const MimoTransferFunction tf = small();
  rtf::TrainedMimoTransferFunction trained;
  static_cast<rtf::MimoCoefficients&>(trained) = tf;
  Values in(30), out(20), state(12);
  const auto u = rtf::channels_last<const double>(in.data(), 2, 5, 3);
  const auto y = rtf::channels_last(out.data(), 2, 5, 2);
  const Values kernel(24);
  EXPECT_EQ(message([&] { rtf::filter<double>(tf, y, y); }), "[rtf::filter] u has shape (2, 5, 2); (2, 5, 3) is needed");
  EXPECT_EQ(message([&] { rtf::filter<double>(tf, u, y, kernel); }),
            "[rtf::filter] the initial state has 24 values; 12 are needed");
  EXPECT_EQ(message([&] { rtf::filter<double>(tf, u, y, {}, out); }),
            "[rtf::filter] the final state has 20 values; 12 are needed");
  EXPECT_EQ(message([&] { rtf::prefill<double>(tf, u, {}, y); }), "[rtf::prefill] the state has 0 values; 12 are needed");
  EXPECT_EQ(message([&] { rtf::filter_vjp<double>(tf, u, {}, u, {}); }),
            "[rtf::filter_vjp] y_gradient has shape (2, 5, 3); (2, 5, 2) is needed");
  EXPECT_EQ(message([&] { rtf::step<double>(tf, std::span(in).first(4), state, out); }),
            "[rtf::step] u has 4 values, which is no multiple of 3 inputs");
  EXPECT_EQ(message([&] { rtf::step<double>(tf, std::span(in).first(6), state, std::span(out).first(3)); }),
            "[rtf::step] y has 3 values; 4 are needed");
  EXPECT_EQ(message([&] { rtf::step<double>(MimoTransferFunction(), in, state, out); }),
            "[rtf::step] 0 inputs and 0 outputs; at least one of each is needed");
  EXPECT_EQ(message([&] { rtf::mimo_convolve<double>(u, std::span(kernel).first(23), y); }),
            "[rtf::mimo_convolve] the kernel has 23 values, which is no multiple of 2 outputs x 3 inputs");
  EXPECT_EQ(message([&] { rtf::mimo_convolve<double>(u, {}, y); }),
            "[rtf::mimo_convolve] the kernel has 0 values, which is no multiple of 2 outputs x 3 inputs");
  EXPECT_EQ(message([&] { wrapped_kernel(trained); }), "[rtf::wrapped_kernel] length is 0; it must be at least 1");
  EXPECT_EQ(message([&] { wrap(tf, 0); }), "[rtf::wrap] length is 0; it must be at least 1");
}

TEST(Mimo, RefusesAStateSpaceOfAnotherForm) {
  const StateSpace good = to_block_companion(small());
  const auto after = [&](const auto& change) {
    StateSpace system = good;
    change(system);
    return message([&] { from_block_companion(system); });
  };
  EXPECT_EQ(after([](auto&) {}), "");
  EXPECT_EQ(after([](auto& s) { s.A[7] = 0.5; }),
            "[rtf::from_block_companion] A[1][1] is 0.5 where block companion form has -0.5; convert the state space instead");
  EXPECT_EQ(after([](auto& s) { s.A[35] = 1e-300; }),
            "[rtf::from_block_companion] A[5][5] is 1e-300 where block companion form has 0; convert the state space instead");
  EXPECT_EQ(after([](auto& s) { s.B[17] = 2; }),
            "[rtf::from_block_companion] B[5][2] is 2 where block companion form has 0; convert the state space instead");
  EXPECT_EQ(message([] { rtf::from_block_companion({2, 3, 1, Values(4), Values(6), Values(2), Values(3)}); }),
            "[rtf::from_block_companion] 2 states are no multiple of 3 inputs, as block companion form has them");
}

}  // namespace
