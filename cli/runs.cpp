// rtf runs: the runs below a folder, how far they have come and how good they are.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "rtf/error.h"
#include "train/run_folder.h"
#include "train/table.h"
#include "train_common.h"

namespace rtf::cli {
namespace {

namespace fs = std::filesystem;
using train::RunFolder;

// Seconds since the run last said something.
std::string age(const RunFolder& run) {
  std::error_code error;
  auto written = fs::last_write_time(run.status(), error);
  if (error) written = fs::last_write_time(run.config(), error);
  if (error) return "";
  return train::duration_text(std::chrono::duration<double>(fs::file_time_type::clock::now() - written).count());
}

std::vector<std::string> describe(const RunFolder& run, const std::string& below) {
  const std::string name = fs::path(run.path()).lexically_relative(below).string();
  std::vector<std::string> cells = {name == "." ? run.path() : name};
  const train::RunSummary summary = train::summarize(run);
  cells.push_back(summary.config ? summary.config->task.name : "?");
  cells.push_back(summary.state);
  if (const auto& status = summary.status) {
    cells.insert(cells.end(),
                 {fmt::format("{}", status->step), fmt::format("{}", status->epoch), status->metric,
                  status->best ? fmt::format("{:.6g}", *status->best) : "", train::duration_text(status->seconds)});
  } else {
    cells.insert(cells.end(), 5, "");
  }
  cells.push_back(age(run));
  return cells;
}

void run(const std::string& folder) {
  const auto runs = train::find_runs(folder);
  if (runs.empty()) throw Error(ErrorCode::argument, "runs", fmt::format("{} holds no runs", folder));
  train::Table table({"run", "task", "state", "step", "epoch", "metric", "best", "trained", "last written"});
  for (const RunFolder& found : runs) table.row(describe(found, folder));
  std::fputs(table.text().c_str(), stdout);
}

}  // namespace

void add_runs(CLI::App& app) {
  CLI::App& command = add_training_command(app, "runs", "  rtf runs runs/");
  auto folder = std::make_shared<std::string>();
  command.add_option("DIR", *folder, "folder to look in")->required()->type_name("");
  command.callback([folder] { run(*folder); });
}

}  // namespace rtf::cli
