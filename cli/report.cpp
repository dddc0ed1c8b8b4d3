// rtf report: what runs reached as a table of Markdown, and their learning curves.
#include "train/report.h"

#include <fmt/format.h>

#include <cstdio>
#include <deque>
#include <filesystem>
#include <memory>
#include <set>

#include "core/atomic_file.h"
#include "core/file_errors.h"
#include "core/printable.h"
#include "curves.h"
#include "rtf/error.h"
#include "train_common.h"

namespace rtf::cli {
namespace {

namespace fs = std::filesystem;
using train::ReportRow;

struct ReportOptions {
  std::vector<std::string> folders;
  std::string out;
};

[[noreturn]] void fail(ErrorCode code, const std::string& message) { throw Error(code, "report", message); }

// Those below every folder, each once.
std::vector<train::RunFolder> all_runs(const std::vector<std::string>& folders) {
  std::vector<train::RunFolder> runs;
  std::set<fs::path> seen;
  for (const std::string& folder : folders) {
    const auto found = train::find_runs(folder);
    if (found.empty()) fail(ErrorCode::argument, fmt::format("{} holds no runs", folder));
    for (const train::RunFolder& run : found) {
      if (seen.insert(fs::canonical(run.path())).second) runs.push_back(run);
    }
  }
  return runs;
}

std::vector<train::ReportedRun> read_runs(const std::vector<train::RunFolder>& folders) {
  std::vector<train::ReportedRun> runs;
  for (const train::RunFolder& folder : folders) {
    try {
      runs.push_back(train::read_run(folder));
    } catch (const Error& error) {
      const std::string line = fmt::format("{} is left out: {}", folder.path(), without_operation(error));
      fmt::print(stderr, "rtf report: {}\n", printable(line, line.size()));
    }
  }
  return runs;
}

// The rows of a task stand together.
std::vector<std::span<const ReportRow>> by_task(std::span<const ReportRow> rows) {
  std::vector<std::span<const ReportRow>> tasks;
  for (std::size_t begin = 0, end = 0; begin < rows.size(); begin = end) {
    const std::string& task = rows[begin].first().config.task.name;
    while (end < rows.size() && rows[end].first().config.task.name == task) ++end;
    tasks.push_back(rows.subspan(begin, end - begin));
  }
  return tasks;
}

std::string report_text(const std::vector<ReportRow>& rows) {
  return "# Report\n\n" + train::report_table(rows).markdown() +
         "\n`val` and `test` are those of the best checkpoint, `last` is that of `test`, or of `val` where there is no "
         "other, after the last epoch. \u00b1 is the standard deviation over the seeds, `minutes` are those of one "
         "run.\n`paper` is what \"State-Free Inference of State-Space Models: The Transfer "
         "Function Approach\" (2024) reports for the task and the layer, for Copying, Delay and Path-X at the order, for Image with the first "
         "values.\n";
}

void write_report(const ReportOptions& options, const std::vector<ReportRow>& rows, std::string text) {
  std::error_code error;
  fs::create_directories(options.out, error);
  if (error) fail(ErrorCode::io, fmt::format("cannot make the folder {}: {}", options.out, error.message()));
  std::deque<StagedFile> files;
  const auto stage = [&](const std::string& name, const std::string& bytes) {
    files.emplace_back((fs::path(options.out) / name).string(), bytes, "report");
  };
  for (const auto& task : by_task(rows)) {
    const std::string& name = task[0].first().config.task.name;
    stage(name + ".svg", learning_curves(task));
    text += fmt::format("\n![Learning curves of {}]({}.svg)\n", name, name);
  }
  stage("report.md", text);
  for (StagedFile& file : files) file.commit();
}

void run(const ReportOptions& options) {
  const std::vector<ReportRow> rows = train::report_rows(read_runs(all_runs(options.folders)));
  if (rows.empty()) fail(ErrorCode::format, "none of these runs can be read");
  const std::string text = report_text(rows);
  if (!options.out.empty()) write_report(options, rows, text);
  std::fputs(text.c_str(), stdout);
}

}  // namespace

void add_report(CLI::App& app) {
  CLI::App& command = add_training_command(
      app, "report",
      "  rtf sweep experiments/small/copying.yaml model.layer=rtf,s4d train.epochs=2 --out runs/layers\n"
      "  rtf report runs/layers --out report");
  auto options = std::make_shared<ReportOptions>();
  command.add_option("RUNS", options->folders, "runs, and folders of runs")->required()->type_name("");
  command.add_option("--out", options->out, "folder for report.md and a picture for each task, TASK.svg")
      ->type_name("DIR");
  command.callback([options] { run(*options); });
}

}  // namespace rtf::cli
