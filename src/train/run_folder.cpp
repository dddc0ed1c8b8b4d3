#include "train/run_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "core/atomic_file.h"
#include "core/file_errors.h"
#include "rtf/error.h"

namespace rtf::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* operation = "run_folder";
constexpr std::array states = {"running", "finished", "interrupted", "failed"};  // in the order of RunState

[[noreturn]] void fail(ErrorCode code, const std::string& message) { throw Error(code, operation, message); }

bool holds_run(const std::string& path) {
  std::error_code ignored;
  return fs::is_regular_file(path + "/config.yaml", ignored);
}

// It belongs to the open file, so that two of one process collide too.
struct flock whole_file_lock() {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

RunStatus parse_status(const nlohmann::json& json) {
  RunStatus status;
  const std::string state = json.at("state").get<std::string>();
  const auto found = std::find(states.begin(), states.end(), state);
  if (found == states.end()) throw std::invalid_argument("unknown state '" + state + "'");
  status.state = static_cast<RunState>(found - states.begin());
  status.step = json.at("step").get<int64_t>();
  status.epoch = json.at("epoch").get<int64_t>();
  status.seconds = json.at("seconds").get<double>();
  status.metric = json.at("metric").get<std::string>();
  if (!json.at("best").is_null()) status.best = json.at("best").get<double>();
  status.steps = json.value("steps", int64_t{0});
  return status;
}

}  // namespace

RunFolder::RunFolder(std::string path) : path_(std::move(path)) {
  while (path_.size() > 1 && path_.back() == '/') path_.pop_back();
}

void RunFolder::require_new() const {
  if (holds_run(path_)) {
    fail(ErrorCode::argument,
         fmt::format("{} already holds a run: go on with `rtf train --resume {}`, or choose another folder", path_,
                     path_));
  }
  std::error_code ignored;
  for (const std::string& left : {metrics(), status(), latest(), previous(), best()}) {
    if (!fs::exists(left, ignored)) continue;
    fail(ErrorCode::argument,
         fmt::format("{} is there, of a run whose config.yaml is gone; choose another folder", left));
  }
}

RunFolder RunFolder::create(const std::string& path) {
  if (path.empty()) fail(ErrorCode::argument, "the path of the run folder is empty");
  const RunFolder run(path);
  run.require_new();
  std::error_code error;
  fs::create_directories(run.checkpoints(), error);
  if (error) fail(ErrorCode::io, fmt::format("cannot make the run folder {}: {}", run.path(), error.message()));
  return run;
}

void RunFolder::begin(const Config& config) const {
  require_new();
  StagedFile(this->config(), to_yaml(config), operation).commit();
}

std::string RunFolder::checkpoint(const std::string& name) const {
  if (name == "latest") return latest();
  if (name == "previous") return previous();
  if (name == "best") return best();
  fail(ErrorCode::argument, fmt::format("checkpoint '{}'; expected one of latest, previous, best", name));
}

std::string RunFolder::weights(const std::string& name) const {
  std::error_code ignored;
  if (name == "best" && !fs::exists(best(), ignored)) {
    fail(ErrorCode::argument,
         fmt::format("{} has no best weights before its first evaluation{}", path_,
                     fs::exists(latest(), ignored) ? "; use --checkpoint latest" : ", and no checkpoint yet"));
  }
  return checkpoint(name);
}

RunFolder RunFolder::open(const std::string& path) {
  const RunFolder run(path);
  if (!holds_run(run.path())) {
    fail(ErrorCode::argument, fmt::format("{} is not a run folder: it has no config.yaml", run.path()));
  }
  return run;
}

RunLock::RunLock(const RunFolder& run) : descriptor_(::open(run.lock().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
  struct flock lock = whole_file_lock();
  if (descriptor_ >= 0 && ::fcntl(descriptor_, F_OFD_SETLK, &lock) == 0) return;
  const int error = errno;
  if (descriptor_ >= 0) ::close(descriptor_);
  if (error == EAGAIN) fail(ErrorCode::argument, fmt::format("another process is training in {}", run.path()));
  fail(ErrorCode::io, fmt::format("cannot write {}: {}", run.lock(), std::generic_category().message(error)));
}

RunLock::~RunLock() { ::close(descriptor_); }

bool RunLock::is_held(const RunFolder& run) {
  const int descriptor = ::open(run.lock().c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  struct flock lock = whole_file_lock();
  const bool held = ::fcntl(descriptor, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
  ::close(descriptor);
  return held;
}

const char* name(RunState state) { return states[static_cast<std::size_t>(state)]; }

void write_status(const RunFolder& run, const RunStatus& status) {
  nlohmann::ordered_json json = {
      {"state", name(status.state)}, {"step", status.step},     {"steps", status.steps}, {"epoch", status.epoch},
      {"seconds", status.seconds},   {"metric", status.metric}, {"best", nullptr}};
  if (status.best && std::isfinite(*status.best)) json["best"] = *status.best;
  StagedFile(run.status(), json.dump(2) + "\n", operation).commit();
}

std::optional<RunStatus> read_status(const RunFolder& run) {
  if (!fs::exists(run.status())) return {};
  const std::string text = read_file(run.status(), operation);
  RunStatus status;
  try {
    status = parse_status(nlohmann::json::parse(text));
  } catch (const std::exception& error) {
    fail(ErrorCode::format, fmt::format("{} is not a run's status: {}", run.status(), error.what()));
  }
  if (status.state == RunState::running && !RunLock::is_held(run)) status.state = RunState::interrupted;
  return status;
}

RunSummary summarize(const RunFolder& run) {
  RunSummary summary;
  try {
    summary.config = load_config(run.config());
  } catch (const Error& error) {
    summary.damage = without_operation(error);
  }
  try {
    summary.status = read_status(run);
    summary.state = summary.status          ? name(summary.status->state)
                    : RunLock::is_held(run) ? name(RunState::running)
                                            : "not begun";
  } catch (const Error& error) {
    summary.state = "unreadable";
    if (summary.damage.empty()) summary.damage = without_operation(error);
  }
  return summary;
}

std::vector<RunFolder> find_runs(const std::string& path) {
  if (!fs::is_directory(path)) fail(ErrorCode::argument, fmt::format("{} is not a folder", path));
  std::vector<std::string> paths;
  if (holds_run(path)) paths.push_back(path);
  std::error_code ignored;
  const auto options = fs::directory_options::skip_permission_denied;
  for (fs::recursive_directory_iterator at(path, options, ignored), end; at != end; at.increment(ignored)) {
    if (at->is_directory(ignored) && holds_run(at->path().string())) paths.push_back(at->path().string());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<RunFolder> runs;
  for (const std::string& found : paths) runs.push_back(RunFolder::open(found));
  return runs;
}

}  // namespace rtf::train
