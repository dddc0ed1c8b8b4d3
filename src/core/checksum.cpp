#include "core/checksum.h"

#include <array>
#include <cstring>

namespace rtf {
namespace {

// tables[k][byte]: what `byte` followed by k zero bytes adds, so that eight bytes are taken at a time.
constexpr auto make_tables() {
  std::array<std::array<std::uint32_t, 256>, 8> tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? 0xEDB88320u : 0u);
    tables[0][byte] = value;
  }
  for (std::size_t k = 1; k < 8; ++k)
    for (std::size_t byte = 0; byte < 256; ++byte)
      tables[k][byte] = tables[k - 1][byte] >> 8 ^ tables[0][tables[k - 1][byte] & 255];
  return tables;
}
constexpr auto tables = make_tables();

}  // namespace

std::uint32_t crc32(std::uint32_t crc, const void* bytes, std::size_t size) {
  const auto* at = static_cast<const unsigned char*>(bytes);
  crc = ~crc;
  for (; size >= 8; size -= 8, at += 8) {
    std::uint32_t low, high;
    std::memcpy(&low, at, 4);
    std::memcpy(&high, at + 4, 4);
    low ^= crc;
    crc = tables[7][low & 255] ^ tables[6][low >> 8 & 255] ^ tables[5][low >> 16 & 255] ^ tables[4][low >> 24] ^
          tables[3][high & 255] ^ tables[2][high >> 8 & 255] ^ tables[1][high >> 16 & 255] ^ tables[0][high >> 24];
  }
  for (; size > 0; --size, ++at) crc = crc >> 8 ^ tables[0][(crc ^ *at) & 255];
  return ~crc;
}

std::uint32_t checksum(const TensorFile& file) {
  std::uint32_t crc = 0;
  for (const auto& [name, array] : file.tensors) {
    crc = crc32(crc, name.data(), name.size() + 1);
    crc = crc32(crc, array.shape.data(), array.shape.size() * sizeof(std::size_t));
    crc = crc32(crc, array.values.data(), array.values.size() * sizeof(double));
  }
  for (const auto& [key, text] : file.metadata) {
    if (key == "crc32") continue;
    crc = crc32(crc, key.data(), key.size() + 1);
    crc = crc32(crc, text.data(), text.size() + 1);
  }
  return crc;
}

}  // namespace rtf
