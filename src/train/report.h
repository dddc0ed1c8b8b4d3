// What runs reached, as a table: a row for a run, or one for those that differ by their seed alone. Free of torch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "train/metrics_file.h"
#include "train/run_folder.h"
#include "train/table.h"

namespace rtf::train {

// The number that a task is judged by: its first metric, else the loss. Without a name before there are numbers.
struct ReportedMetric {
  std::string name;    // "accuracy"
  bool share = false;  // of 1, shown in percent

  std::string label() const;               // "accuracy, %"
  double of(const MetricsRow& row) const;  // NaN where it was not measured
  std::string text(double value) const;
};

struct ReportedRun {
  std::string path;
  Config config;
  RunStatus status;                  // all 0 when none is there yet
  std::string state;                 // as `rtf runs` has it
  RunMetrics metrics;                // in order of steps
  std::optional<int64_t> best_step;  // of the best checkpoint

  bool is_finished() const { return status.state == RunState::finished; }
  ReportedMetric metric() const;
  // The row of an evaluation at the best checkpoint; null where there is none.
  const MetricsRow* best(const std::string& split) const;
  // That of the last evaluation of the test samples, or of the validation samples where those are all.
  const MetricsRow* last() const;
};

// Throws for a run whose files are damaged.
ReportedRun read_run(const RunFolder& folder);

struct ReportRow {
  std::vector<ReportedRun> runs;  // more than one: finished, and alike but for their seeds

  const ReportedRun& first() const { return runs[0]; }
  std::string name() const;  // "runs/a", "runs/a and 2 more"
};

// Rows of a task together, by layer, order and channels.
std::vector<ReportRow> report_rows(std::vector<ReportedRun> runs);
Table report_table(const std::vector<ReportRow>& rows);

}  // namespace rtf::train
