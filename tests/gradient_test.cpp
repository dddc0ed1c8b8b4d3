// Every vector-Jacobian product against central differences of the function itself, in double, over random sizes.
#include <gtest/gtest.h>

#include <vector>

#include "random_filter.h"
#include "rtf/rtf.h"

namespace {

using namespace rtf::testing;
using rtf::TrainedTransferFunction;
using rtf::TransferFunction;
using Values = std::vector<double>;

double dot(std::span<const double> x, std::span<const double> y) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
  return sum;
}

std::vector<float> narrow(const Values& values) { return {values.begin(), values.end()}; }

// Sizes with every relation of order and length, shared and separate denominators.
struct Sizes {
  explicit Sizes(RandomFilters& random)
      : order(random.chance(0.15) ? random.integer(0, 1) : random.integer(0, 9)), length(random.length(24)) {
    const auto [c, g] = random.channels_and_groups(5);
    channels = c;
    groups = g;
  }
  std::size_t order, length, channels, groups;
};

// Filters away from the circle, where differences of the function still tell its slope.
TransferFunction draw(RandomFilters& random, const Sizes& s) {
  TransferFunction tf = random.draw(s.channels, s.groups, s.order);
  for (std::size_t g = 0; g < s.groups; ++g) {
    const auto a = random.by_montel(s.order, false);
    std::copy(a.begin(), a.end(), tf.a.begin() + static_cast<std::ptrdiff_t>(g * s.order));
  }
  return tf;
}

template <class Loss>
void check_coefficients(const Loss& loss, rtf::Coefficients& c, const rtf::CoefficientsGradient& gradient) {
  double scale = 0;
  for (const auto* values : {&gradient.a, &gradient.b, &gradient.h0})
    for (const double value : *values) scale = std::max(scale, std::abs(value));
  EXPECT_LE(gradient_error(loss, c.a, gradient.a, scale), gradient_tolerance) << "a";
  EXPECT_LE(gradient_error(loss, c.b, gradient.b, scale), gradient_tolerance) << "b";
  EXPECT_LE(gradient_error(loss, c.h0, gradient.h0, scale), gradient_tolerance) << "h0";
}

TEST(Gradient, WrappedKernel) {
  RandomFilters random(21);
  for (int i = 0; i < 60; ++i) {
    const Sizes s(random);
    SCOPED_TRACE(testing::Message() << s.order << " " << s.length << " " << s.channels << " " << s.groups);
    TrainedTransferFunction trained;
    static_cast<rtf::Coefficients&>(trained) = draw(random, s);
    trained.length = s.length;
    const Values w = random.normals(s.channels * s.length);
    check_coefficients([&] { return dot(w, rtf::wrapped_kernel(trained)); }, trained,
                       rtf::wrapped_kernel_vjp(trained, w));
  }
}

TEST(Gradient, ExactKernel) {
  RandomFilters random(22);
  for (int i = 0; i < 60; ++i) {
    const Sizes s(random);
    SCOPED_TRACE(testing::Message() << s.order << " " << s.length << " " << s.channels << " " << s.groups);
    TransferFunction tf = draw(random, s);
    const Values w = random.normals(s.channels * s.length);
    check_coefficients([&] { return dot(w, rtf::exact_kernel(tf, s.length)); }, tf,
                       rtf::exact_kernel_vjp(tf, s.length, w));
  }
}

TEST(Gradient, Convolution) {
  RandomFilters random(23);
  for (int i = 0; i < 60; ++i) {
    const std::size_t batch = random.integer(1, 10), length = random.length(20), channels = random.integer(1, 10);
    const std::size_t kernel_length = random.integer(1, length + 3);
    const auto direction = random.chance(0.5) ? rtf::Direction::causal : rtf::Direction::bidirectional;
    const std::size_t both = direction == rtf::Direction::causal ? 1 : 2;
    const bool packed = random.chance(0.3);
    std::vector<std::size_t> offsets;
    if (packed)
      for (std::size_t s = 0; s <= batch; ++s) offsets.push_back(s * length);
    SCOPED_TRACE(testing::Message() << batch << " " << length << " " << channels << " " << kernel_length << " "
                                    << both);
    Values u = random.normals(batch * length * channels), k = random.normals(both * channels * kernel_length);
    const Values w = random.normals(u.size());
    const auto view = [&](auto* data) {
      return packed ? rtf::channels_last(data, 1, batch * length, channels)
                    : rtf::length_last(data, batch, channels, length);
    };
    const auto loss = [&] {
      Values y(u.size());
      rtf::convolve<double>(view(u.data()), std::span<const double>(k), view(y.data()), direction, offsets);
      return dot(w, y);
    };
    const rtf::ConvolutionPlan<double> plan(batch, length, channels, kernel_length, direction);
    auto& executor = rtf::default_executor();
    const rtf::Workspace workspace(plan.vjp_workspace_bytes(executor));
    Values du(u.size()), dk(k.size());
    rtf::convolve_vjp(plan, view(u.data()), k, view(w.data()), view(du.data()), dk, rtf::Offsets(offsets), workspace,
                      executor);
    EXPECT_LE(gradient_error(loss, u, du), gradient_tolerance) << "u";
    EXPECT_LE(gradient_error(loss, k, dk), gradient_tolerance) << "k";
  }
}

