#include "figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace rtf::cli {
namespace {

// 1, 2 or 5 times a power of ten, so that about `count` steps fill the interval.
double tick_step(const Interval& range, double count) {
  const double rough = (range.high - range.low) / count, power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= 0.75 * rough) return factor * power;
  return 10 * power;
}

std::string tick_text(double value, double step, double largest) {
  std::string text;
  if (std::abs(value) < 1e-9 * step) {
    text = "0";
  } else if (largest >= 1e5 || step < 1e-4) {
    text = fmt::format("{:.6g}", value);
  } else {
    const int decimals = std::max(0, static_cast<int>(std::ceil(-std::log10(step) - 1e-9)));
    text = fmt::format("{:.{}f}", value, decimals);
  }
  if (text.starts_with('-')) text.replace(0, 1, "\u2212");
  return text;
}

// Powers of ten, and 2 and 5 times them where there are few.
std::vector<double> logarithmic_ticks(const Interval& range) {
  std::vector<double> values;
  const bool few = range.high - range.low < 2.5;
  // At most about ten of them.
  const double step = std::max(1.0, std::ceil((range.high - range.low) / 10));
  for (double power = std::floor(range.low / step) * step; power <= range.high; power += step) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double value = power + std::log10(factor);
      if (value >= range.low && value <= range.high && (few || factor == 1)) values.push_back(value);
    }
  }
  return values;
}

// At round numbers, about `count` of them, unless the axis brings its own.
std::vector<Tick> ticks_of(const Axis& axis, double count) {
  if (!axis.ticks.empty()) return axis.ticks;
  const Interval& range = axis.range;
  std::vector<Tick> ticks;
  if (axis.logarithmic) {
    for (const double value : logarithmic_ticks(range))
      ticks.push_back({value, fmt::format("{:.3g}", std::pow(10, value))});
    return ticks;
  }
  const double step = tick_step(range, std::max(2.0, count)), slack = 1e-9 * step;
  const double largest = std::max(std::abs(range.low), std::abs(range.high));
  for (double k = std::ceil((range.low - slack) / step); k * step <= range.high + slack; ++k)
    ticks.push_back({k * step, tick_text(k * step, step, largest)});
  return ticks;
}

}  // namespace

Interval interval_of(const std::vector<double>& values) {
  Interval range{HUGE_VAL, -HUGE_VAL};
  for (const double value : values) {
    if (!is_drawable(value)) continue;
    range.low = std::min(range.low, value);
    range.high = std::max(range.high, value);
  }
  if (range.low > range.high) return {-1, 1};
  const double width = (range.high - range.low) / 2, size = std::max(std::abs(range.low), std::abs(range.high));
  const double margin = width > 1e-9 * size ? 0.12 * width : size > 0 ? 0.5 * size : 1;
  return {range.low - margin, range.high + margin};
}

Panel::Panel(Svg& svg, const Box& box, const std::string& title, Axis x, Axis y)
    : svg_(svg), box_(box), x_(x.range), y_(y.range) {
  for (const auto& [value, text] : ticks_of(x, box.width / 65)) {
    const double place = at(value, y_.low).x;
    svg_.line({place, box_.top}, {place, box_.bottom()}, "grid");
    svg_.text({place, box_.bottom() + 15}, text, "muted", Anchor::middle);
  }
  for (const auto& [value, text] : ticks_of(y, box.height / 30)) {
    const double place = at(x_.low, value).y;
    svg_.line({box_.left, place}, {box_.right(), place}, "grid");
    svg_.text({box_.left - 6, place + 4}, text, "muted", Anchor::end);
  }
  svg_.rectangle(box_, "frame");
  svg_.text({box_.left, box_.top - 8}, title, "ink");
  svg_.text({box_.left + box_.width / 2, box_.bottom() + 31}, x.label, "muted", Anchor::middle);
  svg_.text({box_.left - 50, box_.top + box_.height / 2}, y.label, "muted", Anchor::middle, -90);
}

Point Panel::at(double x, double y) const {
  // Far outside is all the same, and keeps the numbers of the file short.
  const auto place = [](double value, const Interval& range) {
    return std::clamp((value - range.low) / (range.high - range.low), -10.0, 11.0);
  };
  return {box_.left + box_.width * place(x, x_), box_.bottom() - box_.height * place(y, y_)};
}

bool Panel::contains(double x, double y) const { return x >= x_.low && x <= x_.high && y >= y_.low && y <= y_.high; }

template <class F>
void Panel::clipped(F&& draw) {
  svg_.begin_clip(box_);
  draw();
  svg_.end_clip();
}

void Panel::curve(const std::vector<Point>& points, std::string_view style) {
  clipped([&] {
    std::vector<Point> line;
    for (std::size_t i = 0; i <= points.size(); ++i) {
      if (i < points.size() && std::isfinite(points[i].x) && std::isfinite(points[i].y)) {
        line.push_back(at(points[i].x, points[i].y));
      } else if (!line.empty()) {
        svg_.polyline(line, style);
        line.clear();
      }
    }
  });
}

void Panel::stems(const std::vector<Point>& points) {
  clipped([&] {
    svg_.line(at(x_.low, 0), at(x_.high, 0), "axis");
    for (const auto& [x, y] : points) {
      if (!std::isfinite(y)) continue;
      svg_.line(at(x, 0), at(x, y), "stem");
      svg_.circle(at(x, y), 2.4, "dot");
    }
  });
}

void Panel::area(const std::vector<Point>& points, std::string_view style) {
  std::vector<Point> corners;
  for (const auto& [x, y] : points) corners.push_back(at(x, y));
  clipped([&] { svg_.polygon(corners, style); });
}

void Panel::cross(double x, double y, double size) { svg_.cross(at(x, y), size, "pole"); }

void Panel::ring(double x, double y, double size, std::string_view style) { svg_.circle(at(x, y), size, style); }

void Panel::unit_circle() {
  clipped([&] {
    svg_.line(at(x_.low, 0), at(x_.high, 0), "axis");
    svg_.line(at(0, y_.low), at(0, y_.high), "axis");
    svg_.circle(at(0, 0), at(1, 0).x - at(0, 0).x, "border");
  });
}

void Panel::note(double x, double y, std::string_view text, Anchor anchor) { svg_.text(at(x, y), text, "ink", anchor); }

void Panel::footnote(std::string_view text) { svg_.text({box_.left + 6, box_.bottom() - 7}, text, "muted"); }

}  // namespace rtf::cli
