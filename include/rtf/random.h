// Counter-based random numbers: Philox 4x32-10. A draw depends on its key and counter alone, on every device.
#pragma once

#include <array>
#include <cstdint>

namespace rtf {

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

// The numbers of one stream: draw `index` of (seed, step, layer).
class Random {
 public:
  explicit Random(std::uint64_t seed, std::uint32_t step = 0, std::uint32_t layer = 0);

  double uniform(std::uint64_t index) const;  // in [0, 1), 53 bits
  double normal(std::uint64_t index) const;   // N(0, 1), Box-Muller

 private:
  std::uint64_t seed_;
  std::uint32_t step_, layer_;
};

}  // namespace rtf
