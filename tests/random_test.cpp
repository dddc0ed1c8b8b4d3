#include "rtf/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <set>

namespace rtf {
namespace {

using Counter = std::array<std::uint32_t, 4>;
using Key = std::array<std::uint32_t, 2>;

// The known answers published with Random123.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox(Counter{0, 0, 0, 0}, Key{0, 0}), (Counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(Counter{~0u, ~0u, ~0u, ~0u}, Key{~0u, ~0u}),
            (Counter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(Counter{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, Key{0xa4093822, 0x299f31d0}),
            (Counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, UniformIsThePhiloxBlock) {
  const Random random(0x299f31d0a4093822, 0x13198a2e, 0x03707344);
  const std::uint64_t bits = 0x94fdccebd16cfe09;
  EXPECT_EQ(random.uniform(0x85a308d3243f6a88), static_cast<double>(bits >> 11) * 0x1p-53);
}

// Frozen bits: a change here changes every initialisation, dropout mask and data order.
TEST(Random, FrozenDraws) {
  const Random random(1, 2, 3);
  EXPECT_EQ(random.uniform(0), 0x1.8a21d20e17f3ep-1);
  EXPECT_EQ(random.uniform(1), 0x1.15b25077bf7f5p-1);
  EXPECT_EQ(random.normal(0), -0x1.50defe813a0d1p-1);
  EXPECT_EQ(random.normal(1), 0x1.aa16ebe97b8a5p-1);
  EXPECT_EQ(random.normal(std::uint64_t{1} << 40), 0x1.ef283bcf3edf2p-2);
}

TEST(Random, NormalIsBoxMuller) {
  const Random random(42);
  for (std::uint64_t i = 0; i < 20000; ++i) {
    const auto words = philox({static_cast<std::uint32_t>(i), 0, 0, 0}, {42, 0});
    const long double u1 = ((std::uint64_t{words[1]} << 32 | words[0]) >> 11) + 1;
    const long double u2 = (std::uint64_t{words[3]} << 32 | words[2]) >> 11;
    const long double radius = std::sqrt(-2 * std::log(u1 * 0x1p-53L));
    const long double expected = radius * std::cos(2 * std::numbers::pi_v<long double> * (u2 * 0x1p-53L));
    // A few ulps of the radius; the cosine may be small.
    ASSERT_NEAR(random.normal(i), static_cast<double>(expected), 1e-15 * static_cast<double>(radius)) << i;
  }
}

TEST(Random, Moments) {
  const Random random(7, 1);
  const int count = 200000;
  double sum = 0, square = 0, fourth = 0, mean = 0;
  for (int i = 0; i < count; ++i) {
    const double x = random.normal(static_cast<std::uint64_t>(i)), u = random.uniform(static_cast<std::uint64_t>(i));
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += x;
    square += x * x;
    fourth += x * x * x * x;
    mean += u;
  }
  // Six standard errors each.
  const double root = std::sqrt(static_cast<double>(count));
  EXPECT_NEAR(sum / count, 0.0, 6 / root);
  EXPECT_NEAR(square / count, 1.0, 6 * std::sqrt(2.0) / root);
  EXPECT_NEAR(fourth / count, 3.0, 6 * std::sqrt(96.0) / root);
  EXPECT_NEAR(mean / count, 0.5, 6 * std::sqrt(1.0 / 12) / root);
}

TEST(Random, StreamsDiffer) {
  std::set<double> seen;
  for (std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 32})
    for (std::uint32_t step : {0u, 1u})
      for (std::uint32_t layer : {0u, 1u})
        for (std::uint64_t index : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 32})
          seen.insert(Random(seed, step, layer).uniform(index));
  EXPECT_EQ(seen.size(), 36u);
}

}  // namespace
}  // namespace rtf