TEST(Gradient, FilterWithInitialAndFinalState) {
  RandomFilters random(24);
  for (int i = 0; i < 60; ++i) {
    const Sizes s(random);
    const std::size_t batch = random.integer(1, 3);
    const bool packed = random.chance(0.3), from = random.chance(0.7), to = random.chance(0.7);
    std::vector<std::size_t> offsets;
    if (packed) offsets = {0, s.length, s.length + 2};
    const std::size_t sequences = packed ? 2 : batch, total = packed ? s.length + 2 : s.length,
                      rows = packed ? 1 : batch;
    SCOPED_TRACE(testing::Message() << s.order << " " << s.length << " " << s.channels << " " << s.groups << " "
                                    << packed);
    TransferFunction tf = draw(random, s);
    Values u = random.normals(rows * total * s.channels);
    Values x0 = from ? random.normals(sequences * s.channels * s.order) : Values();
    const Values wy = random.normals(u.size()), wx = to ? random.normals(sequences * s.channels * s.order) : Values();
    const auto view = [&](auto* data) { return rtf::channels_last(data, rows, total, s.channels); };
    const auto loss = [&] {
      Values y(u.size()), xf(wx.size());
      rtf::filter<double>(tf, view(std::as_const(u).data()), view(y.data()), x0, xf, rtf::FilterMethod::recurrence,
                          offsets);
      return dot(wy, y) + dot(wx, xf);
    };
    for (const auto method : {rtf::FilterMethod::recurrence, rtf::FilterMethod::fft}) {
      SCOPED_TRACE(rtf::name(method));
      const auto gradient =
          rtf::filter_vjp<double>(tf, view(std::as_const(u).data()), x0, view(wy.data()), wx, offsets, method);
      check_coefficients(loss, tf, gradient.coefficients);
      EXPECT_LE(gradient_error(loss, u, gradient.u), gradient_tolerance) << "u";
      if (from) {
        EXPECT_LE(gradient_error(loss, x0, gradient.initial_state), gradient_tolerance) << "x0";
      }
    }
  }
}

// Lengths of several chunks, channels of several tiles and a rest, samples in float and of other strides: the one
// method for each instruction set against the other.
TEST(Gradient, FilterByRecurrenceIsThatByTransforms) {
  RandomFilters random(27);
  const auto best = rtf::instruction_set();
  for (int i = 0; i < 40; ++i) {
    Sizes s(random);
    s.length = random.chance(0.2) ? random.integer(1, 6000) : random.integer(1, 700);
    s.groups = random.integer(1, 3);
    s.channels = s.groups * random.integer(1, 9);
    s.order = random.integer(0, 40);
    const std::size_t batch = random.integer(1, 3);
    SCOPED_TRACE(testing::Message() << s.order << " " << s.length << " " << s.channels << " " << s.groups);
    const TransferFunction tf = draw(random, s);
    const std::vector<float> u = narrow(random.normals(batch * s.length * s.channels)),
                             dy = narrow(random.normals(u.size()));
    const Values wide_u(u.begin(), u.end()), wide_dy(dy.begin(), dy.end());
    const Values x0 = random.normals(batch * s.channels * s.order), dx = random.normals(x0.size());
    const auto turned = [&](const auto& x) { return rtf::length_last(x.data(), batch, s.channels, s.length); };
    const auto other = rtf::filter_vjp<double>(tf, turned(wide_u), x0, turned(wide_dy), dx, {}, rtf::FilterMethod::fft);
    const auto check = [&](const auto& one, double bound) {
      EXPECT_LE(relative_error(one.u, other.u), bound);
      EXPECT_LE(relative_error(one.initial_state, other.initial_state), 1e-10);
      EXPECT_LE(relative_error(one.coefficients.a, other.coefficients.a), 1e-10);
      EXPECT_LE(relative_error(one.coefficients.b, other.coefficients.b), 1e-10);
      EXPECT_LE(relative_error(one.coefficients.h0, other.coefficients.h0), 1e-10);
    };
    for (const auto set : rtf::instruction_sets()) {
      SCOPED_TRACE(rtf::name(set));
      rtf::set_instruction_set(set);
      check(rtf::filter_vjp<double>(tf, turned(wide_u), x0, turned(wide_dy), dx, {}, rtf::FilterMethod::recurrence),
            1e-10);
      // A gradient of float samples is double but for its own rounding, 2^-24.
      check(rtf::filter_vjp<float>(tf, turned(u), x0, turned(dy), dx, {}, rtf::FilterMethod::recurrence), 1e-7);
    }
    rtf::set_instruction_set(best);
  }
}

