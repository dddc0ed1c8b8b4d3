#include "data/generated_files.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <system_error>

#include "core/arguments.h"
#include "core/atomic_file.h"
#include "data/listops.h"
#include "data/record_file.h"

namespace rtf::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* operation = "data";
constexpr const char* split_names[] = {"train", "val", "test"};
constexpr std::size_t batch_pictures = 1000;  // in a folder of the public release

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail(ErrorCode::io, operation, "cannot make the folder {}: {}", folder.string(), error.message());
}

// Where outputs go: without what a killed process has left of its own.
void make_output_folder(const fs::path& folder) {
  make_folder(folder);
  remove_abandoned(folder.string());
}

std::size_t sum(SplitCounts counts) { return counts[0] + counts[1] + counts[2]; }

std::size_t split_of(SplitCounts counts, std::size_t sample) {
  return sample < counts[0] ? 0 : sample < counts[0] + counts[1] ? 1 : 2;
}

// visit(i, sample) for every sample, in order; they are drawn on all workers, a thousand at a time.
template <class Visit>
void draw_in_order(const Pathfinder& generator, std::uint64_t seed, std::size_t count, Executor& executor,
                   const Progress& progress, Visit&& visit) {
  if (count > std::numeric_limits<std::uint32_t>::max())
    fail(ErrorCode::argument, operation, "{} images; a seed has 2^32 - 1", count);
  std::vector<PathfinderSample> samples;
  for (std::size_t first = 0; first < count; first += samples.size()) {
    samples.resize(std::min(batch_pictures, count - first));
    parallel_for(executor, samples.size(), [&](std::size_t i, std::size_t) {
      samples[i] = generator.draw(seed, static_cast<std::uint32_t>(first + i));
    });
    for (std::size_t i = 0; i < samples.size(); ++i) visit(first + i, samples[i]);
    progress(first + samples.size());
  }
}

// A new folder, which gets its name when everything is in it.
class StagedFolder {
 public:
  explicit StagedFolder(fs::path path) : path_(std::move(path)) {
    std::error_code ignored;
    if (fs::exists(path_, ignored))
      fail(ErrorCode::argument, operation, "{} is there already; remove it, or name another folder with --out",
           path_.string());
    // A name of its own: another process may be making the same folder, and one of the two is told so at the end.
    std::error_code error;
    do staged_ = temporary_name(path_.parent_path().string());
    while (!fs::create_directory(staged_, error) && !error);
    if (error) fail(ErrorCode::io, operation, "cannot make the folder {}: {}", staged_.string(), error.message());
  }
  ~StagedFolder() {
    std::error_code ignored;
    fs::remove_all(staged_, ignored);
  }

  void add_folder(const std::string& name) const { make_folder(staged_ / name); }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream file(staged_ / name, std::ios::binary);
    file << bytes;
    file.close();
    if (!file) fail(ErrorCode::io, operation, "cannot write {}", (path_ / name).string());
  }
  void commit() const {
    std::error_code error;
    fs::rename(staged_, path_, error);
    if (error) fail(ErrorCode::io, operation, "cannot write {}: {}", path_.string(), error.message());
  }

 private:
  fs::path path_, staged_;
};

}  // namespace

std::array<ClassCounts, 3> write_listops(const std::string& folder, std::uint64_t seed, SplitCounts counts,
                                         Executor& executor, const Progress& progress) {
  make_output_folder(folder);
  std::vector<std::unique_ptr<StagedFile>> files;
  for (const char* split : split_names) {
    files.push_back(std::make_unique<StagedFile>(fmt::format("{}/basic_{}.tsv", folder, split), operation));
    files.back()->append("Source\tTarget\n");
  }
  std::array<ClassCounts, 3> classes;
  classes.fill(ClassCounts(10));
  generate_listops(seed, sum(counts), executor, [&](std::size_t i, const std::string& source, unsigned value) {
    const std::size_t split = split_of(counts, i);
    files[split]->append(fmt::format("{}\t{}\n", source, value));
    ++classes[split][value];
    progress(i + 1);
  });
  for (const auto& file : files) file->flush();
  for (const auto& file : files) file->commit();
  return classes;
}

