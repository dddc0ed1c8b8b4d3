// rtf plot: one channel in one picture.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numbers>

#include "common.h"
#include "core/atomic_file.h"
#include "figure.h"
#include "plot_channel.h"
#include "rtf/response.h"

namespace rtf::cli {
namespace {

using std::numbers::pi;
constexpr double picture_width = 960, picture_height = 740;
constexpr Box kernel_box{80, 92, 520, 150}, magnitude_box{80, 312, 520, 150}, phase_box{80, 532, 520, 150};
constexpr Box map_box{672, 92, 262, 262}, last_box{672, 448, 262, 234};

// Up to here a picture is there within three seconds; the time grows with the square of the order.
constexpr std::size_t slow_order = 2048;

struct PlotOptions : CommonOptions {
  std::size_t channel = 0, length = 0;
  std::string output;
};

void add_options(CLI::App& command, PlotOptions& options) {
  add_count(command, "--channel", options.channel, "which channel, from 0 on", 0)->type_name("C")->default_str("0");
  add_count(command, "--length", options.length, "samples of the impulse response (default: until it has died out)");
  add_output(command, options.output, "svg file for the picture");
}

// At most two points a pixel: the smallest and the largest value of every piece.
std::vector<Point> samples(const std::vector<double>& values, double pixels) {
  const auto pieces = static_cast<std::size_t>(pixels);
  std::vector<Point> points;
  if (values.size() <= 2 * pieces) {
    for (std::size_t t = 0; t < values.size(); ++t) points.push_back({static_cast<double>(t), values[t]});
    return points;
  }
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(values.size() * piece / pieces);
    const auto end = values.begin() + static_cast<std::ptrdiff_t>(values.size() * (piece + 1) / pieces);
    auto [low, high] = std::minmax_element(begin, end);
    if (high < low) std::swap(low, high);
    for (const auto it : {low, high}) points.push_back({static_cast<double>(it - values.begin()), *it});
  }
  return points;
}

void draw_response(Svg& svg, const Box& box, const std::string& title, const std::vector<double>& values) {
  const double last = std::max(1.0, static_cast<double>(values.size()) - 1);
  Interval range = interval_of(values);
  range = {std::min(range.low, 0.0), std::max(range.high, 0.0)};
  Panel panel(svg, box, title, {{-0.02 * last, 1.02 * last}, "sample"}, {range, ""});
  const std::vector<Point> points = samples(values, box.width);
  static_cast<double>(values.size()) <= box.width / 6 ? panel.stems(points) : panel.curve(points);
  const auto huge = std::count_if(values.begin(), values.end(), [](double value) { return !is_drawable(value); });
  if (huge > 0) panel.footnote(fmt::format("{} samples beyond {:g} are not shown", huge, largest_drawn));
}

// A uniform grid, and more where a pole or a zero so close to the circle that the grid does not follow makes the curve
// turn.
std::vector<double> curve_angles(const PlotChannel& channel) {
  std::vector<double> angles;
  const std::size_t grid = std::max<std::size_t>(512, 4 * channel.order());
  const double step = pi / static_cast<double>(grid);
  for (std::size_t i = 0; i <= grid; ++i) angles.push_back(pi * static_cast<double>(i) / static_cast<double>(grid));
  for (const auto* roots : {&channel.poles, &channel.zeros})
    for (const std::complex<double> root : *roots) {
      const double width = std::abs(1 - std::abs(root));
      if (root.imag() < 0 || width > 8 * step) continue;
      for (const double offset : {-4.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 4.0})
        angles.push_back(std::clamp(std::arg(root) + offset * width, 0.0, pi));
    }
  std::sort(angles.begin(), angles.end());
  angles.erase(std::unique(angles.begin(), angles.end()), angles.end());
  return angles;
}

void draw_frequency_response(Svg& svg, const PlotChannel& channel) {
  const std::vector<double> angles = curve_angles(channel);
  const auto response = response_of(channel.filter, channel.cascade, angles);
  std::vector<double> decibels, phases;
  std::vector<Point> magnitude, phase;
  double before = 0;
  for (std::size_t i = 0; i < angles.size(); ++i) {
    decibels.push_back(20 * std::log10(std::abs(response[i])));
    magnitude.push_back({angles[i] / pi, decibels.back()});
    const bool defined = response[i] != 0.0 && std::isfinite(std::abs(response[i]));
    // The turn closest to the point before: an unwrapped phase.
    const double turned = defined ? std::arg(response[i]) / pi : std::nan("");
    if (defined) before = turned - 2 * std::round((turned - before) / 2);
    phases.push_back(defined ? before : turned);
    phase.push_back({angles[i] / pi, phases.back()});
  }
  // A zero on the circle goes down without end: 100 dB are shown.
  double top = -HUGE_VAL;
  for (const double value : decibels)
    if (std::isfinite(value)) top = std::max(top, value);
  for (double& value : decibels) value = std::max(value, top - 100);
  const Interval range = interval_of(decibels);
  Panel magnitudes(svg, magnitude_box, "Magnitude", {{0, 1}, "angle / \u03c0"}, {range, "dB"});
  magnitudes.curve(magnitude);
  Panel turns(svg, phase_box, "Phase", {{0, 1}, "angle / \u03c0"}, {interval_of(phases), "phase / \u03c0"});
  turns.curve(phase);
  // An empty panel says why it is empty.
  if (std::none_of(phases.begin(), phases.end(), [](double value) { return std::isfinite(value); }))
    for (Panel* panel : {&magnitudes, &turns}) panel->footnote("H is zero, or too large to evaluate, at every angle");
}

// Marks every root that is in the picture, with its multiplicity where several coincide; returns how many are not.
std::size_t draw_roots(Panel& panel, const std::vector<std::complex<double>>& roots, bool are_poles, double unit) {
  std::size_t outside = 0;
  // So small that many of them along the circle stay apart.
  const double size = std::clamp(marker_size * 64 / std::max(1.0, static_cast<double>(roots.size())), 1.2, marker_size);
  std::vector<bool> drawn(roots.size(), false);
  for (std::size_t i = 0; i < roots.size(); ++i) {
    if (drawn[i]) continue;
    if (!panel.contains(roots[i].real(), roots[i].imag())) {
      ++outside;
      continue;
    }
    std::size_t count = 1;
    for (std::size_t j = i + 1; j < roots.size(); ++j)
      if (!drawn[j] && std::abs(roots[j] - roots[i]) < 1e-6) {
        drawn[j] = true;
        ++count;
      }
    are_poles ? panel.cross(roots[i].real(), roots[i].imag(), size)
              : panel.ring(roots[i].real(), roots[i].imag(), size);
    if (count > 1)
      panel.note(roots[i].real() + 7 * unit, roots[i].imag() + (are_poles ? 6 : -14) * unit, fmt::format("{}", count),
                 Anchor::start);
  }
  return outside;
}

void draw_map(Svg& svg, const PlotChannel& channel) {
  double reach = 1.25;
  for (const auto* roots : {&channel.poles, &channel.zeros})
    for (const std::complex<double> root : *roots)
      if (std::abs(root) <= 2.5) reach = std::max(reach, 1.1 * std::abs(root));
  const Interval range{-reach, reach};
  Panel panel(svg, map_box, "Poles \u00d7 and zeros \u25cb", {range, "real part"}, {range, "imaginary part"});
  panel.unit_circle();
  const double unit = 2 * reach / map_box.width;
  const std::size_t outside =
      draw_roots(panel, channel.zeros, false, unit) + draw_roots(panel, channel.poles, true, unit);
  if (outside > 0) panel.footnote(fmt::format("{} more outside", outside));
}

// Order 2: both poles are inside the circle exactly inside the triangle, and complex above the parabola.
void draw_triangle(Svg& svg, const PlotChannel& channel) {
  const double a1 = channel.tf->a[0], a2 = channel.tf->a[1];
  // Far outside the triangle the picture would show nothing else.
  const double reach1 = std::clamp(1.1 * std::abs(a1), 2.3, 4.0), reach2 = std::clamp(1.1 * std::abs(a2), 1.3, 4.0);
  Panel panel(svg, last_box, "Stability triangle", {{-reach1, reach1}, "a\u2081"}, {{-reach2, reach2}, "a\u2082"});
  panel.area({{-2, 1}, {2, 1}, {0, -1}}, "region");
  panel.area({{-1, 0}, {0, 1}, {1, 0}, {0, -1}}, "inner");
  std::vector<Point> parabola;
  for (int i = -40; i <= 40; ++i) parabola.push_back({i / 20.0, (i / 20.0) * (i / 20.0) / 4});
  panel.curve(parabola, "border");
  panel.note(0, 0.62, "complex");
  panel.note(0, -0.42, "real");
  panel.note(0, 1.07, "stable inside |a\u2081| < 1 + a\u2082 < 2");
  panel.footnote("inner: |a\u2081| + |a\u2082| \u2264 1 (Montel)");
  if (panel.contains(a1, a2)) {
    panel.cross(a1, a2);
  } else {
    // Above the footnote, below the triangle.
    panel.note(0, -0.8 * reach2, fmt::format("the filter is at ({:.3g}, {:.3g})", a1, a2));
  }
}

void run(const PlotOptions& options) {
  check_result(options, options.output, "plot");
  if (std::filesystem::path(options.output).extension() != ".svg")
    throw Error(ErrorCode::argument, "plot",
                fmt::format("{} does not end in .svg, which is what a picture is written as", options.output));
  const RunnableFilter filter = read_runnable_filter(options.filter);
  const std::size_t channels = channels_of(filter);
  if (options.channel >= channels) {
    throw Error(ErrorCode::argument, "plot",
                fmt::format("channel {}; {} has channels 0 to {}", options.channel, options.filter, channels - 1));
  }
  const std::size_t order = order_of(filter);
  require_memory(static_cast<double>(order) * static_cast<double>(order) + static_cast<double>(options.length),
                 fmt::format("{}: a picture of order {} and {} samples", options.filter, order, options.length));
  if (!options.quiet && order >= slow_order)
    fmt::print(stderr, "rtf plot: a picture of order {} takes some seconds and more\n", order);
  const PlotChannel channel = examine(options.filter, filter, options.channel);
  const std::size_t length = options.length > 0 ? options.length : default_length(channel);

  std::string title = std::filesystem::path(options.filter).filename().string();
  if (channels > 1) title += fmt::format(", channel {}", options.channel);
  const std::string figures = figures_line(channel);
  Svg svg(picture_width, picture_height, fmt::format("{}: {}", title, figures));
  svg.text({kernel_box.left, 32}, title, "strong");
  svg.text({kernel_box.left, 54}, figures, "ink");
  const std::vector<double> kernel =
      naming(options.filter, [&] { return kernel_of(options.filter, channel.filter, length); });
  draw_response(svg, kernel_box, "Impulse response", kernel);
  draw_frequency_response(svg, channel);
  draw_map(svg, channel);
  if (channel.tf && channel.order() == 2) {
    draw_triangle(svg, channel);
  } else {
    draw_response(svg, last_box, "Step response", step_response(kernel, length));
  }
  StagedFile(options.output, svg.finish(), "plot").commit();
  say(options,
      fmt::format("{}: channel {} of {}, {} samples", options.output, options.channel, options.filter, length));
}

}  // namespace

void add_plot(CLI::App& app) {
  add_command<PlotOptions>(app, "plot", "Draw a channel: impulse and frequency response, poles and zeros",
                           "  echo '{\"a\": [-1.2, 0.81], \"b\": [1, 0], \"h0\": 0}' > resonator.json\n"
                           "  rtf plot resonator.json -o resonator.svg",
                           add_options, run);
}

}  // namespace rtf::cli
