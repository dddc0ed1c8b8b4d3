// Checksums of files and states: CRC-32 as zlib has it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rtf/safetensors.h"

namespace rtf {

// Goes on from `crc`, 0 at first.
std::uint32_t crc32(std::uint32_t crc, const void* bytes, std::size_t size);

// Over names, shapes, values and metadata but for "crc32" itself, so that a flipped bit anywhere shows.
std::uint32_t checksum(const TensorFile& file);

}  // namespace rtf