std::array<ClassCounts, 3> write_pathfinder(const std::string& path, const Pathfinder& generator, std::uint64_t seed,
                                            SplitCounts counts, Executor& executor, const Progress& progress) {
  if (const auto folder = fs::path(path).parent_path(); !folder.empty()) make_output_folder(folder);
  const auto size = static_cast<std::size_t>(generator.options().size);
  RecordInfo info;
  info.rows = info.columns = size;
  info.classes = 2;
  info.counts = counts;
  info.fingerprint = Fingerprint().add("pathfinder").add(size).add(seed).add(sum(counts)).value();
  RecordWriter writer(path, info);
  std::array<ClassCounts, 3> classes;
  classes.fill(ClassCounts(2));
  draw_in_order(generator, seed, sum(counts), executor, progress, [&](std::size_t i, const PathfinderSample& sample) {
    const auto label = static_cast<std::size_t>(sample.label);
    writer.add_image(sample.pixels, label);
    ++classes[split_of(counts, i)][label];
  });
  writer.commit();
  return classes;
}

ClassCounts write_pathfinder_pictures(const std::string& folder, const Pathfinder& generator, std::uint64_t seed,
                                      std::size_t count, Executor& executor, const Progress& progress) {
  const PathfinderOptions& options = generator.options();
  const auto size = static_cast<std::size_t>(options.size);
  make_output_folder(folder);
  const StagedFolder pictures(fs::path(folder) / "imgs"), metadata(fs::path(folder) / "metadata");
  ClassCounts classes(2);
  std::string rows;
  draw_in_order(generator, seed, count, executor, progress, [&](std::size_t i, const PathfinderSample& sample) {
    const std::size_t batch = i / batch_pictures, k = i % batch_pictures;
    if (k == 0) pictures.add_folder(std::to_string(batch));
    pictures.write(fmt::format("{}/sample_{}.png", batch, k), encode_png({size, size, 1, sample.pixels}));
    rows += fmt::format("imgs/{} sample_{}.png {} {} {} {} {} {} {} {} 1\n", batch, k, k, sample.label,
                        options.continuity, options.segments, options.distractor_segments, options.segment_length,
                        options.thickness, sample.margin);
    ++classes[static_cast<std::size_t>(sample.label)];
    if (k + 1 < batch_pictures && i + 1 < count) return;
    metadata.write(fmt::format("{}.npy", batch), rows);
    rows.clear();
  });
  pictures.commit();
  metadata.commit();  // the last: without it there is no set
  return classes;
}

Picture pathfinder_sheet(const Pathfinder& generator, std::uint64_t seed) {
  constexpr std::size_t across = 8, frame = 2, gap = 4, shown = 128;  // pixels, but for `across`
  constexpr std::uint8_t blue[] = {86, 180, 233}, orange[] = {230, 159, 0};
  const auto size = static_cast<std::size_t>(generator.options().size), zoom = std::max<std::size_t>(shown / size, 1);
  const std::size_t framed = size * zoom + 2 * frame, cell = framed + gap, side = across * cell + gap;
  Picture sheet{side, side, 3, std::vector<std::uint8_t>(side * side * 3, 255)};
  std::array<std::size_t, 2> found = {};
  for (std::uint32_t index = 0; found[0] + found[1] < across * across; ++index) {
    const PathfinderSample sample = generator.draw(seed, index);
    const bool connected = sample.label == 1;
    std::size_t& count = found[connected ? 1 : 0];
    if (count == across * across / 2) continue;
    const std::size_t place = count++ + (connected ? 0 : across * across / 2);
    const std::size_t top = gap + place / across * cell, left = gap + place % across * cell;
    for (std::size_t row = 0; row < framed; ++row)
      for (std::size_t column = 0; column < framed; ++column) {
        const bool edge = std::min({row, column, framed - 1 - row, framed - 1 - column}) < frame;
        std::uint8_t* pixel = &sheet.pixels[((top + row) * side + left + column) * 3];
        for (std::size_t channel = 0; channel < 3; ++channel)
          pixel[channel] = edge ? (connected ? blue : orange)[channel]
                                : sample.pixels[(row - frame) / zoom * size + (column - frame) / zoom];
      }
  }
  return sheet;
}

}  // namespace rtf::data
