#include "curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>
#include <vector>

#include "figure.h"

namespace rtf::cli {
namespace {

using train::MetricsRow;
using train::ReportedMetric;
using train::ReportedRun;
using train::ReportRow;

constexpr double picture_width = 960, legend_top = 388, legend_line = 20;
constexpr Box left_box{60, 92, 400, 240}, right_box{536, 92, 400, 240};
constexpr std::size_t training_points = 200;  // of a line
constexpr double decades_for_logarithm = 1.5;

std::vector<Point> points_of(const ReportedRun& run, const std::string& split, const ReportedMetric& metric) {
  std::vector<Point> points;
  for (const MetricsRow& row : run.metrics.rows) {
    const double value = metric.of(row);
    if (row.split == split && !std::isnan(value)) points.push_back({static_cast<double>(row.step), value});
  }
  return points;
}

// Training losses are many and noisy: means of neighbours.
std::vector<Point> thinned(const std::vector<Point>& points) {
  if (points.size() <= training_points) return points;
  std::vector<Point> means;
  for (std::size_t piece = 0; piece < training_points; ++piece) {
    const std::size_t begin = points.size() * piece / training_points,
                      end = points.size() * (piece + 1) / training_points;
    Point sum;
    for (std::size_t i = begin; i < end; ++i) sum = {sum.x + points[i].x, sum.y + points[i].y};
    const auto count = static_cast<double>(end - begin);
    means.push_back({sum.x / count, sum.y / count});
  }
  return means;
}

struct Line {
  std::vector<Point> points;
  std::string style;
  std::optional<Point> best;
};

// Those of training first, so that they hide nothing.
std::vector<Line> lines_of(std::span<const ReportRow> rows, const ReportedMetric& metric) {
  std::vector<Line> training, validation;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (const ReportedRun& run : rows[i].runs) {
      training.push_back({thinned(points_of(run, "train", metric)), series_style(i) + " faint", {}});
      validation.push_back({points_of(run, "val", metric), series_style(i), {}});
      if (const MetricsRow* best = run.best("val"))
        validation.back().best = Point{static_cast<double>(best->step), metric.of(*best)};
    }
  }
  training.insert(training.end(), validation.begin(), validation.end());
  return training;
}

std::vector<double> values_of(const std::vector<Line>& lines) {
  std::vector<double> values;
  for (const Line& line : lines)
    for (const Point& point : line.points)
      if (is_drawable(point.y)) values.push_back(point.y);
  return values;
}

void draw_panel(Svg& svg, const Box& box, double steps, std::span<const ReportRow> rows, const ReportedMetric& metric) {
  std::vector<Line> lines = lines_of(rows, metric);
  std::vector<double> values = values_of(lines);
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const bool share = metric.share;
  const bool logarithmic = !share && !values.empty() && *low > 0 && std::log10(*high / *low) > decades_for_logarithm;
  if (logarithmic) {
    for (Line& line : lines) {
      for (Point& point : line.points) point.y = std::log10(point.y);
      if (line.best) line.best->y = std::log10(line.best->y);
    }
    values = values_of(lines);
  }
  Interval range = values.empty() ? Interval{0, share ? 100.0 : 1.0} : interval_of(values);
  if (!logarithmic) range.low = std::max(range.low, 0.0);
  // Lines at 100 % lie inside the frame.
  if (share) range.high = std::min(range.high, 100 + 0.02 * (100 - range.low));
  std::string title = metric.label();
  title[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(title[0])));
  Panel panel(svg, box, title, {{0, steps}, "steps"}, {range, "", logarithmic});
  for (const Line& line : lines)
    if (!line.points.empty()) panel.curve(line.points, "curve " + line.style);
  for (const Line& line : lines)
    if (line.best) panel.ring(line.best->x, line.best->y, 3.5, "ring " + line.style);
  if (values.empty()) panel.footnote("nothing has been measured yet");
}

// Two columns; the ends of long names tell runs apart.
std::string legend_text(const ReportRow& row) {
  constexpr std::size_t most = 56;
  const train::ModelConfig& model = row.first().config.model;
  const std::string kind = fmt::format("{}, order {}: ", model.layer, model.order), name = row.name();
  const std::size_t size = train::display_width(name);
  if (kind.size() + size <= most) return kind + name;
  std::size_t begin = 0;
  for (std::size_t dropped = 0; dropped + most < kind.size() + size + 1; ++dropped) {
    do ++begin;
    while (begin < name.size() && (static_cast<unsigned char>(name[begin]) & 0xc0) == 0x80);
  }
  return kind + "\u2026" + name.substr(begin);
}

}  // namespace

std::string learning_curves(std::span<const ReportRow> rows) {
  const std::string& task = rows[0].first().config.task.name;
  double steps = 1;
  std::size_t runs = 0;
  ReportedMetric metric;
  for (const ReportRow& row : rows) {
    runs += row.runs.size();
    if (metric.name.empty()) metric = row.first().metric();
    for (const ReportedRun& run : row.runs)
      for (const MetricsRow& point : run.metrics.rows) steps = std::max(steps, static_cast<double>(point.step));
  }
  const std::size_t lines = (rows.size() + 1) / 2;  // of the legend
  const double height = legend_top + legend_line * static_cast<double>(lines) + 2;
  Svg svg(picture_width, height, fmt::format("{}: learning curves of {} runs", task, runs), /*series=*/true);
  svg.text({left_box.left, 32}, task, "strong");
  std::string explanation = "strong lines: validation; faint lines: training; rings: the best checkpoints";
  if (rows.size() > different_series) explanation += fmt::format("; colours repeat after {}", different_series);
  svg.text({left_box.left, 54}, explanation, "ink");
  draw_panel(svg, left_box, steps, rows, {"loss"});
  if (!metric.name.empty() && metric.name != "loss") draw_panel(svg, right_box, steps, rows, metric);
  // Down the left column, then down the right one.
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double left = i < lines ? left_box.left : right_box.left - 40,
                 middle = legend_top + legend_line * static_cast<double>(i % lines);
    svg.line({left, middle}, {left + 26, middle}, "curve " + series_style(i));
    svg.text({left + 34, middle + 4}, legend_text(rows[i]), "ink");
  }
  return svg.finish();
}

}  // namespace rtf::cli
