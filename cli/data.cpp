// rtf data: the data sets that are generated, as files.
#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <numeric>

#include "common.h"
#include "core/atomic_file.h"
#include "data/generated_files.h"
#include "progress_executor.h"

namespace rtf::cli {
namespace {

struct DataOptions : CommonOptions {
  std::string folder, sheet;
  std::size_t seed = 1, threads = 0, size = 0;
  data::SplitCounts counts = {};
  bool sizes_given = false, png = false;
};

[[noreturn]] void refuse(const std::string& message) { throw Error(ErrorCode::argument, "data", message); }

// Of `size` samples, as the public sets are split: 96 : 2 : 2 for ListOps, 8 : 1 : 1 for images.
data::SplitCounts split(std::size_t size, bool text) {
  const std::size_t held = size / (text ? 50 : 10);
  return {size - 2 * held, held, held};
}

void print_classes(const std::vector<std::pair<std::string, data::ClassCounts>>& rows) {
  const std::size_t classes = rows.front().second.size();
  std::string line = fmt::format("{:>9} {:>9}", "split", "samples");
  for (std::size_t c = 0; c < classes; ++c) line += fmt::format(" {:>8}", fmt::format("class {}", c));
  fmt::print("{}\n", line);
  for (const auto& [name, counts] : rows) {
    const std::size_t samples = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
    line = fmt::format("{:>9} {:>9}", name, samples);
    for (const std::size_t count : counts)
      line += samples == 0
                  ? fmt::format(" {:>8}", "-")
                  : fmt::format(" {:>6.2f} %", 100.0 * static_cast<double>(count) / static_cast<double>(samples));
    fmt::print("{}\n", line);
  }
}

void generate(const DataOptions& options) {
  const bool text = options.filter == "listops", given = options.counts[0] > 0;
  const std::size_t size = options.size > 0 ? options.size : text ? 100000 : 200000;
  const data::SplitCounts counts = given ? options.counts : split(size, text);
  const std::size_t total = counts[0] + counts[1] + counts[2];
  const auto start = std::chrono::steady_clock::now();
  ProgressBar bar(options.quiet);
  const auto progress = [&](std::size_t done) { bar.draw(done, total); };
  const std::string& folder = options.folder;
  std::string written = folder;
  std::vector<std::pair<std::string, data::ClassCounts>> rows;
  const auto add_splits = [&](const std::array<data::ClassCounts, 3>& classes) {
    rows = {{"train", classes[0]}, {"val", classes[1]}, {"test", classes[2]}};
  };
  if (text) {
    add_splits(data::write_listops(folder, options.seed, counts, default_executor(), progress));
  } else {
    const data::Pathfinder generator(options.filter == "pathx" ? data::pathfinder_128 : data::pathfinder_32);
    if (options.png) {
      rows = {{"all",
               data::write_pathfinder_pictures(folder, generator, options.seed, total, default_executor(), progress)}};
    } else {
      written = (std::filesystem::path(folder) / (options.filter + ".records")).string();
      add_splits(data::write_pathfinder(written, generator, options.seed, counts, default_executor(), progress));
    }
  }
  bar.finish();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  say(options, fmt::format("{}: {} {} in {:.1f} s, {:.0f} a second on {} thread{}", written, total,
                           text ? "expressions" : "images", seconds, static_cast<double>(total) / seconds, threads(),
                           threads() == 1 ? "" : "s"));
  if (!options.quiet) print_classes(rows);
}

void run(const DataOptions& options) {
  const bool text = options.filter == "listops", sheet = !options.sheet.empty();
  if (options.folder.empty() && !sheet) refuse("--out DIR is missing: where the files go");
  if (text && (options.png || sheet)) refuse("--png and --sheet are for images; listops is text");
  if (options.png && options.counts[0] > 0)
    refuse("the public layout of --png has no splits; say --size instead of --train, --val and --test");
  if (options.counts[0] == 0 && options.sizes_given) refuse("--val and --test go with --train");
  if (options.threads > 0) set_threads(options.threads);
  if (sheet) {
    check_output(options.sheet, "data");
    const data::Pathfinder generator(options.filter == "pathx" ? data::pathfinder_128 : data::pathfinder_32);
    data::write_png(options.sheet, data::pathfinder_sheet(generator, options.seed));
    say(options, fmt::format("{}: 64 images, blue frames where one path joins the discs", options.sheet));
  }
  if (!options.folder.empty()) generate(options);
}

}  // namespace

void add_data(CLI::App& app) {
  auto options = std::make_shared<DataOptions>();
  CLI::App& command = *app.add_subcommand("data", "Generate a data set: ListOps, Pathfinder or Path-X");
  add_common(command, *options,
             "  rtf data listops --out data/listops --size 1000\n"
             "  rtf data pathfinder --out data/pathfinder --size 1000\n"
             "  rtf data pathx --sheet pathx.png\n"
             "listops writes basic_{train,val,test}.tsv, pathfinder (32 x 32 pixels) and pathx (128 x 128) one\n"
             "record file with the three splits. The same seed gives the same files on any number of threads.",
             "NAME", "listops, pathfinder or pathx");
  command.get_option("NAME")->check(CLI::IsMember({"listops", "pathfinder", "pathx"}));
  command.add_option("--out", options->folder, "folder for the files, made where it is not there")->type_name("DIR");
  add_count(command, "--seed", options->seed, "seed, from 0 on (default: 1)", 0);
  CLI::Option* size = add_count(command, "--size", options->size,
                                "samples in all, split as the public sets are (default: 100000 expressions, 200000 "
                                "images)");
  const char* const names[] = {"--train", "--val", "--test"};
  for (std::size_t i = 0; i < 3; ++i)
    add_count(command, names[i], options->counts[i], fmt::format("samples of the {} split", names[i] + 2),
              i == 0 ? 1 : 0)
        ->excludes(size);
  add_count(command, "--threads", options->threads, "threads (default: RTF_THREADS, or all cores)");
  command.add_flag("--png", options->png,
                   "images as in the public release: imgs/<batch>/sample_<k>.png and metadata/<batch>.npy");
  command.add_option("--sheet", options->sheet, "PNG file for 64 images side by side")->type_name("FILE");
  command.callback([options, &command] {
    options->sizes_given = command.count("--val") + command.count("--test") > 0;
    run(*options);
  });
}

}  // namespace rtf::cli
