#include "train/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <tuple>

#include "core/printable.h"
#include "rtf/error.h"
#include "train/paper_numbers.h"

namespace rtf::train {
namespace {

// cuda:1 is another place, not another device.
std::string device_of(const Config& config) { return config.train.device.substr(0, config.train.device.find(':')); }

// Equal for runs that differ by their seed alone, or in what changes no number.
using Settings = std::map<std::string, std::string>;
Settings settings_without_seed(const ReportedRun& run) {
  auto settings = fixed_settings(run.config);
  settings.erase("train.seed");
  settings["train.device"] = device_of(run.config);
  settings["data.path"] = run.config.data.path;  // another place may hold other data
  settings["train.epochs"] = fmt::format("{}", run.config.train.epochs);
  settings["steps"] = fmt::format("{}", run.status.step);
  return settings;
}

bool has_seed(const ReportRow& row, uint64_t seed) {
  return std::any_of(row.runs.begin(), row.runs.end(),
                     [&](const ReportedRun& run) { return run.config.train.seed == seed; });
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// Of the values that a few samples of a distribution show, hence n - 1.
double standard_deviation(const std::vector<double>& values) {
  const double middle = mean(values);
  double sum = 0;
  for (const double value : values) sum += (value - middle) * (value - middle);
  return std::sqrt(sum / static_cast<double>(values.size() - 1));
}

// The metric of a row of each run: of the best checkpoint, or of the last evaluation.
std::string score_text(const ReportRow& row, auto&& row_of) {
  const ReportedMetric metric = row.first().metric();
  std::vector<double> values;
  for (const ReportedRun& run : row.runs) {
    const MetricsRow* at = row_of(run);
    if (!at) return "";
    values.push_back(metric.of(*at));
  }
  const std::string text = metric.text(mean(values));
  return values.size() == 1 ? text : text + " \u00b1 " + metric.text(standard_deviation(values));
}

std::vector<std::string> cells_of(const ReportRow& row) {
  const ReportedRun& run = row.first();
  const Config& config = run.config;
  // A run that ended from before there was `steps` did all it was to do.
  const int64_t planned = run.status.steps > 0 ? run.status.steps : run.is_finished() ? run.status.step : 0;
  std::string seeds;
  std::vector<double> minutes;
  for (const ReportedRun& one : row.runs) {
    seeds += fmt::format("{}{}", seeds.empty() ? "" : ", ", one.config.train.seed);
    minutes.push_back(one.status.seconds / 60);
  }
  return {row.name(),
          config.task.name,
          config.model.layer,
          fmt::format("{}", config.model.order),
          fmt::format("{}", config.model.channels),
          run.state,
          planned > 0 ? fmt::format("{} / {}", run.status.step, planned) : fmt::format("{}", run.status.step),
          fmt::format("{}", run.status.epoch),
          run.metric().label(),
          score_text(row, [](const ReportedRun& one) { return one.best("val"); }),
          score_text(row, [](const ReportedRun& one) { return one.best("test"); }),
          score_text(row, [](const ReportedRun& one) { return one.last(); }),
          paper_number(config),
          fmt::format("{}", row.runs.size()),
          seeds,
          fmt::format("{:.1f}", mean(minutes)),
          device_of(config),
          config.train.precision};
}

}  // namespace

std::string ReportedMetric::label() const { return share ? name + ", %" : name; }

double ReportedMetric::of(const MetricsRow& row) const {
  if (name == "loss") return row.loss;
  return row.metrics.empty() ? std::nan("") : row.metrics[0] * (share ? 100 : 1);
}

std::string ReportedMetric::text(double value) const {
  return share ? fmt::format("{:.3f}", value) : fmt::format("{:#.4g}", value);
}

ReportedMetric ReportedRun::metric() const {
  if (metrics.names.empty()) return {metrics.rows.empty() ? "" : "loss"};
  return {metrics.names[0], metrics.names[0] == "accuracy"};
}

const MetricsRow* ReportedRun::best(const std::string& split) const {
  const auto found = std::find_if(metrics.rows.begin(), metrics.rows.end(),
                                  [&](const MetricsRow& row) { return row.split == split && row.step == best_step; });
  return found == metrics.rows.end() ? nullptr : &*found;
}

const MetricsRow* ReportedRun::last() const {
  const std::string split = best("test") ? "test" : "val";
  const auto found = std::find_if(metrics.rows.rbegin(), metrics.rows.rend(),
                                  [&](const MetricsRow& row) { return row.split == split; });
  return found == metrics.rows.rend() ? nullptr : &*found;
}

ReportedRun read_run(const RunFolder& folder) {
  RunSummary summary = summarize(folder);
  if (!summary.damage.empty()) throw Error(ErrorCode::format, "report", summary.damage);
  ReportedRun run{folder.path(), *summary.config, summary.status.value_or(RunStatus()), summary.state, {}, {}};
  if (std::filesystem::exists(folder.metrics())) run.metrics = read_metrics(folder.metrics());
  if (!run.status.best) return run;
  const auto& names = run.metrics.names;
  const auto column =
      static_cast<std::size_t>(std::find(names.begin(), names.end(), run.status.metric) - names.begin());
  for (const MetricsRow& row : run.metrics.rows) {
    if (row.split != "val" || row.metrics.size() != names.size()) continue;
    if ((column < names.size() ? row.metrics[column] : row.loss) != *run.status.best) continue;
    run.best_step = row.step;
    return run;
  }
  throw Error(ErrorCode::format, "report",
              fmt::format("{} has no val row with the {} that {} calls the best, {}", folder.metrics(),
                          run.status.metric, folder.status(), *run.status.best));
}

std::string ReportRow::name() const {
  const std::string path = printable(first().path, first().path.size());
  return runs.size() == 1 ? path : fmt::format("{} and {} more", path, runs.size() - 1);
}

std::vector<ReportRow> report_rows(std::vector<ReportedRun> runs) {
  std::vector<std::string> tasks;  // in the order in which they came
  std::vector<ReportRow> rows;
  std::multimap<Settings, std::size_t> finished;  // rows that can take another seed
  for (ReportedRun& run : runs) {
    tasks.push_back(run.config.task.name);
    if (run.is_finished()) {
      const Settings settings = settings_without_seed(run);
      const auto [begin, end] = finished.equal_range(settings);
      const auto row =
          std::find_if(begin, end, [&](const auto& one) { return !has_seed(rows[one.second], run.config.train.seed); });
      if (row != end) {
        rows[row->second].runs.push_back(std::move(run));
        continue;
      }
      finished.emplace(settings, rows.size());
    }
    rows.push_back({{std::move(run)}});
  }
  const auto key = [&](const ReportRow& row) {
    const Config& config = row.first().config;
    return std::tuple(std::find(tasks.begin(), tasks.end(), config.task.name), config.model.layer, config.model.order,
                      config.model.channels);
  };
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const ReportRow& left, const ReportRow& right) { return key(left) < key(right); });
  for (ReportRow& row : rows) {
    std::stable_sort(row.runs.begin(), row.runs.end(), [](const ReportedRun& left, const ReportedRun& right) {
      return left.config.train.seed < right.config.train.seed;
    });
  }
  return rows;
}

Table report_table(const std::vector<ReportRow>& rows) {
  Table table({"run", "task", "layer", "order", "channels", "state", "steps", "epochs", "metric", "val", "test", "last",
               "paper", "runs", "seeds", "minutes", "device", "precision"});
  for (const ReportRow& row : rows) table.row(cells_of(row));
  return table;
}

}  // namespace rtf::train
