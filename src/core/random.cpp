#include "rtf/random.h"

#include <cmath>

// Normal draws must have the same bits on every machine and device, and libraries differ in the last bit of log and
// cos. So both are series of our own in operations that IEEE 754 rounds in one way only: +, -, *, /, sqrt and fma.
// Every product that meets a sum is an explicit fma, which leaves a compiler nothing to contract.

namespace rtf {
namespace {

constexpr int rounds = 10;
constexpr double kTwoPowMinus53 = 0x1p-53;

std::uint64_t join(std::uint32_t low, std::uint32_t high) { return std::uint64_t{high} << 32 | low; }

std::array<std::uint32_t, 4> block(std::uint64_t seed, std::uint32_t step, std::uint32_t layer, std::uint64_t index) {
  return philox({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), step, layer},
                {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
}

// ln x for x in (0, 1]: x = m 2^e with m in [1/sqrt2, sqrt2), then ln m = 2 artanh((m - 1) / (m + 1)).
double log_portable(double x) {
  int exponent;
  double m = 2 * std::frexp(x, &exponent);
  --exponent;
  if (m > 0x1.6a09e667f3bcdp+0) {
    m /= 2;
    ++exponent;
  }
  const double s = (m - 1) / (m + 1), s2 = s * s;
  double series = 0;
  for (int k = 23; k >= 3; k -= 2) series = std::fma(series, s2, 1.0 / k);
  return std::fma(static_cast<double>(exponent), 0x1.62e42fefa39efp-1, 2 * std::fma(s * s2, series, s));
}

// cos(2 pi x) for x in [0, 1): reduced to the nearest quarter turn, which is exact, then Taylor.
double cos_turns_portable(double x) {
  const double quarters = 4 * x, nearest = std::floor(quarters + 0.5);
  const double angle = (quarters - nearest) * 0x1.921fb54442d18p+0, square = angle * angle;
  const int quadrant = static_cast<int>(nearest) % 4;
  double series = 1;
  if (quadrant % 2 == 0) {
    for (int k = 16; k >= 2; k -= 2) series = std::fma(series * square, -1.0 / (k * (k - 1)), 1.0);
  } else {
    for (int k = 17; k >= 3; k -= 2) series = std::fma(series * square, -1.0 / (k * (k - 1)), 1.0);
    series *= angle;
  }
  return quadrant == 1 || quadrant == 2 ? -series : series;
}

}  // namespace

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < rounds; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * counter[0], p1 = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(p1),
               static_cast<std::uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(p0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

Random::Random(std::uint64_t seed, std::uint32_t step, std::uint32_t layer) : seed_(seed), step_(step), layer_(layer) {}

double Random::uniform(std::uint64_t index) const {
  const auto words = block(seed_, step_, layer_, index);
  return static_cast<double>(join(words[0], words[1]) >> 11) * kTwoPowMinus53;
}

double Random::normal(std::uint64_t index) const {
  const auto words = block(seed_, step_, layer_, index);
  // The radius takes a number in (0, 1], whose logarithm is finite.
  const double radius = static_cast<double>((join(words[0], words[1]) >> 11) + 1) * kTwoPowMinus53;
  const double turns = static_cast<double>(join(words[2], words[3]) >> 11) * kTwoPowMinus53;
  return std::sqrt(-2 * log_portable(radius)) * cos_turns_portable(turns);
}

}  // namespace rtf
