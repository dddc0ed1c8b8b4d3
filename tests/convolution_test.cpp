#include "rtf/convolution.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "random_filter.h"
#include "rtf/rtf.h"

namespace {

using rtf::Direction;
using rtf::testing::RandomFilters;

// One row by the definition; `backward` empty means causal.
std::vector<long double> direct(std::span<const double> u, std::span<const double> forward,
                                std::span<const double> backward) {
  std::vector<long double> y(u.size(), 0.0L);
  for (std::size_t t = 0; t < u.size(); ++t)
    for (std::size_t j = 0; j < u.size(); ++j) {
      if (j <= t && t - j < forward.size()) y[t] += static_cast<long double>(forward[t - j]) * u[j];
      if (j > t && j - t - 1 < backward.size()) y[t] += static_cast<long double>(backward[j - t - 1]) * u[j];
    }
  return y;
}

TEST(Convolve, EveryShortLengthBothDirections) {
  RandomFilters random(1);
  std::vector<std::size_t> lengths{100, 257};
  for (std::size_t length = 1; length <= 33; ++length) lengths.push_back(length);
  for (const std::size_t length : lengths)
    for (const Direction direction : {Direction::causal, Direction::bidirectional})
      for (const std::size_t kernel_length : {std::size_t{1}, (length + 1) / 2, length, length + 5}) {
        const std::size_t both = direction == Direction::causal ? 1 : 2;
        const auto u = random.normals(length), k = random.normals(both * kernel_length);
        std::vector<double> y(length);
        rtf::convolve<double>(rtf::channels_last(u.data(), 1, length, 1), k, rtf::channels_last(y.data(), 1, length, 1),
                              direction);
        const auto kernels = std::span<const double>(k);
        const auto expected = direct(u, kernels.first(kernel_length), kernels.subspan(kernel_length));
        EXPECT_LE(rtf::testing::relative_error(y, expected), 1e-13) << length << " " << kernel_length;
      }
}

double dot(const std::vector<double>& x, const std::vector<double>& y) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
  return sum;
}

// Lengths that are split, with half vectors, and at the sizes that avoid powers of two. Outputs at a few places against the
// direct sum; gradients by <dy, y> = <du, u> = <dk, k>, for y is linear in each.
TEST(Convolve, LongLengthsAndTheirGradients) {
  RandomFilters random(9);
  for (const std::size_t length : {512, 777, 1031, 4096, 5003, 8192, 16384, 20011})
    for (const Direction direction : {Direction::causal, Direction::bidirectional}) {
      const std::size_t channels = 3, batch = 2, both = direction == Direction::causal ? 1 : 2;
      const auto u = random.normals(batch * length * channels), k = random.normals(both * channels * length);
      const auto dy = random.normals(u.size());
      std::vector<double> y(u.size()), du(u.size()), dk(k.size());
      const rtf::ConvolutionPlan<double> plan(batch, length, channels, length, direction);
      auto& executor = rtf::default_executor();
      const rtf::Workspace workspace(plan.vjp_workspace_bytes(executor));
      const auto view = [&](auto* data) { return rtf::length_last(data, batch, channels, length); };
      rtf::convolve(plan, view(u.data()), k, view(y.data()), {}, workspace, executor);
      rtf::convolve_vjp(plan, view(u.data()), k, view(dy.data()), view(du.data()), dk, {}, workspace, executor);
      const double scale = std::sqrt(static_cast<double>(length)) * 10;  // the standard deviation of y, and room
      for (int i = 0; i < 40; ++i) {
        const std::size_t row = random.integer(0, batch * channels - 1), t = random.integer(0, length - 1);
        const std::size_t c = row % channels;
        long double sum = 0;
        for (std::size_t j = 0; j < length; ++j)
          if (j <= t || both == 2)
            sum += static_cast<long double>(j <= t ? k[c * length + t - j] : k[(channels + c) * length + j - t - 1]) *
                   u[row * length + j];
        EXPECT_NEAR(static_cast<double>(sum), y[row * length + t], 1e-13 * scale) << length << " " << both;
      }
      const double expected = dot(dy, y), size = std::sqrt(dot(dy, dy) * dot(y, y));
      EXPECT_NEAR(dot(du, u), expected, 1e-13 * size) << length << " " << both;
      EXPECT_NEAR(dot(dk, k), expected, 1e-13 * size) << length << " " << both;
    }
}

// A padded batch with lengths is the batch whose padding was set to zero, gradients included.
TEST(Convolve, LengthsEndTheInput) {
  RandomFilters random(4);
  for (const std::size_t length : {1, 9, 600})
    for (const Direction direction : {Direction::causal, Direction::bidirectional}) {
      const std::size_t channels = 5, batch = 3, both = direction == Direction::causal ? 1 : 2;
      const std::vector<std::size_t> lengths{length, 0, length / 2};
      const auto u = random.normals(batch * length * channels), k = random.normals(both * channels * length);
      const auto dy = random.normals(u.size());
      std::vector<double> zeroed = u;
      const auto padding = [&](std::size_t i) { return i / channels % length >= lengths[i / channels / length]; };
      for (std::size_t i = 0; i < u.size(); ++i)
        if (padding(i)) zeroed[i] = 0;
      const rtf::ConvolutionPlan<double> plan(batch, length, channels, length, direction);
      auto& executor = rtf::default_executor();
      const rtf::Workspace workspace(plan.vjp_workspace_bytes(executor));
      const auto view = [&](auto* data) { return rtf::channels_last(data, batch, length, channels); };
      std::vector<double> y(u.size()), du(u.size()), dk(k.size()), y2(y), du2(du), dk2(dk);
      rtf::convolve(plan, view(u.data()), k, view(y.data()), {{}, lengths}, workspace, executor);
      rtf::convolve_vjp(plan, view(u.data()), k, view(dy.data()), view(du.data()), dk, {{}, lengths}, workspace,
                        executor);
      rtf::convolve(plan, view(zeroed.data()), k, view(y2.data()), {}, workspace, executor);
      rtf::convolve_vjp(plan, view(zeroed.data()), k, view(dy.data()), view(du2.data()), dk2, {}, workspace, executor);
      EXPECT_EQ(y, y2);
      EXPECT_EQ(dk, dk2);
      for (std::size_t i = 0; i < u.size(); ++i) EXPECT_EQ(du[i], padding(i) ? 0 : du2[i]);
    }
}

