#include <algorithm>

#include "data/record_format.h"
#include "fuzz.h"

using namespace rtf;
using data::Records;

namespace {

using Bytes = std::vector<std::byte>;

// With the checksums of its header and of what follows.
Bytes with_checksums(Bytes bytes) {
  data::RecordHeader header;
  if (bytes.size() < sizeof header) return bytes;
  std::memcpy(&header, bytes.data(), sizeof header);
  std::vector<std::uint32_t> sums;
  for (std::size_t begin = sizeof header; begin < bytes.size(); begin += data::record_block)
    sums.push_back(crc32(0, &bytes[begin], std::min(data::record_block, bytes.size() - begin)));
  header.content_checksum = crc32(0, sums.data(), sums.size() * sizeof(std::uint32_t));
  header.header_checksum = checksum_of(header);
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  const auto* begin = reinterpret_cast<const std::byte*>(input);
  Bytes bytes(begin, begin + size);
  Records records;
  if (!fuzz::accepted([&] { records = Records(bytes, "fuzz.records"); })) {
    bytes = with_checksums(bytes);
    if (!fuzz::accepted([&] { records = Records(bytes, "fuzz.records"); })) return 0;
  }
  const data::RecordInfo& info = records.info();
  for (std::size_t i = 0; i < records.size(); ++i) {
    fuzz::expect(records.label(i) < info.classes, "a label is none of the classes");
    if (info.kind == data::RecordKind::image) {
      const auto pixels = records.image(i);
      const std::vector<std::uint8_t> copied(pixels.begin(), pixels.end());  // from memory that must be ours
      fuzz::expect(copied.size() == info.rows * info.columns, "an image is not whole");
      continue;
    }
    for (std::size_t d = 0; d < info.documents; ++d)
      for (const std::uint16_t token : records.document(i, d))
        fuzz::expect(token < info.vocabulary.size(), "a token is none of the vocabulary");
  }
  return 0;
}
