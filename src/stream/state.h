// Saved streams as bytes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rtf::stream {

// Little-endian, at the head of a saved stream. The states of all layers follow: (channels, terms, states of a term) of
// each, rings newest sample first, then the sums of a pooling decoder.
struct StateHeader {
  char magic[8];               // "rtfstate"
  std::uint32_t version;       // 1
  std::uint32_t checksum;      // CRC-32 of all that follows this number
  std::uint32_t fingerprint;   // of the model file
  std::uint32_t sample_bytes;  // of the arithmetic: 4 or 8
  std::uint64_t samples;       // that the stream has seen
};
inline constexpr std::size_t state_header_bytes = sizeof(StateHeader);
static_assert(state_header_bytes == 32);
inline constexpr std::uint32_t state_version = 1;

}  // namespace rtf::stream
