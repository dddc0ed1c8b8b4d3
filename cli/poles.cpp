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

Group group_of(std::span<const double> a) {
  TransferFunction tf = make_coefficients(1, 1, a.size());
  tf.a.assign(a.begin(), a.end());
  return {poles(System(tf)), pole_radius(a), is_stable(a)};
}

// What is too large for decimals is not written out in them.
std::string place(double x) { return std::abs(x) < 1e6 ? fmt::format("{:.12f}", x) : fmt::format("{:.12e}", x); }

// Every channel of a form that is not coefficients has its own poles, whether or not doubles hold those.
std::vector<Group> groups_of(const std::string& path) {
  AnyFilter file = read_any_filter(path);
  // Several inputs and outputs have one denominator.
  if (const auto* mimo = std::get_if<MimoTransferFunction>(&file)) return {group_of(mimo->a)};
  if (const auto* matrices = std::get_if<StateSpace>(&file)) {
    StateSpace system = *matrices;
    system.inputs = system.outputs = 1;  // whatever goes in and comes out, the poles are those of A
    system.B.assign(system.order, 1.0);
    system.C = system.B;
    system.D = {0.0};
    return {naming(path, [&] {
      return Group{poles(System(system)), pole_radius(System(system)), is_stable(System(system))};
    })};
  }
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
    groups.push_back(group_of(a));
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
      fmt::print("{:>20} {:>12.8f} {:>20} {:>20}\n", place(std::abs(pole)), std::arg(pole) / std::numbers::pi,
                 place(pole.real()), place(pole.imag()));
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
