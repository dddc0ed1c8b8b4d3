// prepare_data NAME PATH CACHE [SAMPLE...]: a prepared set as JSON, all samples or these, for test_data_sets.py.
#include <fmt/format.h>

#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "data/prepared.h"
#include "rtf/error.h"

namespace {

using namespace rtf::data;

RecordFile open(const std::string& name, const std::string& path, const std::string& cache) {
  if (name == "listops") return prepared(listops_set(path), cache);
  if (name == "text") return prepared(imdb_set(path), cache);
  if (name == "retrieval") return prepared(aan_set(path), cache);
  if (name == "image") return prepared(cifar10_set(path), cache);
  return prepared(pathfinder_set(path, name == "pathx" ? 128 : 32), cache);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  try {
    const std::string cache = *argv[3] ? argv[3] : cache_folder(argv[2]);
    const RecordFile file = open(argv[1], argv[2], cache);
    const RecordInfo& info = file.info();
    std::vector<std::size_t> samples;
    for (int i = 4; i < argc; ++i) samples.push_back(std::stoul(argv[i]));
    if (samples.empty()) {
      samples.resize(file.size());
      std::iota(samples.begin(), samples.end(), 0);
    }
    nlohmann::json json{{"cache", cache},
                        {"counts", info.counts},
                        {"classes", info.classes},
                        {"rows", info.rows},
                        {"columns", info.columns},
                        {"vocabulary", info.vocabulary},
                        {"fingerprint", info.fingerprint}};
    for (const std::size_t i : samples) {
      json["labels"].push_back(file.label(i));
      if (info.kind == RecordKind::image) {
        json["samples"].push_back(file.image(i));
        continue;
      }
      nlohmann::json documents;
      for (std::size_t d = 0; d < info.documents; ++d) documents.push_back(file.document(i, d));
      json["samples"].push_back(documents);
    }
    std::cout << json << "\n";
  } catch (const rtf::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
