// A run's folder: what lies in it, making one, and how far its run has come.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "train/config.h"

namespace rtf::train {

// The files of the folder checkpoints/.
inline constexpr const char* latest_file = "latest.safetensors";
inline constexpr const char* previous_file = "previous.safetensors";
inline constexpr const char* best_file = "best.safetensors";

// The paths of a run; event files lie in the folder itself.
class RunFolder {
 public:
  // A new folder, which begin() makes a run. Refused when it holds a run, or files of one, already.
  static RunFolder create(const std::string& path);
  // One that holds a run.
  static RunFolder open(const std::string& path);

  // Writes the config. The caller holds the lock, so that of two processes that made the same folder one is refused.
  void begin(const Config& config) const;

  const std::string& path() const { return path_; }
  std::string config() const { return path_ + "/config.yaml"; }
  std::string metrics() const { return path_ + "/metrics.csv"; }
  std::string status() const { return path_ + "/status.json"; }
  std::string lock() const { return path_ + "/.lock"; }
  std::string checkpoints() const { return path_ + "/checkpoints"; }
  std::string latest() const { return checkpoints() + "/" + latest_file; }
  std::string previous() const { return checkpoints() + "/" + previous_file; }
  std::string best() const { return checkpoints() + "/" + best_file; }
  // One of these by its name: latest, previous or best.
  std::string checkpoint(const std::string& name) const;
  // The same, refused with what to do when it is `best` and there is none yet.
  std::string weights(const std::string& name) const;

 private:
  explicit RunFolder(std::string path);
  void require_new() const;

  std::string path_;
};

// Held while a process trains in a folder: a second one is refused. The system lets go of it however the process ends.
class RunLock {
 public:
  explicit RunLock(const RunFolder& run);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  static bool is_held(const RunFolder& run);

 private:
  int descriptor_;
};

enum class RunState { running, finished, interrupted, failed };
const char* name(RunState state);

// status.json, written by the trainer at every checkpoint and at its end.
struct RunStatus {
  RunState state = RunState::running;
  int64_t step = 0, epoch = 0;
  double seconds = 0;          // of training, all starts together
  std::string metric;          // that chooses the best weights: "loss" or one of the task's
  std::optional<double> best;  // its best value; none before the first evaluation
  int64_t steps = 0;           // of the whole run; 0 in a file from before it was said
  bool operator==(const RunStatus&) const = default;
};
void write_status(const RunFolder& run, const RunStatus& status);
// Nothing when the run has not come so far as to write one. A run whose process was killed reads as interrupted.
std::optional<RunStatus> read_status(const RunFolder& run);

// What can be known of a run beside its weights.
struct RunSummary {
  std::optional<Config> config;     // none: it cannot be read
  std::optional<RunStatus> status;  // none: it cannot be read, or was not written yet
  std::string state;                // as people read it: a RunState, "not begun" or "unreadable"
  std::string damage;               // why the first file that cannot be read cannot; empty: all can
};
// Does not throw for damaged files: one such run must not hide the others.
RunSummary summarize(const RunFolder& run);

// The folders below `path` that hold a run, itself included, by name.
std::vector<RunFolder> find_runs(const std::string& path);

}  // namespace rtf::train
