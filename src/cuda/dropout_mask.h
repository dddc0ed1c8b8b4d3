// The masks of rtf/activation.h on the device: half-word i % 8 of Philox at counter (i / 8, step, layer), the low half
// of a word first, decides element i of the logical order (batch, length, channels).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace rtf::cuda {

// `generator` (seed, step) lies in device memory: a captured graph draws anew when it changes.
struct Dropout {
  double p = 0;  // 0: nothing is dropped
  const std::int64_t* generator = nullptr;
  std::uint32_t layer = 0;
  bool tied = false;  // one draw for each (batch, channel)

  std::uint32_t threshold() const { return static_cast<std::uint32_t>(std::min(std::round(p * 0x1p16), 0x1p16 - 1)); }
};

#ifdef __CUDACC__
struct Words {
  std::uint32_t at[4];
};

__device__ inline Words philox(Words counter, std::uint32_t key0, std::uint32_t key1) {
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * counter.at[0], p1 = std::uint64_t{0xCD9E8D57} * counter.at[2];
    counter = {static_cast<std::uint32_t>(p1 >> 32) ^ counter.at[1] ^ key0, static_cast<std::uint32_t>(p1),
               static_cast<std::uint32_t>(p0 >> 32) ^ counter.at[3] ^ key1, static_cast<std::uint32_t>(p0)};
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return counter;
}

// What a kernel is given of Dropout, and draws.
struct Mask {
  const std::int64_t* generator;  // null: nothing is dropped
  std::uint32_t threshold, layer;
  double kept;
  bool tied;

  explicit Mask(const Dropout& dropout)
      : generator(dropout.p == 0 ? nullptr : dropout.generator),
        threshold(dropout.threshold()),
        layer(dropout.layer),
        kept(1 / (1 - dropout.p)),
        tied(dropout.tied) {}

  // Bit k: whether element 8 * block + k is kept.
  __device__ std::uint32_t eight(std::uint64_t block, std::uint64_t seed, std::uint32_t step) const {
    const Words words =
        philox({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), step, layer},
               static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32));
    std::uint32_t bits = 0;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const std::uint32_t half = k % 2 == 0 ? words.at[k / 2] & 0xFFFF : words.at[k / 2] >> 16;
      bits |= static_cast<std::uint32_t>(half >= threshold) << k;
    }
    return bits;
  }

  // Bit k: whether element first + k is kept, k < 8.
  __device__ std::uint32_t from(std::uint64_t first, std::uint64_t seed, std::uint32_t step) const {
    const std::uint32_t skipped = first % 8;
    if (skipped == 0) return eight(first / 8, seed, step);
    return (eight(first / 8, seed, step) | eight(first / 8 + 1, seed, step) << 8) >> skipped & 0xFF;
  }

  // Bit 8 * i + k: whether channel `channel` + k at position l + i is kept, i < positions <= 4.
  template <int positions>
  __device__ std::uint32_t draw(std::int64_t b, std::int64_t l, std::int64_t channel, std::int64_t length,
                                std::int64_t channels) const {
    if (generator == nullptr) return ~0u;
    const auto seed = static_cast<std::uint64_t>(generator[0]);
    const auto step = static_cast<std::uint32_t>(generator[1]);
    if (tied) return from(b * channels + channel, seed, step) * 0x01010101u;
    std::uint32_t bits = 0;
#pragma unroll
    for (int i = 0; i < positions; ++i) bits |= from((b * length + l + i) * channels + channel, seed, step) << (8 * i);
    return bits;
  }
};
#endif

}  // namespace rtf::cuda
