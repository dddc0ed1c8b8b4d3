// What a run tells: metrics.csv, event files, status.json and the progress bar. Free of torch.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "train/event_file.h"
#include "train/metrics_file.h"
#include "train/progress.h"
#include "train/run_folder.h"

namespace rtf::train {

class Recorder {
 public:
  // `selection` names the score that chooses the best weights. A run that goes on from a checkpoint gives its step.
  Recorder(const RunFolder& folder, const Config& config, const std::vector<std::string>& metrics,
           const std::string& selection, int64_t steps, std::optional<int64_t> step, bool quiet);

  void step(int64_t step, int64_t epoch, double loss);
  void train_row(int64_t step, int64_t epoch, double mean_loss, double lr, double gradient_norm);
  void evaluation(int64_t step, int64_t epoch, const std::string& split, double loss, std::span<const double> metrics);
  // `unstable` counts denominators with a pole on or outside the circle.
  void poles(int64_t step, std::size_t layer, double radius, double min_abs_denominator, int64_t unstable);
  // Everything told so far is on the disk, and status.json says so.
  void status(RunState state, int64_t step, int64_t epoch, double seconds, std::optional<double> best);

 private:
  RunFolder folder_;
  std::vector<std::string> metrics_;
  std::string selection_;
  MetricsFile rows_;
  EventFile events_;
  std::optional<Progress> progress_;  // none: quiet
  ProgressState shown_;
  int64_t rate_step_;  // where the steps per second are counted from
  std::chrono::steady_clock::time_point rate_begin_ = std::chrono::steady_clock::now();
};

}  // namespace rtf::train
