#include "rtf/init.h"

#include <algorithm>
#include <cmath>

#include "core/arguments.h"
#include "rtf/random.h"

namespace rtf {
namespace {

// Draws in the order a, b, h0, one index each.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : random_(seed) {}
  // An explicit fma, so that every compiler rounds alike.
  double uniform(double low, double high) { return std::fma(high - low, random_.uniform(next_++), low); }
  double normal() { return random_.normal(next_++); }

 private:
  Random random_;
  std::uint64_t next_ = 0;
};

void divide_by_l1_norm(std::span<double> a) {
  double norm = 0;
  for (double value : a) norm += std::abs(value);
  if (norm == 0) return;
  for (double& value : a) value /= norm;
}

}  // namespace

TrainedTransferFunction initialize(Init init, InitialGain gain, std::size_t channels, std::size_t groups,
                                   std::size_t order, std::size_t length, std::uint64_t seed) {
  if (channels < 1 || groups < 1 || channels % groups != 0)
    fail(ErrorCode::argument, "initialize", "{} groups do not divide {} channels", groups, channels);
  if (length < 1) fail(ErrorCode::argument, "initialize", "length is 0; at least 1 is needed");
  auto result = make_coefficients<TrainedTransferFunction>(channels, groups, order);
  result.length = length;

  Draws draws(seed);
  const double n = static_cast<double>(order);
  const auto fill = [&](double low, double high) {
    for (double& value : result.a) value = draws.uniform(low, high);
    for (double& value : result.b) value = draws.uniform(low, high);
  };
  switch (init) {
    case Init::zero:
      break;
    case Init::xavier:
      fill(-1 / std::sqrt(n), 1 / std::sqrt(n));
      break;
    case Init::montel:
      fill(-1 / n, 1 / n);
      break;
    case Init::uniform_montel:
      fill(0, 1);
      for (std::size_t g = 0; g < groups; ++g) divide_by_l1_norm({result.a.data() + g * order, order});
      break;
  }
  if (gain == InitialGain::release)
    for (double& value : result.h0) value = draws.normal();
  return result;
}

TransferFunction from_fir(std::span<const double> taps, std::size_t channels) {
  if (channels < 1) fail(ErrorCode::argument, "from_fir", "channels is 0; at least 1 is needed");
  if (taps.empty() || taps.size() % channels != 0)
    fail(ErrorCode::argument, "from_fir", "{} taps do not divide into {} channels of at least one", taps.size(),
         channels);
  const std::size_t order = taps.size() / channels - 1;
  auto tf = make_coefficients(channels, 1, order);
  for (std::size_t c = 0; c < channels; ++c) {
    const auto row = taps.subspan(c * (order + 1), order + 1);
    tf.h0[c] = row[0];
    std::copy(row.begin() + 1, row.end(), tf.b.begin() + static_cast<std::ptrdiff_t>(c * order));
  }
  validate(tf, "from_fir");
  return tf;
}

}  // namespace rtf
