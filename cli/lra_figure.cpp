#include "lra_figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "figure.h"
#include "train/table.h"

namespace rtf::cli {
namespace {

using Pass = double LayerTime::*;

struct PassName {
  Pass pass;
  const char *key, *title;
};
constexpr PassName passes[] = {{&LayerTime::forward, "forward", "Forward"},
                               {&LayerTime::training, "training", "Forward and backward (training)"}};

// The time of a layer at an order, or at its own.
const LayerTime* find(const LraFigures& figures, const std::string& task, const std::string& layer, int64_t order,
                      bool own) {
  for (const LayerTime& time : figures.times)
    if (time.task == task && time.layer == layer && (own ? time.own : time.order == order)) return &time;
  return nullptr;
}

// A line of a table: all layers at one order, or each at its own.
struct Line {
  std::string task, order;
  bool own = false;
  std::vector<const LayerTime*> times;  // of the layers; null: not measured
};

std::vector<Line> lines_of(const LraFigures& figures, const std::string& task) {
  std::set<int64_t> orders;
  std::vector<int64_t> own;
  for (const LayerTime& time : figures.times)
    if (time.task == task) orders.insert(time.order);
  for (const std::string& layer : figures.layers)
    if (const LayerTime* time = find(figures, task, layer, 0, true)) own.push_back(time->order);
  const bool one = std::all_of(own.begin(), own.end(), [&](int64_t order) { return order == own.front(); });
  std::vector<Line> lines;
  for (const int64_t order : orders) {
    const bool marked = one && !own.empty() && order == own.front();
    Line line{task, fmt::format("{}{}", order, marked ? " *" : ""), marked, {}};
    for (const std::string& layer : figures.layers) line.times.push_back(find(figures, task, layer, order, false));
    lines.push_back(std::move(line));
  }
  if (!one) {
    Line line{task, fmt::format("{} *", fmt::join(own, ", ")), true, {}};
    for (const std::string& layer : figures.layers) line.times.push_back(find(figures, task, layer, 0, true));
    lines.push_back(std::move(line));
  }
  return lines;
}

double ratio(const Line& line, std::size_t layer, Pass pass) {
  const LayerTime *time = line.times[layer], *first = line.times[0];
  return time && first ? time->*pass / (first->*pass) : std::nan("");
}

struct Mean {
  double arithmetic = std::nan(""), geometric = std::nan("");
  std::size_t tasks = 0;
};

// Over the tasks in which both were measured, each at its own order.
Mean mean_ratio(const LraFigures& figures, std::size_t layer, Pass pass) {
  double sum = 0, logarithms = 0;
  Mean mean;
  for (const std::string& task : figures.tasks)
    for (const Line& line : lines_of(figures, task)) {
      const double value = line.own ? ratio(line, layer, pass) : std::nan("");
      if (std::isnan(value)) continue;
      sum += value;
      logarithms += std::log(value);
      ++mean.tasks;
    }
  if (mean.tasks > 0) {
    mean.arithmetic = sum / static_cast<double>(mean.tasks);
    mean.geometric = std::exp(logarithms / static_cast<double>(mean.tasks));
  }
  return mean;
}

std::string milliseconds(const LayerTime* time, Pass pass) {
  if (!time) return "";
  return std::isnan(time->*pass) ? "OOM" : fmt::format("{:.4f}", time->*pass);
}

std::string ratio_name(const LraFigures& figures, std::size_t layer) {
  return figures.layers[layer] + "/" + figures.layers[0];
}

}  // namespace

std::string lra_text(const LraFigures& figures) {
  std::string text = fmt::format(
      "One layer of each model, ms: median of {} on {} in {}, one layer after the other{}. * each layer at the order "
      "of its own config\n",
      figures.repeats, figures.device, figures.precision, figures.device == "cpu" ? "" : " in a CUDA graph");
  for (const PassName& pass : passes) {
    std::vector<std::string> header = {"task", "batch", "length", "channels", "order"};
    header.insert(header.end(), figures.layers.begin(), figures.layers.end());
    for (std::size_t i = 1; i < figures.layers.size(); ++i) header.push_back(ratio_name(figures, i));
    train::Table table(header);
    for (const std::string& task : figures.tasks)
      for (const Line& line : lines_of(figures, task)) {
        const LayerTime& sizes = **std::find_if(line.times.begin(), line.times.end(), [](auto* time) { return time; });
        std::vector<std::string> cells = {task, std::to_string(sizes.batch), std::to_string(sizes.length),
                                          std::to_string(sizes.channels), line.order};
        for (const LayerTime* time : line.times) cells.push_back(milliseconds(time, pass.pass));
        for (std::size_t i = 1; i < figures.layers.size(); ++i) {
          const double value = ratio(line, i, pass.pass);
          cells.push_back(std::isnan(value) ? "" : fmt::format("{:.2f}", value));
        }
        table.row(std::move(cells));
      }
    text += fmt::format("\n{}\n{}", pass.title, table.text());
    for (std::size_t i = 1; i < figures.layers.size(); ++i) {
      const Mean mean = mean_ratio(figures, i, pass.pass);
      if (mean.tasks == 0) continue;
      text += fmt::format("mean of {} over {} task{} *: {:.3f} (geometric {:.3f})\n", ratio_name(figures, i),
                          mean.tasks, mean.tasks == 1 ? "" : "s", mean.arithmetic, mean.geometric);
    }
  }
  return text;
}

std::string lra_json(const LraFigures& figures) {
  using nlohmann::ordered_json;
  ordered_json times = ordered_json::array(), means;
  for (const LayerTime& time : figures.times)
    times.push_back({{"task", time.task},
                     {"layer", time.layer},
                     {"batch", time.batch},
                     {"length", time.length},
                     {"channels", time.channels},
                     {"order", time.order},
                     {"own", time.own},
                     {"forward", time.forward},  // not a number is written as null
                     {"training", time.training}});
  for (std::size_t i = 1; i < figures.layers.size(); ++i)
    for (const PassName& pass : passes) {
      const Mean mean = mean_ratio(figures, i, pass.pass);
      means[ratio_name(figures, i)][pass.key] = {
          {"arithmetic", mean.arithmetic}, {"geometric", mean.geometric}, {"tasks", mean.tasks}};
    }
  return ordered_json{{"device", figures.device},
                      {"precision", figures.precision},
                      {"repeats", figures.repeats},
                      {"unit", "ms"},
                      {"means", means},
                      {"times", times}}
             .dump(1) +
         "\n";
}

std::string lra_svg(const LraFigures& figures) {
  constexpr double width = 250, height = 190, left = 80, top = 108, across = 330, down = 270;
  const std::size_t columns = std::min<std::size_t>(3, figures.tasks.size());
  const std::size_t rows = (figures.tasks.size() + columns - 1) / columns;
  Svg svg(left + across * static_cast<double>(columns), top + down * static_cast<double>(rows),
          "Milliseconds of one layer over its state size, for each task", /*series=*/true);
  svg.text({left, 30}, fmt::format("One layer, ms on {} in {}", figures.device, figures.precision), "strong");
  svg.text({left, 48}, "solid: forward and backward; dashed: forward; rings: each layer at the order of its own config",
           "muted");
  for (std::size_t i = 0; i < figures.layers.size(); ++i) {
    const double x = left + 90 * static_cast<double>(i);
    svg.line({x, 62}, {x + 24, 62}, "curve " + series_style(i));
    svg.text({x + 30, 66}, figures.layers[i], "ink");
  }
  for (std::size_t i = 0; i < figures.tasks.size(); ++i) {
    const std::string& task = figures.tasks[i];
    std::vector<double> xs, ys;
    for (const LayerTime& time : figures.times) {
      if (time.task != task) continue;
      xs.push_back(std::log2(time.order));
      for (const PassName& pass : passes)
        if (!std::isnan(time.*pass.pass)) ys.push_back(std::log10(time.*pass.pass));
    }
    const Interval x_range = interval_of(xs), y_range = interval_of(ys);
    Axis x{x_range, "state size"}, y{y_range, i % columns == 0 ? "ms" : "", /*logarithmic=*/true};
    std::set<int64_t> orders;
    for (const LayerTime& time : figures.times)
      if (time.task == task) orders.insert(time.order);
    for (auto order = orders.begin(); order != orders.end(); ++order) {
      // Two numbers that would touch: the second alone.
      const auto next = std::next(order);
      const double room = next == orders.end() ? width : std::log2(static_cast<double>(*next) / *order);
      const bool touches = room * width < 36 * (x_range.high - x_range.low);
      x.ticks.push_back({std::log2(*order), touches ? "" : std::to_string(*order)});
    }
    const Box box{left + across * static_cast<double>(i % columns), top + down * static_cast<double>(i / columns),
                  width, height};
    Panel panel(svg, box, task, x, y);
    for (std::size_t k = 0; k < figures.layers.size(); ++k)
      for (const PassName& pass : passes) {
        std::vector<Point> points;
        for (const int64_t order : orders)
          if (const LayerTime* time = find(figures, task, figures.layers[k], order, false))
            points.push_back({std::log2(order), std::log10(time->*pass.pass)});
        const bool forward = pass.pass == &LayerTime::forward;
        panel.curve(points, fmt::format("curve {}{}", series_style(k), forward ? " dashed" : ""));
        const LayerTime* own = find(figures, task, figures.layers[k], 0, true);
        if (own && !std::isnan(own->*pass.pass))
          panel.ring(std::log2(own->order), std::log10(own->*pass.pass), marker_size, "ring " + series_style(k));
      }
  }
  return svg.finish();
}

}  // namespace rtf::cli
