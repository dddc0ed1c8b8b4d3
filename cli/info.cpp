// rtf info: what a filter file holds and how well-behaved it is.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "common.h"
#include "core/printable.h"
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
  std::size_t channels = 0, groups = 0, order = 0, stable_groups = 0, points = default_points;
  bool has_coefficients = true;  // else what is said of them is left out
  Range radius, sum_abs_a, min_abs_denominator, condition, h0;
  double max_abs_b = 0;
};

// Poles are those of the channels' own form where that has them: `systems` is empty for coefficients alone.
Report examine(const Coefficients& c, std::size_t points, const std::vector<System>& systems) {
  Report report;
  report.channels = c.channels;
  report.groups = c.groups;
  report.order = c.order;
  report.points = points;
  for (std::size_t g = 0; g < c.groups; ++g) {
    const std::span<const double> a(c.a.data() + g * c.order, c.order);
    const System* system = systems.empty() ? nullptr : &systems[g * (c.channels / c.groups)];
    if (system ? is_stable(*system) : is_stable(a)) ++report.stable_groups;
    report.radius.add(system ? pole_radius(*system) : pole_radius(a));
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

Report examine(const std::vector<System>& systems) {
  Report report;
  report.channels = report.groups = systems.size();
  report.has_coefficients = false;
  for (const System& system : systems) {
    report.order = std::max(report.order, poles(system).size());
    report.stable_groups += is_stable(system);
    report.radius.add(pole_radius(system));
    report.h0.add(kernel(system, 1)[0]);
  }
  return report;
}

void print_table(const std::string& path, const TrainedTransferFunction* trained, const Report& r) {
  const bool stable = r.stable_groups == r.groups;
  const std::string over = fmt::format("{} {}", r.points, trained ? "(the trained length)" : "points");
  std::vector<std::pair<std::string, std::string>> rows = {
      {"channels", fmt::format("{}", r.channels)},
      {"groups", fmt::format("{}, channels in each: {}", r.groups, r.channels / r.groups)},
      {"order", fmt::format("{}", r.order)},
      {"numerator", trained ? fmt::format("trained at length {}", trained->length) : "plain"},
      {"stable", stable ? "yes" : fmt::format("NO, only {} of {} groups", r.stable_groups, r.groups)},
      {"pole radius", r.radius.text(radius_text)},
  };
  if (r.has_coefficients) {
    rows.insert(rows.end(),
                {{"sum |a|", r.sum_abs_a.text() + (r.sum_abs_a.max < 1 ? ", inside the Montel bound 1" : "")},
                 {"min |A| on the circle", fmt::format("{:.6g} over {}", r.min_abs_denominator.min, over)},
                 {"condition number", fmt::format("{:.6g} over {}", r.condition.max, over)},
                 {"largest |b|", fmt::format("{:.6g}", r.max_abs_b)}});
  } else {
    rows.emplace_back("coefficients", "doubles do not hold them");
  }
  rows.emplace_back("h0", r.h0.text());
  fmt::print("{}\n{}", printable(path, path.size()), table(rows));
}

void print_json(const TrainedTransferFunction* trained, const Report& r) {
  nlohmann::ordered_json json = {{"channels", r.channels}, {"groups", r.groups}, {"order", r.order}};
  const auto of_coefficients = [&](nlohmann::ordered_json value) {
    return r.has_coefficients ? std::move(value) : nlohmann::ordered_json(nullptr);
  };
  json["length"] = trained ? nlohmann::ordered_json(trained->length) : nlohmann::ordered_json(nullptr);
  json["stable"] = r.stable_groups == r.groups;
  json["stable_groups"] = r.stable_groups;
  json["pole_radius"] = r.radius.json();
  json["sum_abs_a"] = of_coefficients(r.sum_abs_a.json());
  json["points"] = r.points;
  json["min_abs_denominator"] = of_coefficients(r.min_abs_denominator.min);
  json["condition"] = of_coefficients(r.condition.max);  // null when it overflows, too
  json["max_abs_b"] = of_coefficients(r.max_abs_b);
  json["h0"] = r.h0.json();
  fmt::print("{}\n", json.dump(2));
}

// What is said of coefficients is left out where the poles or residues of the file have none that doubles hold.
Report examine_forms(const std::vector<System>& systems, const std::string& path) {
  if (is_ratio(systems.front())) return examine(coefficients(to_coefficients(systems, path)), default_points, {});
  std::optional<AnyTransferFunction> held;
  try {
    held = to_coefficients(systems, path);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported && error.code() != ErrorCode::unstable) throw;
  }
  return naming(path, [&] { return held ? examine(coefficients(*held), default_points, systems) : examine(systems); });
}

void run(const InfoOptions& options) {
  AnyFilter file = read_any_filter(options.filter);
  std::optional<Report> report;
  std::optional<AnyTransferFunction> filter;
  const TrainedTransferFunction* trained = nullptr;
  // Several inputs and outputs: a channel for each pair of them, all with one denominator.
  if (const auto* system = std::get_if<StateSpace>(&file))
    file = naming(options.filter, [&] { return to_mimo_transfer_function(*system).value; });
  if (const auto* mimo = std::get_if<MimoTransferFunction>(&file)) {
    TransferFunction pairs = make_coefficients(mimo->inputs * mimo->outputs, 1, mimo->order);
    pairs.a = mimo->a;
    pairs.b = mimo->b;
    pairs.h0 = mimo->h0;
    file = pairs;
  }
  if (const auto* systems = std::get_if<std::vector<System>>(&file)) {
    report = examine_forms(*systems, options.filter);
  } else {
    filter = to_coefficients(std::move(file), options.filter);
    trained = std::get_if<TrainedTransferFunction>(&*filter);
    const std::size_t points = trained ? trained->length : default_points;
    require_memory(static_cast<double>(points), fmt::format("{}: a circle of {} points", options.filter, points));
    report = examine(coefficients(*filter), points, {});
  }
  options.json ? print_json(trained, *report) : print_table(options.filter, trained, *report);
}

}  // namespace

void add_info(CLI::App& app) {
  add_command<InfoOptions>(app, "info", "Describe a filter file: sizes, stability, conditioning",
                           "  echo '{\"a\": [-1.2, 0.81], \"b\": [1, 0], \"h0\": 0}' > resonator.json\n"
                           "  rtf info resonator.json",
                           add_options, run);
}

}  // namespace rtf::cli