TEST(Convolve, PackedSequencesDoNotSeeEachOther) {
  RandomFilters random(2);
  const std::vector<std::size_t> offsets{0, 7, 7, 8, 40, 57};
  const std::size_t channels = 19, kernel_length = 25;
  const auto u = random.normals(57 * channels), k = random.normals(2 * channels * kernel_length);
  for (const Direction direction : {Direction::causal, Direction::bidirectional}) {
    const std::size_t both = direction == Direction::causal ? 1 : 2;
    std::vector<double> y(u.size());
    const auto kernels = std::span<const double>(k).first(both * channels * kernel_length);
    rtf::convolve<double>(rtf::channels_last(u.data(), 1, 57, channels), kernels,
                          rtf::channels_last(y.data(), 1, 57, channels), direction, offsets);
    for (std::size_t s = 0; s + 1 < offsets.size(); ++s)
      for (std::size_t c = 0; c < channels; ++c) {
        std::vector<double> in, out;
        for (std::size_t t = offsets[s]; t < offsets[s + 1]; ++t) {
          in.push_back(u[t * channels + c]);
          out.push_back(y[t * channels + c]);
        }
        const auto backward =
            both == 1 ? std::span<const double>() : kernels.subspan((channels + c) * kernel_length, kernel_length);
        const auto expected = direct(in, kernels.subspan(c * kernel_length, kernel_length), backward);
        EXPECT_LE(rtf::testing::relative_error(out, expected), 1e-13);
      }
  }
}

TEST(Convolve, InPlaceAndThroughAnyStrides) {
  RandomFilters random(3);
  const std::size_t batch = 3, length = 50, channels = 21;
  const auto u = random.normals(batch * length * channels), k = random.normals(channels * length);
  std::vector<double> last(u.size()), moved(u.size());
  rtf::convolve<double>(rtf::channels_last(u.data(), batch, length, channels), k,
                        rtf::channels_last(last.data(), batch, length, channels));
  std::vector<double> same = u;
  const auto view = rtf::channels_last(same.data(), batch, length, channels);
  rtf::convolve<double>(view, k, view);
  EXPECT_EQ(same, last);
  // (length, channels, batch) in, (batch, channels, length) out: a lane's arithmetic does not depend on its layout.
  std::vector<double> odd(u.size());
  rtf::Signal<double> strange{odd.data(),
                              batch,
                              length,
                              channels,
                              1,
                              static_cast<std::ptrdiff_t>(channels * batch),
                              static_cast<std::ptrdiff_t>(batch)};
  const auto from = rtf::channels_last(u.data(), batch, length, channels);
  for (std::size_t s = 0; s < batch; ++s)
    for (std::size_t t = 0; t < length; ++t)
      for (std::size_t c = 0; c < channels; ++c) *strange.at(s, t, c) = *from.at(s, t, c);
  const auto out = rtf::length_last(moved.data(), batch, channels, length);
  rtf::convolve<double>(strange, k, out);
  for (std::size_t s = 0; s < batch; ++s)
    for (std::size_t t = 0; t < length; ++t)
      for (std::size_t c = 0; c < channels; ++c) EXPECT_EQ(*out.at(s, t, c), last[(s * length + t) * channels + c]);
}

void expect_error(const std::function<void()>& call, const std::string& part) {
  try {
    call();
    FAIL() << "expected an error about " << part;
  } catch (const rtf::Error& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(Convolve, BadArgumentsAreNamed) {
  std::vector<float> u(24), y(24), k(8);
  std::vector<std::byte> none;
  const auto view = rtf::channels_last(u.data(), 2, 6, 2);
  const rtf::ConvolutionPlan<float> plan(2, 6, 2, 4);
  auto& executor = rtf::default_executor();
  std::vector<std::byte> enough(plan.workspace_bytes(executor));
  expect_error([&] { rtf::convolve(plan, view, k, view, {}, none, executor); }, "workspace has 0 bytes");
  expect_error([] { rtf::ConvolutionPlan<float>(1, 6, 0, 4); }, "channels is 0");
  expect_error([&] { rtf::convolve(plan, rtf::channels_last(u.data(), 2, 4, 3), k, view, {}, enough, executor); },
               "u has shape (2, 4, 3); the plan is for (2, 6, 2)");
  expect_error([&] { rtf::convolve(plan, view, std::span(k).first(7), view, {}, enough, executor); },
               "the kernel has 7 values; 8 are needed");
  expect_error([&] { rtf::convolve(plan, view, k, rtf::channels_last(y.data(), 2, 5, 2), {}, enough, executor); },
               "y has shape (2, 5, 2)");
  const std::vector<std::size_t> backwards{0, 5, 3, 12};
  expect_error(
      [&] {
        rtf::convolve<float>(rtf::channels_last(u.data(), 1, 12, 2), k, rtf::channels_last(y.data(), 1, 12, 2),
                             Direction::causal, backwards);
      },
      "sequence 1 runs from 5 to 3");
}

}  // namespace
