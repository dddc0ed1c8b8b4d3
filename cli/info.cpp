// rtf info: what a filter file holds and how well-behaved it is.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "common.h"
#include "radius_text.h"
#include "rtf/stability.h"

namespace rtf::cli {
namespace {

constexpr std::size_t default_points = 4096;  // for a plain filter, which has no length of its own

struct InfoOptions : CommonOptions {
  bool json = false;
};

void add_options(CLI::App& command, InfoOptions& options) {
  command.add_flag("--json", options.json, "print the figures as JSON");
}

std::string six_digits(double value) { return fmt::format("{:.6g}", value); }

struct Range {
  double min = std::numeric_limits<double>::infinity(), max = -std::numeric_limits<double>::infinity();

  void add(double value) {
    min = std::min(min, value);
    max = std::max(max, value);
  }
  std::string text(std::string (*format)(double) = six_digits) const {
    return min == max ? format(min) : fmt::format("{} to {}", format(min), format(max));
  }
  nlohmann::ordered_json json() const { return {{"min", min}, {"max", max}}; }
};

struct Report {
  std::size_t stable_groups = 0, points = default_points;
  Range radius, sum_abs_a, min_abs_denominator, condition, h0;
  double max_abs_b = 0;
};

Report examine(const Coefficients& c, std::size_t points) {
  Report report;
  report.points = points;
  for (std::size_t g = 0; g < c.groups; ++g) {
    const std::span<const double> a(c.a.data() + g * c.order, c.order);
    if (is_stable(a)) ++report.stable_groups;
    report.radius.add(pole_radius(a));
    report.min_abs_denominator.add(min_abs_denominator(a, points));
    report.condition.add(condition(a, points));
    double sum = 0;
    for (const double value : a) sum += std::abs(value);
    report.sum_abs_a.add(sum);
  }
  for (const double value : c.b) report.max_abs_b = std::max(report.max_abs_b, std::abs(value));
  for (const double value : c.h0) report.h0.add(value);
  return report;
}

void print_table(const std::string& path, const Coefficients& c, const TrainedTransferFunction* trained,
                 const Report& r) {
  const bool stable = r.stable_groups == c.groups;
  const std::string over = fmt::format("{} {}", r.points, trained ? "(the trained length)" : "points");
  fmt::print("{}\n", path);
  fmt::print("{}", table({
                       {"channels", fmt::format("{}", c.channels)},
                       {"groups", fmt::format("{}, channels in each: {}", c.groups, c.channels / c.groups)},
                       {"order", fmt::format("{}", c.order)},
                       {"numerator", trained ? fmt::format("trained at length {}", trained->length) : "plain"},
                       {"stable", stable ? "yes" : fmt::format("NO, only {} of {} groups", r.stable_groups, c.groups)},
                       {"pole radius", r.radius.text(radius_text)},
                       {"sum |a|", r.sum_abs_a.text() + (r.sum_abs_a.max < 1 ? ", inside the Montel bound 1" : "")},
                       {"min |A| on the circle", fmt::format("{:.6g} over {}", r.min_abs_denominator.min, over)},
                       {"condition number", fmt::format("{:.6g} over {}", r.condition.max, over)},
                       {"largest |b|", fmt::format("{:.6g}", r.max_abs_b)},
                       {"h0", r.h0.text()},
                   }));
}

void print_json(const Coefficients& c, const TrainedTransferFunction* trained, const Report& r) {
  nlohmann::ordered_json json = {{"channels", c.channels}, {"groups", c.groups}, {"order", c.order}};
  json["length"] = trained ? nlohmann::ordered_json(trained->length) : nlohmann::ordered_json(nullptr);
  json["stable"] = r.stable_groups == c.groups;
  json["stable_groups"] = r.stable_groups;
  json["pole_radius"] = r.radius.json();
  json["sum_abs_a"] = r.sum_abs_a.json();
  json["points"] = r.points;
  json["min_abs_denominator"] = r.min_abs_denominator.min;
  json["condition"] = r.condition.max;  // null when it overflows
  json["max_abs_b"] = r.max_abs_b;
  json["h0"] = r.h0.json();
  fmt::print("{}\n", json.dump(2));
}

void run(const InfoOptions& options) {
  const AnyTransferFunction filter = read_filter(options.filter);
  const Coefficients& c = coefficients(filter);
  const auto* trained = std::get_if<TrainedTransferFunction>(&filter);
  const std::size_t points = trained ? trained->length : default_points;
  require_memory(static_cast<double>(points), fmt::format("{}: a circle of {} points", options.filter, points));
  const Report report = examine(c, points);
  if (options.json) {
    print_json(c, trained, report);
  } else {
    print_table(options.filter, c, trained, report);
  }
}

}  // namespace

void add_info(CLI::App& app) {
  add_command<InfoOptions>(app, "info", "Describe a filter file: sizes, stability, conditioning",
                           "  echo '{\"a\": [-1.2, 0.81], \"b\": [1, 0], \"h0\": 0}' > resonator.json\n"
                           "  rtf info resonator.json",
                           add_options, run);
}

}  // namespace rtf::cli
