#include "data/characters.h"
#include "data/image_set.h"
#include "data/text_set.h"
#include "fuzz.h"
#include "fuzz_folder.h"

using namespace rtf;

// The same bytes as the training file of ListOps, as that of pairs of texts, and as the list of Pathfinder's pictures.
int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  static const fuzz::Folder folder;
  const std::string bytes(reinterpret_cast<const char*>(input), size);
  std::filesystem::create_directory(folder.file("metadata"));
  for (const char* name : {"basic_train.tsv", "new_aan_pairs.train.tsv", "metadata/0.npy"}) folder.write(name, bytes);
  for (const data::TextSet& set : {data::listops_set(folder.path()), data::aan_set(folder.path())}) {
    fuzz::accepted([&] {
      set.read(0, [&](const data::TextSample& sample) {
        fuzz::expect(sample.label < set.classes, "a label is none of the classes");
        for (const std::string& document : sample.documents)
          fuzz::expect(data::characters(document).size() <= document.size(), "a text has more characters than bytes");
      });
    });
  }
  std::vector<std::uint8_t> pixels(32 * 32);
  fuzz::accepted([&] { data::pathfinder_set(folder.path(), 32).load().read(0, pixels); });
  return 0;
}
