// Signals through a MIMO system, every form against dense matrices stepped in long double.
#include <gtest/gtest.h>

#include <string>

#include "mimo_reference.h"
#include "rtf/executor.h"

namespace {

using namespace rtf::testing;
using rtf::MimoTransferFunction;
using rtf::StateSpace;

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
void every_form_is_the_state_space(std::uint64_t seed) {
  constexpr bool f32 = std::is_same_v<T, float>;
  RandomFilters random(seed);
  for (int i = 0; i < 200; ++i) {
    const MimoCase at(random, 200, f32 ? 1e6 : 1e12);
    SCOPED_TRACE(at.sizes());
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

TEST(MimoFilter, EveryFormIsTheStateSpace) { every_form_is_the_state_space<double>(64); }
TEST(MimoFilter, EveryFormIsTheStateSpaceInFloat) { every_form_is_the_state_space<float>(65); }

TEST(MimoFilter, ConvolutionIsTheDirectSum) {
  RandomFilters random(66);
  for (int i = 0; i < 200; ++i) {
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

TEST(MimoFilter, ThreadsChangeNothing) {
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

TEST(MimoFilter, RefusesWhatDoesNotFit) {
  const MimoTransferFunction tf = small_mimo();
  Values in(30), out(20), state(12);
  const auto u = rtf::channels_last<const double>(in.data(), 2, 5, 3);
  const auto y = rtf::channels_last(out.data(), 2, 5, 2);
  const Values kernel(24);
  EXPECT_EQ(message([&] { rtf::filter<double>(tf, y, y); }),
            "[rtf::filter] u has shape (2, 5, 2); (2, 5, 3) is needed");
  EXPECT_EQ(message([&] { rtf::filter<double>(tf, u, y, kernel); }),
            "[rtf::filter] the initial state has 24 values; 12 are needed");
  EXPECT_EQ(message([&] { rtf::filter<double>(tf, u, y, {}, out); }),
            "[rtf::filter] the final state has 20 values; 12 are needed");
  EXPECT_EQ(message([&] { rtf::prefill<double>(tf, u, {}, y); }),
            "[rtf::prefill] the state has 0 values; 12 are needed");
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
}

}  // namespace
