#include "train/tasks/noise.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace rtf::train {

Noise::Noise(std::size_t length, double dt, double band, double rms) : length_(length), half_((length + 1) / 2) {
  const double points = 2 * static_cast<double>(half_);
  // Coefficient k has the frequency k / (2 K dt); the slack keeps one that lies on the limit, whatever dt rounds to.
  const double limit = std::floor(band * points * dt * (1 + 1e-12));
  highest_ = limit < static_cast<double>(half_) ? static_cast<std::size_t>(limit) : half_;
  // Unit-power coefficients rms / sqrt 2, more power for those that the band leaves, and the transform's own factor
  // sqrt(2 K) / (2 K).
  const double left = 1 - static_cast<double>(half_ - highest_) / static_cast<double>(half_);
  deviation_ = rms * std::sqrt(0.5) / std::sqrt(left) / std::sqrt(points);
  fft_ = get_fft<double>(FftKind::real, FftLanes::one, 2 * half_, instruction_set());
}

void Noise::draw(const Random& random, std::uint64_t sample, std::span<double> signal) const {
  std::vector<double> space(FftRow<double>::elements(*fft_));
  FftRow<double> row(*fft_, space.data());
  const std::uint64_t first = sample * 2 * (half_ + 1);
  // In place: (r0, r1, i1, ..., rK), where 0 is left out and K is real.
  for (std::size_t k = 1; k <= highest_; ++k) {
    row.data[2 * k - 1] = deviation_ * random.normal(first + 2 * k);
    if (k < half_) row.data[2 * k] = deviation_ * random.normal(first + 2 * k + 1);
  }
  row.backward();
  const double start = row.data[0];
  std::transform(row.data, row.data + length_, signal.begin(), [&](double value) { return value - start; });
}

}  // namespace rtf::train
