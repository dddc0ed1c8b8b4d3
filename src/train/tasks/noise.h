// The band-limited white noise of Delay and Reconstruct. Free of torch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "core/fft.h"
#include "rtf/random.h"

namespace rtf::train {

// Signals of `length` samples, `dt` seconds apart, with no power above `band` Hz and root mean square `rms`; then the
// first sample is subtracted, so that every signal starts at 0.
class Noise {
 public:
  Noise(std::size_t length, double dt, double band, double rms);

  std::size_t length() const { return length_; }
  // Signal `sample` of the stream `random`. Safe to call from several threads.
  void draw(const Random& random, std::uint64_t sample, std::span<double> signal) const;

 private:
  std::size_t length_;
  std::size_t half_;     // K: the transform has 2 K points, coefficients 0..K
  std::size_t highest_;  // the last coefficient inside the band
  double deviation_;     // of the real and of the imaginary part of a coefficient
  std::shared_ptr<const Fft<double>> fft_;
};

}  // namespace rtf::train
