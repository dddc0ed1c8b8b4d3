// write_filters FOLDER: the filters of the benchmarks as files, so that the peers run the same ones.
#include <cstdio>
#include <exception>
#include <string>

#include "filters.h"
#include "rtf/filter_file.h"

using namespace rtf::bench;

int main(int argc, char** argv) try {
  if (argc != 2) {
    std::fprintf(stderr, "usage: write_filters FOLDER\n");
    return 2;
  }
  const std::string folder = argv[1];
  for (const Family family : families) {
    const std::string prefix = folder + "/" + name(family);
    for (const std::size_t order : {64, 1024})
      rtf::write_filter(prefix + "-layer-n" + std::to_string(order) + ".json", layer_filter(family, 4096, 128, order));
    for (const std::size_t order : {2, 8, 16, 64})
      rtf::write_filter(prefix + "-filter-n" + std::to_string(order) + ".json", one_filter(family, order));
  }
  rtf::write_filter(folder + "/montel-step-n64.json", step_filter(256, 64));
} catch (const std::exception& error) {
  std::fprintf(stderr, "write_filters: %s\n", error.what());
  return 2;
}
