// How a record file is laid out: what its writer and its reader share. One after the other and each at a multiple of 64
// bytes lie header, pixels or tokens, ends of the documents, labels, vocabulary. Numbers are little-endian.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/checksum.h"
#include "data/record_file.h"

namespace rtf::data {

inline constexpr char record_magic[8] = {'r', 't', 'f', 'd', 'a', 't', 'a', '\n'};
inline constexpr std::uint32_t record_version = 1;
// The checksum of the content is that of the checksums of these pieces, so that all cores can take it.
inline constexpr std::size_t record_block = std::size_t{1} << 20;

struct RecordHeader {
  char magic[8];
  std::uint32_t version;
  std::uint32_t header_checksum;  // of what follows in the header
  std::uint32_t content_checksum;
  std::uint32_t kind;
  std::uint64_t rows, columns, documents, classes, counts[3];
  std::uint64_t values;  // pixels or tokens
  std::uint64_t vocabulary, vocabulary_bytes;
  std::uint64_t fingerprint;
  std::uint64_t unused[2];
};
static_assert(sizeof(RecordHeader) == 128);

inline std::uint32_t checksum_of(const RecordHeader& header) {
  constexpr std::size_t from = offsetof(RecordHeader, content_checksum);
  return crc32(0, reinterpret_cast<const char*>(&header) + from, sizeof header - from);
}

inline std::uint64_t padded(std::uint64_t size) {
  constexpr std::uint64_t alignment = 64;
  return (size + alignment - 1) / alignment * alignment;
}

// Where the parts of a file begin.
struct RecordParts {
  std::uint64_t values, ends, labels, vocabulary, end;
};

inline RecordParts parts_of(const RecordInfo& info, std::uint64_t values, std::uint64_t vocabulary_bytes) {
  const bool image = info.kind == RecordKind::image;
  RecordParts parts{};
  parts.values = padded(sizeof(RecordHeader));
  parts.ends = parts.values + padded(values * (image ? 1 : sizeof(std::uint16_t)));
  parts.labels = parts.ends + padded(image ? 0 : info.samples() * info.documents * sizeof(std::uint64_t));
  parts.vocabulary = parts.labels + padded(info.samples() * sizeof(std::uint16_t));
  parts.end = parts.vocabulary + padded(vocabulary_bytes);
  return parts;
}

inline constexpr std::uint64_t most_numbers = 65536;  // labels and tokens have 16 bits
inline constexpr std::uint64_t most_values = std::uint64_t{1} << 48;

// Sums and products of numbers within these bounds do not overflow.
inline bool within_bounds(const RecordInfo& info) {
  constexpr std::uint64_t longest_side = 1 << 14, most_samples = std::uint64_t{1} << 32;
  const auto between = [](std::uint64_t lowest, std::uint64_t value, std::uint64_t highest) {
    return lowest <= value && value <= highest;
  };
  const bool shape = info.kind == RecordKind::image
                         ? between(1, info.rows, longest_side) && between(1, info.columns, longest_side)
                         : info.kind == RecordKind::tokens && between(1, info.documents, 2);
  return shape && between(1, info.classes, most_numbers) &&
         std::all_of(info.counts.begin(), info.counts.end(), [&](auto n) { return n <= most_samples; });
}

}  // namespace rtf::data
