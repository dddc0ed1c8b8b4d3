#include "data/prepared.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>

#include "core/file_errors.h"
#include "core/progress_bar.h"
#include "data/tokens.h"
#include "data/vocabulary.h"
#include "rtf/executor.h"

namespace rtf::data {
namespace {

namespace fs = std::filesystem;
constexpr const char* operation = "prepare_data";
constexpr std::uint64_t rules = 1;  // of reading and cutting; another number makes every prepared file out of date

// Sizes and times of the files, in their order.
void add_files(Fingerprint& fingerprint, const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    struct stat status {};
    if (::stat(file.c_str(), &status) != 0) {
      throw Error(ErrorCode::io, operation, fmt::format("{}: it is not there, or cannot be read", file));
    }
    fingerprint.add(fs::path(file).filename().string()).add(static_cast<std::uint64_t>(status.st_size));
    fingerprint.add(static_cast<std::uint64_t>(status.st_mtim.tv_sec))
        .add(static_cast<std::uint64_t>(status.st_mtim.tv_nsec));
  }
}

// Why a file cannot be used; nothing when it can.
std::optional<std::string> fault(const std::string& path, const std::string& vocabulary, std::uint64_t fingerprint,
                                 std::optional<RecordFile>& file) {
  try {
    file.emplace(path);
    if (file->info().fingerprint != fingerprint) return path + ": made from files of other sizes or times";
    if (!file->info().vocabulary.empty()) check_vocabulary_file(vocabulary, file->info().vocabulary);
    return {};
  } catch (const Error& error) {
    return without_operation(error);
  }
}

RecordFile prepared(const std::string& name, const std::vector<std::string>& files, std::uint64_t settings,
                    const std::string& cache,
                    const std::function<void(const std::string& path, const std::string& vocabulary,
                                             std::uint64_t fingerprint)>& make) {
  std::error_code error;
  fs::create_directories(cache, error);
  if (error) throw Error(ErrorCode::io, operation, fmt::format("data.cache '{}': {}", cache, error.message()));
  // The name belongs to the place of the files and to the settings; what is inside to the files as they are.
  const std::string place = fs::weakly_canonical(fs::absolute(files.at(0))).string();
  const std::uint64_t key = Fingerprint().add(place).add(settings).value();
  Fingerprint fingerprint;
  fingerprint.add(rules).add(settings).add(files.size());
  add_files(fingerprint, files);

  const std::string stem = (fs::path(cache) / fmt::format("{}-{:016x}", name, key)).string();
  const std::string path = stem + ".records", vocabulary = stem + ".vocabulary.txt";
  std::optional<RecordFile> file;
  if (fs::exists(path, error)) {
    const auto why = fault(path, vocabulary, fingerprint.value(), file);
    if (!why) return std::move(*file);
    fmt::print(stderr, "{}; the data are prepared anew\n", *why);
  }
  remove_abandoned(cache);
  make(path, vocabulary, fingerprint.value());
  return RecordFile(path);
}

void make_images(const ImageSet& set, const std::string& path, std::uint64_t fingerprint) {
  const Images images = set.load();
  RecordInfo info;
  info.rows = set.rows;
  info.columns = set.columns;
  info.classes = set.classes;
  std::vector<std::size_t> order;
  for (std::size_t split = 0; split < 3; ++split) {
    info.counts[split] = images.splits[split].size();
    order.insert(order.end(), images.splits[split].begin(), images.splits[split].end());
  }
  info.fingerprint = fingerprint;
  RecordWriter writer(path, info);
  ProgressBar bar(false, fmt::format("preparing {} ", set.name));
  constexpr std::size_t block = 4096;  // images in memory at once
  const std::size_t pixels = set.rows * set.columns;
  std::vector<std::uint8_t> values(std::min(block, order.size()) * pixels);
  std::vector<std::size_t> labels(block);
  for (std::size_t first = 0; first < order.size(); first += block) {
    const std::size_t count = std::min(block, order.size() - first);
    const auto image = [&](std::size_t i) { return std::span(values).subspan(i * pixels, pixels); };
    parallel_for(default_executor(), count,
                 [&](std::size_t i, std::size_t) { labels[i] = images.read(order[first + i], image(i)); });
    for (std::size_t i = 0; i < count; ++i) writer.add_image(image(i), labels[i]);
    bar.draw(first + count, order.size());
  }
  writer.commit();
}

}  // namespace

std::string cache_folder(const std::string& path) {
  std::error_code error;
  const fs::path folder = fs::is_directory(path, error) ? fs::path(path) : fs::absolute(path).parent_path();
  // The superuser may write everywhere; a folder that says it is read-only is left alone all the same.
  const fs::perms writable = fs::perms::owner_write | fs::perms::group_write | fs::perms::others_write;
  const bool marked = (fs::status(folder, error).permissions() & writable) != fs::perms::none;
  if (marked && ::access(folder.c_str(), W_OK) == 0) return (folder / "prepared").string();
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache) return (fs::path(cache) / "rtf").string();
  if (const char* home = std::getenv("HOME"); home && *home) return (fs::path(home) / ".cache" / "rtf").string();
  throw Error(ErrorCode::io, operation,
              fmt::format("{} is read-only and there is no home folder; name one with data.cache", folder.string()));
}

RecordFile prepared(const TextSet& set, const std::string& cache) {
  const std::uint64_t settings = Fingerprint()
                                     .add(set.name)
                                     .add(set.documents)
                                     .add(set.classes)
                                     .add(std::uint64_t{set.characters})
                                     .add(set.longest)
                                     .add(set.occurrences)
                                     .value();
  return prepared(set.name, set.files, settings, cache,
                  [&](const auto& path, const auto& vocabulary, auto fingerprint) {
                    write_tokens(set, path, vocabulary, fingerprint);
                  });
}

RecordFile prepared(const ImageSet& set, const std::string& cache) {
  const std::uint64_t settings = Fingerprint().add(set.name).add(set.rows).add(set.columns).add(set.classes).value();
  return prepared(set.name, set.files, settings, cache,
                  [&](const auto& path, const auto&, auto fingerprint) { make_images(set, path, fingerprint); });
}

}  // namespace rtf::data