TEST(Gradient, FilterRefusesABlock) {
  RandomFilters random(28);
  const TransferFunction tf = draw(random, Sizes(random));
  const Values u(tf.channels);
  const auto signal = rtf::channels_last(u.data(), 1, 1, tf.channels);
  EXPECT_THROW(rtf::filter_vjp<double>(tf, signal, {}, signal, {}, {}, rtf::FilterMethod::block), rtf::Error);
}

TEST(Gradient, CorrectionAndItsInverse) {
  RandomFilters random(25);
  for (int i = 0; i < 60; ++i) {
    const Sizes s(random);
    SCOPED_TRACE(testing::Message() << s.order << " " << s.length << " " << s.channels << " " << s.groups);
    TrainedTransferFunction trained;
    static_cast<rtf::Coefficients&>(trained) = draw(random, s);
    trained.length = s.length;
    const rtf::CoefficientsGradient w{random.normals(trained.a.size()), random.normals(trained.b.size()),
                                      random.normals(s.channels)};
    const auto value = [&](const rtf::Coefficients& c) { return dot(w.a, c.a) + dot(w.b, c.b) + dot(w.h0, c.h0); };
    check_coefficients([&] { return value(rtf::correct(trained)); }, trained, rtf::correct_vjp(trained, w));
    TransferFunction tf;
    static_cast<rtf::Coefficients&>(tf) = trained;
    check_coefficients([&] { return value(rtf::wrap(tf, s.length)); }, tf, rtf::wrap_vjp(tf, s.length, w));
  }
}

TEST(Gradient, AdvanceState) {
  RandomFilters random(26);
  for (int i = 0; i < 30; ++i) {
    Sizes s(random);
    s.order = std::max<std::size_t>(s.order, 1);
    const std::size_t batch = random.integer(1, 3);
    TransferFunction tf = draw(random, s);
    Values x = random.normals(batch * s.channels * s.order);
    const Values w = random.normals(x.size());
    const auto loss = [&] { return dot(w, rtf::advance_state(tf, x, s.length)); };
    const auto gradient = rtf::advance_state_vjp(tf, x, s.length, w);
    EXPECT_LE(gradient_error(loss, x, gradient.state), gradient_tolerance);
    EXPECT_LE(gradient_error(loss, tf.a, gradient.a), gradient_tolerance);
  }
}

TEST(Gradient, MontelConstraints) {
  RandomFilters random(27);
  for (int i = 0; i < 40; ++i) {
    const std::size_t n = random.integer(1, 12);
    Values alpha = random.normals(n), free = random.normals(n + 1), sigma{random.uniform(0.1, 1)}, signs(n);
    for (double& sign : signs) sign = random.chance(0.5) ? 1 : -1;
    const Values w = random.normals(n);
    const auto release = rtf::montel_vjp(alpha, sigma[0], w);
    EXPECT_LE(gradient_error([&] { return dot(w, rtf::montel(alpha, sigma[0])); }, alpha, release.alpha),
              gradient_tolerance);
    EXPECT_LE(gradient_error([&] { return dot(w, rtf::montel(alpha, sigma[0])); }, sigma, Values{release.sigma}),
              gradient_tolerance);
    const auto paper = rtf::montel_paper_vjp(free, w);
    EXPECT_LE(gradient_error([&] { return dot(w, rtf::montel_paper(free)); }, free, paper), gradient_tolerance);
    const auto softmax = rtf::montel_softmax_vjp(free, signs, w);
    EXPECT_LE(gradient_error([&] { return dot(w, rtf::montel_softmax(free, signs)); }, free, softmax),
              gradient_tolerance);
  }
}

}  // namespace
