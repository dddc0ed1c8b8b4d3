// The random numbers of one sample: they depend on seed, sample and generator alone, whatever thread draws them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "rtf/random.h"

namespace rtf::data {

enum class Generator : std::uint32_t { listops = 0x6c697374, pathfinder = 0x70617468 };

class Draws {
 public:
  Draws(std::uint64_t seed, std::uint32_t sample, Generator generator)
      : key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)},
        sample_(sample),
        generator_(static_cast<std::uint32_t>(generator)) {}

  // In [0, 1), 32 bits.
  double uniform() { return next() * 0x1p-32; }

  // Below `count`, every number as likely as any other: products that would favour some are drawn again.
  std::uint32_t below(std::uint32_t count) {
    std::uint64_t product = std::uint64_t{next()} * count;
    const std::uint32_t unfair = (0u - count) % count;
    while (static_cast<std::uint32_t>(product) < unfair) product = std::uint64_t{next()} * count;
    return static_cast<std::uint32_t>(product >> 32);
  }

 private:
  std::uint32_t next() {
    if (used_ == words_.size()) {
      words_ = philox(
          {static_cast<std::uint32_t>(block_), static_cast<std::uint32_t>(block_ >> 32), sample_, generator_}, key_);
      ++block_;
      used_ = 0;
    }
    return words_[used_++];
  }

  std::array<std::uint32_t, 2> key_;
  std::uint32_t sample_, generator_;
  std::uint64_t block_ = 0;
  std::array<std::uint32_t, 4> words_{};
  std::size_t used_ = 4;
};

}  // namespace rtf::data
