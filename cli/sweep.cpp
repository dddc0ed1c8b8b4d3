// rtf sweep: one run for each combination of values, one after the other, and a table of what came out.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>

#include "child_process.h"
#include "core/atomic_file.h"
#include "rtf/error.h"
#include "train/run_folder.h"
#include "train/table.h"
#include "train_common.h"

namespace rtf::cli {
namespace {

namespace fs = std::filesystem;
using train::Config;
using train::RunFolder;
using train::RunState;
using train::RunStatus;

struct SweepOptions {
  std::string config, out;
  std::vector<std::string> keys;  // "optimizer.lr=0.1,0.01"
};

struct Axis {
  std::string key, label;  // the label is the key's last word where that is unique
  std::vector<std::string> values;
};

struct Combination {
  std::string folder;
  std::vector<std::string> values;  // of the axes
  Config config;

  std::vector<std::string> overrides(const std::vector<Axis>& axes) const {
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < axes.size(); ++i) texts.push_back(axes[i].key + "=" + values[i]);
    return texts;
  }
};

[[noreturn]] void fail(const std::string& message) { throw Error(ErrorCode::argument, "sweep", message); }

std::vector<Axis> parse_axes(const std::vector<std::string>& texts) {
  std::vector<Axis> axes;
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) fail(fmt::format("'{}' is not of the form key=value,value", text));
    Axis axis{text.substr(0, equals), text.substr(text.substr(0, equals).rfind('.') + 1), {}};
    axis.label.resize(axis.label.find('='));
    std::size_t begin = equals + 1;
    for (std::size_t end; begin <= text.size(); begin = end + 1) {
      end = std::min(text.find(',', begin), text.size());
      axis.values.push_back(text.substr(begin, end - begin));
    }
    for (const Axis& other : axes) {
      if (other.key == axis.key) fail(fmt::format("{} is given twice", axis.key));
    }
    if (std::set<std::string>(axis.values.begin(), axis.values.end()).size() != axis.values.size()) {
      fail(fmt::format("{} has a value twice in '{}'", axis.key, text));
    }
    axes.push_back(std::move(axis));
  }
  for (Axis& axis : axes) {
    const auto same = [&](const Axis& other) { return other.label == axis.label && other.key != axis.key; };
    if (std::any_of(axes.begin(), axes.end(), same)) axis.label = axis.key;
  }
  return axes;
}

std::string run_name(const std::vector<Axis>& axes, const std::vector<std::string>& values) {
  std::string name;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].values.size() > 1) name += fmt::format("{}{}={}", name.empty() ? "" : "_", axes[i].label, values[i]);
  }
  std::replace(name.begin(), name.end(), '/', '-');
  return name.empty() ? "run" : name;
}

// All of them, the last axis fastest; every config is read, so that a wrong one is found before the first run starts.
std::vector<Combination> combine(const SweepOptions& options, const std::vector<Axis>& axes) {
  std::vector<Combination> all;
  std::set<std::string> folders;
  std::vector<std::size_t> at(axes.size());
  for (;;) {
    Combination one;
    for (std::size_t i = 0; i < axes.size(); ++i) one.values.push_back(axes[i].values[at[i]]);
    one.folder = (fs::path(options.out) / run_name(axes, one.values)).string();
    one.config = train::load_config(options.config, one.overrides(axes));
    if (!folders.insert(one.folder).second) fail(fmt::format("two runs would share the folder {}", one.folder));
    all.push_back(std::move(one));
    std::size_t axis = axes.size();
    while (axis > 0 && ++at[axis - 1] == axes[axis - 1].values.size()) at[--axis] = 0;
    if (axis == 0) return all;
  }
}

bool exists(const Combination& one) { return fs::exists(fs::path(one.folder) / "config.yaml"); }

RunStatus status_of(const Combination& one, RunState otherwise) {
  if (exists(one)) {
    if (const auto status = train::read_status(RunFolder::open(one.folder))) return *status;
  }
  RunStatus status;
  status.state = otherwise;
  return status;
}

// A folder of another sweep must not pass for a result of this one.
void check_same(const Combination& one) {
  if (!exists(one)) return;
  const Config saved = train::load_config(RunFolder::open(one.folder).config());
  Config wanted = one.config;
  if (wanted.optimizer.total == 0) wanted.optimizer.total = saved.optimizer.total;  // the run has found out its own
  const auto other = train::first_difference(saved, wanted);
  if (other) {
    fail(fmt::format("{} holds a run with {} = {}, this sweep has {}", one.folder, other->path, other->left,
                     other->right));
  }
}

struct Result {
  RunStatus status;
  bool tried = false;  // its turn has come
};

std::string state_text(const Result& result) { return result.tried ? train::name(result.status.state) : "waiting"; }

