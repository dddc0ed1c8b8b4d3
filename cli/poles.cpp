// rtf poles: where the poles of every denominator are.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "common.h"
#include "core/pole_groups.h"
#include "radius_text.h"

namespace rtf::cli {
namespace {

struct PolesOptions : CommonOptions {
  bool json = false;
};

void add_options(CLI::App& command, PolesOptions& options) {
  command.add_flag("--json", options.json,
                   "print {\"groups\": [{\"radius\": .., \"stable\": .., \"poles\": [[re, im], ..]}, ..]}");
}

// What is too large for decimals is not written out in them.
std::string place(double x) { return std::abs(x) < 1e6 ? fmt::format("{:.12f}", x) : fmt::format("{:.12e}", x); }

void run(const PolesOptions& options) {
  nlohmann::ordered_json groups = nlohmann::ordered_json::array();
  std::size_t g = 0;
  for (const auto& [roots, radius, stable] : pole_groups(options.filter, read_any_filter(options.filter))) {
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
