// Runs a fuzz target over every file of a folder, where there is no libFuzzer: run_corpus FOLDER.
#include <sys/resource.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "fuzz.h"

namespace {

// Small files have no use for more; a header that lies about its sizes is believed if this is exceeded.
constexpr long max_megabytes = 512;

long peak_megabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", arguments[0]);
    return 2;
  }
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(arguments[1])) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const auto& path : files) {
    std::printf("%s\n", path.filename().c_str());
    std::fflush(stdout);  // the last line names the file of a crash
    std::ifstream in(path, std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
    try {
      LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
    } catch (const std::exception& error) {
      rtf::fuzz::finding("an exception that a reader must not throw", error.what());
    }
    if (peak_megabytes() > max_megabytes)
      rtf::fuzz::finding("too much memory", std::to_string(peak_megabytes()) + " MB");
  }
  std::printf("%zu files\n", files.size());
  return files.empty() ? 1 : 0;
}