void write_results(const SweepOptions& options, const std::vector<Axis>& axes, const std::vector<Combination>& all,
                   const std::vector<Result>& results) {
  std::string csv = "run";
  for (const Axis& axis : axes) csv += "," + axis.key;
  csv += ",state,step,epoch,metric,best,seconds\n";
  for (std::size_t i = 0; i < all.size(); ++i) {
    const RunStatus& status = results[i].status;
    csv += fs::path(all[i].folder).filename().string();
    for (const std::string& value : all[i].values) csv += "," + value;
    csv += fmt::format(",{},{},{},{},{},{}\n", state_text(results[i]), status.step, status.epoch, status.metric,
                       status.best ? fmt::format("{}", *status.best) : "", status.seconds);
  }
  StagedFile(options.out + "/sweep.csv", csv, "sweep").commit();
}

void print_results(const std::vector<Axis>& axes, const std::vector<Combination>& all,
                   const std::vector<Result>& results) {
  std::vector<std::string> header;
  for (const Axis& axis : axes) {
    if (axis.values.size() > 1) header.push_back(axis.label);
  }
  header.insert(header.end(), {"state", "step", "metric", "best", "trained"});
  train::Table table(header);
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::vector<std::string> cells;
    for (std::size_t a = 0; a < axes.size(); ++a) {
      if (axes[a].values.size() > 1) cells.push_back(all[i].values[a]);
    }
    const RunStatus& status = results[i].status;
    cells.insert(cells.end(),
                 {state_text(results[i]), fmt::format("{}", status.step), status.metric,
                  status.best ? fmt::format("{:.6g}", *status.best) : "", train::duration_text(status.seconds)});
    table.row(std::move(cells));
  }
  std::fputs(table.text().c_str(), stdout);
}

// Trains one combination in a process of its own, so that its failure is its own too.
RunStatus train_one(const SweepOptions& options, const std::vector<Axis>& axes, const Combination& one,
                    ChildRunner& runner) {
  std::vector<std::string> arguments = {"rtf-train", "train"};
  if (exists(one)) {
    arguments.insert(arguments.end(), {"--resume", one.folder});
  } else {
    const auto overrides = one.overrides(axes);
    arguments.push_back(options.config);
    arguments.insert(arguments.end(), overrides.begin(), overrides.end());
    arguments.insert(arguments.end(), {"--out", one.folder});
  }
  const int code = runner.run("/proc/self/exe", arguments);
  RunStatus status = status_of(one, RunState::failed);
  // Some failures leave no time to say so.
  if (code != 0 && !runner.stopped()) status.state = RunState::failed;
  return status;
}

void run(const SweepOptions& options) {
  const std::vector<Axis> axes = parse_axes(options.keys);
  const std::vector<Combination> all = combine(options, axes);
  for (const Combination& one : all) check_same(one);
  std::error_code error;
  fs::create_directories(options.out, error);
  if (error) {
    throw Error(ErrorCode::io, "sweep", fmt::format("cannot make the folder {}: {}", options.out, error.message()));
  }
  check_output(options.out + "/sweep.csv", "sweep");

  std::vector<Result> results;
  for (const Combination& one : all) {
    const RunStatus status = status_of(one, RunState::interrupted);
    results.push_back({status, status.state == RunState::finished});
  }
  ChildRunner runner;
  for (std::size_t i = 0; i < all.size() && !runner.stopped(); ++i) {
    const char* what = results[i].tried ? "finished already" : exists(all[i]) ? "going on" : "starting";
    fmt::print(stderr, "[{}/{}] {}: {}\n", i + 1, all.size(), all[i].folder, what);
    if (!results[i].tried) results[i] = {train_one(options, axes, all[i], runner), true};
    write_results(options, axes, all, results);
  }
  print_results(axes, all, results);
  std::string failed;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (results[i].tried && results[i].status.state == RunState::failed) failed += " " + all[i].folder;
  }
  if (runner.stopped()) fail("stopped by a signal; the same command goes on");
  if (!failed.empty()) fail(fmt::format("failed:{}", failed));
}

}  // namespace

void add_sweep(CLI::App& app) {
  CLI::App& command = add_training_command(
      app, "sweep", "  rtf sweep experiments/small/copying.yaml model.order=16,64 train.seed=1,2 --out runs/order");
  auto options = std::make_shared<SweepOptions>();
  command.add_option("CONFIG", options->config, "config file")->required()->type_name("");
  command
      .add_option("KEY=VALUES", options->keys,
                  "values with commas between, optimizer.lr=0.1,0.01; every combination is a run")
      ->required()
      ->type_name("");
  command.add_option("--out", options->out, "folder for the runs and sweep.csv; the same command goes on there")
      ->required()
      ->type_name("DIR");
  command.callback([options] { run(*options); });
}

}  // namespace rtf::cli
