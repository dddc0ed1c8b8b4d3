// Runs from start to end: what `rtf train` and `rtf eval` call. Free of torch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "train/config.h"

namespace rtf::train {

struct LaunchOptions {
  bool quiet = false;    // neither bar nor summary
  bool profile = false;  // a table of where the time went
  double minutes = 0;    // after which the run stops with a checkpoint; 0: at its end
};

// Both return the exit code: 0 at the end, or when the minutes are over; 128 + the signal that stopped the run.
int start_run(const Config& config, const std::string& folder, const LaunchOptions& options);

// `from` is latest, previous or best. `overrides` may name keys that leave the mathematics as it is.
int resume_run(const std::string& folder, const std::string& from, const std::vector<std::string>& overrides,
               const LaunchOptions& options);

struct SplitReport {
  std::string split;
  int64_t samples = 0;
  std::vector<std::pair<std::string, double>> scores;  // the loss first
  std::optional<double> difference;  // of streamed outputs from the convolution's, relative to the largest output
};

struct RunReport {
  std::string checkpoint;
  int64_t step = 0, epoch = 0;
  std::vector<SplitReport> splits;
};

// `split` is train, val, test, or empty: val and what else the task has beside train. `mode` is convolution, prefill or
// step. `device` may be empty: the run's own.
RunReport evaluate_run(const std::string& folder, const std::string& checkpoint, const std::string& split,
                       const std::string& mode, const std::string& device);

}  // namespace rtf::train
