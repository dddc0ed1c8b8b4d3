// The filters that benchmarks run: well inside the Montel region, or with poles up to a radius.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/carver.h"
#include "rtf/error.h"
#include "rtf/random.h"
#include "rtf/stability.h"
#include "rtf/transfer_function.h"

namespace rtf::bench {

// Aligned to a cache line, as tensor libraries allocate.
using Samples = AlignedVector<float>;

enum class Family {
  montel,  // sum |a| = 0.9
  slow,    // random reflection coefficients, the largest pole scaled to radius 0.99
};

constexpr Family families[] = {Family::montel, Family::slow};

inline const char* name(Family family) { return family == Family::montel ? "montel" : "slow"; }

inline Family family_of(const std::string& text) {
  for (const Family family : families)
    if (text == name(family)) return family;
  throw Error(ErrorCode::argument, "bench", "'" + text + "' is not a family of filters: montel, slow");
}

inline std::vector<double> denominator(Family family, std::size_t order, const Random& random, std::uint64_t first) {
  std::vector<double> a(order);
  if (family == Family::montel) {
    double sum = 0;
    for (std::size_t k = 0; k < order; ++k) sum += std::abs(a[k] = random.normal(first + k));
    for (double& value : a) value *= 0.9 / sum;
    return a;
  }
  // Small reflection coefficients, then the whole pole pattern scaled out to its radius.
  for (std::size_t i = 0; i < order; ++i) {
    const double k = std::tanh(random.normal(first + i) / std::sqrt(4.0 * static_cast<double>(order)));
    const std::vector<double> previous(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(i));
    for (std::size_t j = 0; j < i; ++j) a[j] += k * previous[i - 1 - j];
    a[i] = k;
  }
  const double scale = 0.99 / pole_radius(a);
  double power = 1;
  for (double& value : a) value *= power *= scale;
  return a;
}

// Every coefficient is a float32 number, so that a peer in single precision is given the same filter.
template <class Value>
Value make_filter(Family family, std::size_t channels, std::size_t groups, std::size_t order, std::uint64_t seed) {
  Value value = make_coefficients<Value>(channels, groups, order);
  const Random denominators(seed), numerators(seed + 1);
  for (std::size_t g = 0; g < groups; ++g) {
    const auto a = denominator(family, order, denominators, g * 4 * (order + 1));
    std::copy(a.begin(), a.end(), value.a.begin() + static_cast<std::ptrdiff_t>(g * order));
  }
  for (std::size_t i = 0; i < value.b.size(); ++i)
    value.b[i] = numerators.normal(i) / std::sqrt(static_cast<double>(order) + 1);
  for (double& x : value.a) x = static_cast<float>(x);
  for (double& x : value.b) x = static_cast<float>(x);
  return value;
}

// The filters of layer_bench, filter_bench and step_bench; write_filters hands the same to the peers.
inline TrainedTransferFunction layer_filter(Family family, std::size_t length, std::size_t channels,
                                            std::size_t order) {
  auto trained = make_filter<TrainedTransferFunction>(family, channels, channels, order, 1);
  trained.length = length;
  return trained;
}

inline TransferFunction one_filter(Family family, std::size_t order) {
  return make_filter<TransferFunction>(family, 1, 1, order, 1);
}

inline TransferFunction step_filter(std::size_t channels, std::size_t order) {
  return make_filter<TransferFunction>(Family::montel, channels, channels, order, 1);
}

// Repeats itself after a prime number of samples, which no row of a signal notices; drawing them all would take
// seconds.
inline Samples normal_samples(std::size_t count, std::uint64_t seed) {
  constexpr std::size_t period = 1000003;
  const Random random(seed);
  Samples samples(count);
  for (std::size_t i = 0; i < count; ++i)
    samples[i] = i < period ? static_cast<float>(random.normal(i)) : samples[i - period];
  return samples;
}

}  // namespace rtf::bench
