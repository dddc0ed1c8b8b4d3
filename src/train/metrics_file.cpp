#include "train/metrics_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "core/atomic_file.h"
#include "rtf/error.h"

namespace rtf::train {
namespace {

constexpr const char* operation = "metrics_file";

[[noreturn]] void fail(ErrorCode code, const std::string& message) { throw Error(code, operation, message); }

constexpr std::size_t leading_columns = 4;  // before the metrics

std::string header_of(const std::vector<std::string>& metrics) {
  std::string line = "step,epoch,split,loss";
  for (const std::string& name : metrics) line += "," + name;
  return line;
}

std::vector<std::string> split_at(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find(separator, begin)) != std::string::npos; begin = end + 1) {
    parts.push_back(text.substr(begin, end - begin));
  }
  parts.push_back(text.substr(begin));
  return parts;
}

// Complete lines: what follows the last line break was cut short.
std::vector<std::string> lines_of(const std::string& bytes) {
  auto lines = split_at(bytes, '\n');
  lines.pop_back();
  return lines;
}

template <class Number>
bool parse(const std::string& text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

// Nothing when the line is no row with so many metrics.
std::optional<MetricsRow> parse_row(const std::string& line, std::size_t metrics) {
  const auto fields = split_at(line, ',');
  MetricsRow row;
  if (fields.size() != leading_columns + metrics || !parse(fields[0], row.step) || !parse(fields[1], row.epoch) ||
      !parse(fields[3], row.loss)) {
    return {};
  }
  row.split = fields[2];
  const bool measured = metrics > 0 && !fields[leading_columns].empty();
  for (std::size_t i = leading_columns; i < fields.size(); ++i) {
    if (measured ? !parse(fields[i], row.metrics.emplace_back()) : !fields[i].empty()) return {};
  }
  return row;
}

MetricsRow require_row(const std::string& path, const std::vector<std::string>& lines, std::size_t i,
                       std::size_t metrics) {
  if (auto row = parse_row(lines[i], metrics)) return *std::move(row);
  fail(ErrorCode::format, fmt::format("{}: line {} is not a row of {}", path, i + 1, lines[0]));
}

// Cuts `path` to its rows up to `step` and returns the splits that have a row there.
std::set<std::string> cut(const std::string& path, const std::string& header, int64_t step) {
  const std::string bytes = read_file(path, operation);
  const auto lines = lines_of(bytes);
  std::string kept = header + "\n";
  std::set<std::string> present;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i == 0) {
      if (lines[0] != header) {
        fail(ErrorCode::format, fmt::format("{} has the columns {}, expected {}", path, lines[0], header));
      }
      continue;
    }
    const MetricsRow row = require_row(path, lines, i, split_at(header, ',').size() - leading_columns);
    if (row.step > step) continue;
    kept += lines[i] + "\n";
    if (row.step == step) present.insert(row.split);
  }
  if (kept != bytes) StagedFile(path, kept, operation).commit();
  return present;
}

// Leaves a file that ends with a whole row.
std::set<std::string> prepare(const std::string& path, const std::string& header, std::optional<int64_t> step) {
  const bool exists = std::filesystem::exists(path);
  if (exists && step) return cut(path, header, *step);
  if (exists) fail(ErrorCode::argument, fmt::format("{} exists already", path));
  StagedFile(path, header + "\n", operation).commit();
  return {};
}

}  // namespace

MetricsFile::MetricsFile(const std::string& path, const std::vector<std::string>& metrics, std::optional<int64_t> step)
    : metrics_(metrics.size()),
      resumed_(step),
      present_(prepare(path, header_of(metrics), step)),
      file_(path, operation) {}

void MetricsFile::row(int64_t step, int64_t epoch, const std::string& split, double loss,
                      std::span<const double> metrics) {
  if (!metrics.empty() && metrics.size() != metrics_) {
    fail(ErrorCode::argument, fmt::format("a row has {} metrics, expected {}", metrics.size(), metrics_));
  }
  if (step == resumed_ && present_.contains(split)) return;
  std::string line = fmt::format("{},{},{},{}", step, epoch, split, loss);
  for (std::size_t i = 0; i < metrics_; ++i) line += metrics.empty() ? "," : fmt::format(",{}", metrics[i]);
  file_.append(line + "\n");
}

RunMetrics read_metrics(const std::string& path) {
  const auto lines = lines_of(read_file(path, operation));
  RunMetrics metrics;
  if (lines.empty()) return metrics;
  metrics.names = split_at(lines[0], ',');
  metrics.names.erase(metrics.names.begin(), metrics.names.begin() + static_cast<std::ptrdiff_t>(std::min(
                                                                         leading_columns, metrics.names.size())));
  if (lines[0] != header_of(metrics.names)) {
    fail(ErrorCode::format,
         fmt::format("{} has the columns {}, expected {} and metrics", path, lines[0], header_of({})));
  }
  for (std::size_t i = 1; i < lines.size(); ++i) {
    metrics.rows.push_back(require_row(path, lines, i, metrics.names.size()));
  }
  return metrics;
}

}  // namespace rtf::train
