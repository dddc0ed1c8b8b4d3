// GELU, GLU and dropout against the plain formulas in long double, on every instruction set of this machine.
#include "rtf/activation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "cpu/activation_lanes.h"
#include "rtf/error.h"
#include "rtf/random.h"

namespace {

using rtf::Dropout;

std::vector<double> draws(std::size_t count, std::uint32_t stream, double scale = 3) {
  const rtf::Random random(7, 0, stream);
  std::vector<double> result(count);
  for (std::size_t i = 0; i < count; ++i) result[i] = scale * random.normal(i);
  return result;
}

template <class T>
std::vector<T> as(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

long double distribution(long double x) { return std::erfc(-x / std::sqrt(2.0L)) / 2; }
long double density(long double x) { return std::exp(-x * x / 2) / std::sqrt(2 * std::acos(-1.0L)); }

// Half-word i % 8 of block i / 8, as activation.h writes it.
double factor(const Dropout& mask, std::size_t row, std::size_t channel, std::size_t channels) {
  if (mask.p == 0) return 1;
  const std::uint64_t i = (mask.tied > 0 ? row / mask.tied : row) * channels + channel;
  const auto words = rtf::philox({static_cast<std::uint32_t>(i / 8), 0, mask.step, mask.layer},
                                 {static_cast<std::uint32_t>(mask.seed), static_cast<std::uint32_t>(mask.seed >> 32)});
  const std::uint32_t half = i % 2 == 0 ? words[i % 8 / 2] & 0xffff : words[i % 8 / 2] >> 16;
  return half < std::round(mask.p * 0x1p16) ? 0 : 1 / (1 - mask.p);
}

const std::vector<Dropout> masks{{}, {0.3, 11, 2, 5, 0}, {0.3, 1ull << 40, 2, 5, 3}};
const std::vector<std::size_t> widths{1, 3, 4, 17, 64, 1024, 1031};
constexpr std::size_t rows = 6;

template <class T>
class Activation : public testing::Test {
 public:
  // A product of a few rounded factors; the fit of Phi in float adds 2.5e-8.
  const double bound = std::is_same_v<T, float> ? 4 * std::numeric_limits<float>::epsilon() : 1e-15;
  rtf::Executor& executor = rtf::default_executor();

  void expect_close(long double expected, T got, double scale = 0) {
    EXPECT_NEAR(static_cast<double>(expected), static_cast<double>(got),
                bound * (std::abs(static_cast<double>(expected)) + scale) + std::numeric_limits<T>::min());
  }
};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(Activation, Types);

TYPED_TEST(Activation, GeluAndItsGradient) {
  using T = TypeParam;
  for (const std::size_t channels : widths)
    for (const Dropout& mask : masks) {
      const auto x = as<T>(draws(rows * channels, 1)), dy = as<T>(draws(rows * channels, 2));
      std::vector<T> y(x.size()), dx(x.size());
      rtf::gelu<T>(x, channels, mask, y, this->executor);
      rtf::gelu_vjp<T>(x, channels, mask, dy, dx, this->executor);
      for (std::size_t i = 0; i < x.size(); ++i) {
        const long double at = x[i], f = factor(mask, i / channels, i % channels, channels);
        // e^{-x^2/2} carries the rounding of its argument, x^2/2 times over; Phi + x phi cancels around x = -0.75.
        const long double square = at * at / 2, exact = f * at * distribution(at);
        this->expect_close(exact, y[i], static_cast<double>(std::abs(exact) * square));
        this->expect_close(f * dy[i] * (distribution(at) + at * density(at)), dx[i],
                           static_cast<double>(std::abs(f * dy[i] * at * density(at)) * (1 + square)));
      }
    }
}

TYPED_TEST(Activation, GluAndItsGradient) {
  using T = TypeParam;
  for (const std::size_t channels : widths)
    for (const Dropout& mask : masks) {
      const auto z = as<T>(draws(2 * rows * channels, 1)), x = as<T>(draws(rows * channels, 2));
      const auto dy = as<T>(draws(rows * channels, 3));
      std::vector<T> y(x.size()), alone(x.size()), dz(z.size());
      rtf::glu<T>(z, channels, mask, x, y, this->executor);
      rtf::glu<T>(z, channels, mask, {}, alone, this->executor);
      rtf::glu_vjp<T>(z, channels, mask, dy, dz, this->executor);
      for (std::size_t i = 0; i < x.size(); ++i) {
        const std::size_t row = i / channels, p = i + row * channels, q = p + channels;
        const long double gate = 1 / (1 + std::exp(-static_cast<long double>(z[q])));
        const long double f = factor(mask, row, i % channels, channels), gated = f * z[p] * gate;
        this->expect_close(gated, alone[i]);
        this->expect_close(x[i] + gated, y[i], static_cast<double>(std::abs(gated) + std::abs(x[i])));
        this->expect_close(f * dy[i] * gate, dz[p]);
        // 1 - gate loses what gate has rounded.
        this->expect_close(f * dy[i] * z[p] * gate * (1 - gate), dz[q],
                           std::abs(static_cast<double>(f * dy[i] * z[p] * gate)));
      }
    }
}

TYPED_TEST(Activation, FarTails) {
  using T = TypeParam;
  const std::vector<T> x{-40, -13, -6, -0.0, 0, 6, 13, 40, 1000, -1000};
  std::vector<T> y(x.size()), dx(x.size()), gated(x.size());
  const std::vector<T> ones(x.size(), 1);
  rtf::gelu<T>(x, x.size(), {}, y, this->executor);
  rtf::gelu_vjp<T>(x, x.size(), {}, ones, dx, this->executor);
  std::vector<T> z(ones);
  z.insert(z.end(), x.begin(), x.end());
  rtf::glu<T>(z, x.size(), {}, {}, gated, this->executor);
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_TRUE(std::isfinite(y[i]) && std::isfinite(dx[i]) && std::isfinite(gated[i])) << x[i];
    // e^{-x^2/2} carries the rounding of its argument.
    this->expect_close(x[i] * distribution(x[i]), y[i],
                       static_cast<double>(std::abs(x[i] * distribution(x[i]))) * x[i] * x[i]);
    EXPECT_NEAR(static_cast<double>(gated[i]), x[i] < -30 ? 0 : x[i] > 30 ? 1 : 1 / (1 + std::exp(-double(x[i]))), 1e-6);
  }
}

TYPED_TEST(Activation, DropoutIsTheMaskAlone) {
  using T = TypeParam;
  for (const std::size_t channels : widths)
    for (const Dropout& mask : masks) {
      const auto x = as<T>(draws(rows * channels, 1));
      std::vector<T> y(x.size());
      rtf::dropout<T>(x, channels, mask, y, this->executor);
      for (std::size_t i = 0; i < x.size(); ++i)
        EXPECT_EQ(y[i], x[i] * static_cast<T>(factor(mask, i / channels, i % channels, channels)));
    }
}

TEST(ActivationLanes, EveryInstructionSetDrawsPhilox) {
  for (const rtf::InstructionSet set : rtf::instruction_sets()) {
    const std::uint64_t first = (1ull << 32) - 5, seed = 0x123456789abcdefull;
    for (const std::size_t blocks : {1, 2, 7, 16, 33}) {
      std::vector<std::uint32_t> words(4 * blocks);
      rtf::cpu::activation_lanes<float>(set).draw(seed, 3, 9, first, blocks, words.data());
      for (std::size_t i = 0; i < blocks; ++i) {
        const std::uint64_t at = first + i;
        const auto expected = rtf::philox({static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(at >> 32), 3, 9},
                                          {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
        for (std::size_t k = 0; k < 4; ++k) EXPECT_EQ(words[4 * i + k], expected[k]);
      }
    }
  }
}

TEST(ActivationErrors, NameTheOperationAndTheValue) {
  const std::vector<float> x(6);
  std::vector<float> y(6);
  rtf::Executor& executor = rtf::default_executor();
  const auto message = [&](auto&& call) -> std::string {
    try {
      call();
    } catch (const rtf::Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(message([&] { rtf::gelu<float>(x, 4, {}, y, executor); }), "[rtf::gelu] 6 values are no rows of 4 channels");
  EXPECT_EQ(message([&] { rtf::gelu<float>(x, 3, {.p = 1}, y, executor); }), "[rtf::gelu] p is 1; it must be in [0, 1)");
  EXPECT_EQ(message([&] { rtf::dropout<float>(x, 3, {.p = 0.5, .tied = 3}, y, executor); }),
            "[rtf::dropout] 2 rows are no sequences of 3");
  EXPECT_EQ(message([&] { rtf::glu<float>(x, 3, {}, {}, y, executor); }), "[rtf::glu] z has 6 values; 12 are needed");
}

}  // namespace
