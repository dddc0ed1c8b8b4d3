// metrics.csv: a row for every training loss that is logged and every evaluation. It goes on where a checkpoint left
// it.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "train/append_file.h"

namespace rtf::train {

class MetricsFile {
 public:
  // The columns are step, epoch, split, loss and `metrics`. A file that exists is continued after `step`: later rows,
  // and a last line that a kill left unfinished, are cut off first. Without `step` the file must not exist.
  MetricsFile(const std::string& path, const std::vector<std::string>& metrics, std::optional<int64_t> step = {});

  // In the system's hands on return. `metrics` is empty (fields left empty) or has one value a column. A row of the
  // step from which the file is continued that is there already is not written twice.
  void row(int64_t step, int64_t epoch, const std::string& split, double loss, std::span<const double> metrics = {});
  void sync() { file_.sync(); }

 private:
  std::size_t metrics_;
  std::optional<int64_t> resumed_;  // the step it was continued from,
  std::set<std::string> present_;   // and the splits that have a row there
  AppendFile file_;
};

struct MetricsRow {
  int64_t step = 0, epoch = 0;
  std::string split;
  double loss = 0;
  std::vector<double> metrics;  // empty: not measured
};
struct RunMetrics {
  std::vector<std::string> names;  // of the metrics
  std::vector<MetricsRow> rows;
};
// What such a file holds, also while a run writes it: a last line without its end is left out.
RunMetrics read_metrics(const std::string& path);

}  // namespace rtf::train
