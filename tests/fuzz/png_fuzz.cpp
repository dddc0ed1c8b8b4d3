#include "core/checksum.h"
#include "data/png.h"
#include "fuzz.h"

using namespace rtf;

namespace {

std::uint32_t big_endian(const std::uint8_t* at) {
  return std::uint32_t{at[0]} << 24 | std::uint32_t{at[1]} << 16 | std::uint32_t{at[2]} << 8 | at[3];
}

// Every chunk with the checksum of what is in it: length, name, body, checksum.
std::string with_checksums(std::string bytes) {
  auto* at = reinterpret_cast<std::uint8_t*>(bytes.data());
  for (std::size_t begin = 8; begin + 12 <= bytes.size();) {
    const std::size_t length = big_endian(at + begin);
    if (length > bytes.size() - begin - 12) break;
    const std::uint32_t sum = crc32(0, at + begin + 4, 4 + length);
    for (std::size_t i = 0; i < 4; ++i) at[begin + 8 + length + i] = static_cast<std::uint8_t>(sum >> (24 - 8 * i));
    begin += 12 + length;
  }
  return bytes;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  data::Picture picture;
  if (!fuzz::accepted([&] { picture = data::decode_png(bytes, "fuzz.png"); }) &&
      !fuzz::accepted([&] { picture = data::decode_png(with_checksums(bytes), "fuzz.png"); }))
    return 0;
  fuzz::expect(picture.channels == 1 && picture.pixels.size() == picture.rows * picture.columns,
               "a picture has other pixels than its size says");
  if (picture.pixels.size() > 1 << 16) return 0;
  const data::Picture again = data::decode_png(data::encode_png(picture), "again.png");
  fuzz::expect(again.rows == picture.rows && again.columns == picture.columns && again.pixels == picture.pixels,
               "a picture that was read changes when it is written and read again");
  return 0;
}
