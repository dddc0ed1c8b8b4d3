// rtf poles: where the poles of every denominator are.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "common.h"
#include "radius_text.h"
#include "rtf/stability.h"

namespace rtf::cli {
namespace {

struct PolesOptions : CommonOptions {
  bool json = false;
};

void add_options(CLI::App& command, PolesOptions& options) {
  command.add_flag("--json", options.json,
                   "print {\"groups\": [{\"radius\": .., \"stable\": .., \"poles\": [[re, im], ..]}, ..]}");
}

struct Group {
  std::vector<std::complex<double>> poles;
  double radius;
  bool stable;
};

// Every channel of a form that is not coefficients has its own poles, whether or not doubles hold those.
std::vector<Group> groups_of(const std::string& path) {
  AnyFilter file = read_any_filter(path);
  std::vector<Group> groups;
  if (const auto* systems = std::get_if<std::vector<System>>(&file); systems && !is_ratio(systems->front())) {
    for (const System& system : *systems)
      groups.push_back(naming(path, [&] { return Group{poles(system), pole_radius(system), is_stable(system)}; }));
    return groups;
  }
  const AnyTransferFunction filter = to_coefficients(std::move(file), path);
  const Coefficients& c = coefficients(filter);
  require_memory(static_cast<double>(c.order) * static_cast<double>(c.order),
                 fmt::format("{}: eigenvalues at order {}", path, c.order));
  for (std::size_t g = 0; g < c.groups; ++g) {
    const std::span<const double> a(c.a.data() + g * c.order, c.order);
    groups.push_back({poles(a), pole_radius(a), is_stable(a)});
  }
  return groups;
}

void run(const PolesOptions& options) {
  nlohmann::ordered_json groups = nlohmann::ordered_json::array();
  std::size_t g = 0;
  for (const auto& [roots, radius, stable] : groups_of(options.filter)) {
    if (options.json) {
      auto list = nlohmann::ordered_json::array();
      for (const auto& pole : roots) list.push_back({pole.real(), pole.imag()});
      groups.push_back({{"radius", radius}, {"stable", stable}, {"poles", std::move(list)}});
      continue;
    }
    fmt::print("group {}: radius {}, {}, {} pole{}\n", g++, radius_text(radius), stable ? "stable" : "NOT stable",
               roots.size(), roots.size() == 1 ? "" : "s");
    if (!roots.empty()) fmt::print("{:>20} {:>12} {:>20} {:>20}\n", "modulus", "angle/pi", "real", "imaginary");
    for (const auto& pole : roots) {
      fmt::print("{:>20.12f} {:>12.8f} {:>20.12f} {:>20.12f}\n", std::abs(pole), std::arg(pole) / std::numbers::pi,
                 pole.real(), pole.imag());
    }
  }
  if (options.json) fmt::print("{}\n", nlohmann::ordered_json{{"groups", std::move(groups)}}.dump());
}

}  // namespace

void add_poles(CLI::App& app) {
  add_command<PolesOptions>(app, "poles", "List the poles of every denominator, largest modulus first",
                            "  echo '{\"a\": [-1.2, 0.81], \"b\": [1, 0], \"h0\": 0}' > resonator.json\n"
                            "  rtf poles resonator.json",
                            add_options, run);
}

}  // namespace rtf::cli
