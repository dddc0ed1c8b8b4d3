#include "data/text_set.h"
#include "fuzz.h"
#include "fuzz_folder.h"

using namespace rtf;

namespace {

// Every block that looks like a header with the sum of its bytes, the field itself counted as blanks.
std::string with_checksums(std::string bytes) {
  for (std::size_t begin = 0; begin + 512 <= bytes.size(); begin += 512) {
    if (bytes.compare(begin + 257, 5, "ustar") != 0) continue;
    bytes.replace(begin + 148, 8, 8, ' ');
    unsigned sum = 0;
    for (std::size_t i = 0; i < 512; ++i) sum += static_cast<std::uint8_t>(bytes[begin + i]);
    char digits[8];
    std::snprintf(digits, sizeof digits, "%06o", sum);
    bytes.replace(begin + 148, 7, digits, 7);
  }
  return bytes;
}

}  // namespace

// Archives of reviews, as they came and with right checksums.
int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  static const fuzz::Folder folder;
  const std::string bytes(reinterpret_cast<const char*>(input), size);
  for (const std::string& archive : {bytes, with_checksums(bytes)}) {
    folder.write("reviews.tar", archive);
    fuzz::accepted([&] {
      const data::TextSet set = data::imdb_set(folder.file("reviews.tar"));
      set.read(0, [&](const data::TextSample& sample) {
        fuzz::expect(sample.label < set.classes, "a label is none of the classes");
        fuzz::expect(sample.documents[0].size() <= 4 * set.longest, "a review is longer than what is used of it");
      });
    });
  }
  return 0;
}
