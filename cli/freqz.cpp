// rtf freqz: the frequency response of every channel on a grid, and what the response is at most.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <optional>

#include "common.h"
#include "core/array_bytes.h"
#include "core/atomic_file.h"
#include "core/npy_bytes.h"
#include "core/runnable_filter.h"
#include "rtf/conversion.h"
#include "rtf/response.h"

namespace rtf::cli {
namespace {

struct FreqzOptions : CommonOptions {
  std::size_t points = 512;
  bool whole = false, json = false, norms = false;
  std::string output, group_delay;
};

void add_options(CLI::App& command, FreqzOptions& options) {
  add_count(command, "--points", options.points, "number of angles")->default_str("512");
  command.add_flag("--whole", options.whole, "angles 2 pi k / N around the circle, not pi k / N on its upper half");
  command.add_option("--group-delay", options.group_delay, "npy file for the group delay in samples, (channels, N)")
      ->type_name("FILE");
  command.add_flag(
      "--norms", options.norms,
      fmt::format("print the norms whatever the order: beyond {} they take long", largest_order_with_norms));
  command.add_flag("--json", options.json, "print the figures as JSON, Hankel singular values among them");
  add_output(command, options.output, "npy file for the response, complex128, shape (channels, N)");
}

constexpr Peak no_peak{NAN, NAN};

struct Figures {
  std::vector<bool> stable;
  std::vector<std::complex<double>> ends;  // H at 0 and at pi, channel by channel
  std::vector<double> h2;                  // nan where it was not found
  std::vector<Peak> peak;                  // no_peak where it was not searched for, or not found
  std::string failure;                     // why something was not found
};

// Coefficients of all channels at once, or channel by channel what holds it: coefficients, or else its factors.
struct Sources {
  std::optional<TransferFunction> tf;
  std::vector<System> channels;  // empty with the former

  Sources(const std::string& path, const RunnableFilter& filter) {
    const auto* systems = std::get_if<std::vector<System>>(&filter);
    if (!systems) tf = coefficients_of(path, filter);
    for (std::size_t c = 0; systems && c < systems->size(); ++c) {
      auto held = held_coefficients((*systems)[c]);
      channels.push_back(held ? System(*std::move(held)) : (*systems)[c]);
    }
  }
};

Figures figures_of(const RunnableFilter& filter, const Cascade& cascade, const Sources& sources, bool with_peak) {
  Figures figures{{}, response_of(filter, cascade, std::vector{0.0, std::numbers::pi}), {}, {}, {}};
  const auto unless_it_fails = [&](auto&& find) {
    try {
      find();
    } catch (const Error& error) {  // the response is there all the same
      figures.failure = without_operation(error);
    }
  };
  figures.h2.assign(cascade.channels(), NAN);
  figures.peak.assign(cascade.channels(), no_peak);
  if (sources.tf) {
    unless_it_fails([&] { figures.h2 = h2_norm(*sources.tf); });
    if (with_peak) unless_it_fails([&] { figures.peak = h_infinity_norm(*sources.tf); });
  }
  for (std::size_t c = 0; c < sources.channels.size(); ++c) {
    unless_it_fails([&] { figures.h2[c] = h2_norm(sources.channels[c]); });
    if (with_peak) unless_it_fails([&] { figures.peak[c] = h_infinity_norm(sources.channels[c]); });
  }
  for (std::size_t c = 0; c < cascade.channels(); ++c) figures.stable.push_back(is_stable(filter, cascade, c));
  return figures;
}

// H is real at 0 and pi. The sign of a nan says nothing.
std::string real_text(std::complex<double> value) {
  return std::isnan(value.real()) ? "nan" : fmt::format("{:.6g}", value.real());
}

void print_table(const Figures& figures) {
  fmt::print("{:>9} {:>7} {:>12} {:>12} {:>12} {:>9} {:>12}\n", "channel", "stable", "H at 0", "H at pi", "max |H|",
             "angle/pi", "H2 norm");
  for (std::size_t c = 0; c < figures.stable.size(); ++c) {
    const auto text = [](double value) { return std::isnan(value) ? "-" : fmt::format("{:.6g}", value); };
    const auto [value, angle] = figures.peak[c];
    const std::string peak = text(value), h2 = text(figures.h2[c]);
    const std::string place = std::isnan(angle) ? "-" : fmt::format("{:.6f}", angle / std::numbers::pi);
    fmt::print("{:>9} {:>7} {:>12} {:>12} {:>12} {:>9} {:>12}\n", c, figures.stable[c] ? "yes" : "NO",
               real_text(figures.ends[2 * c]), real_text(figures.ends[2 * c + 1]), peak, place, h2);
  }
}

// None where they do not exist in doubles, as of poles that only just do not lie on the circle.
nlohmann::ordered_json hankel_values(const System& channel) {
  try {
    return hankel_singular_values(channel);
  } catch (const Error&) {
    return nullptr;
  }
}

// Numbers that are not finite become null.
void print_json(const Sources& sources, const Figures& figures) {
  nlohmann::ordered_json channels = nlohmann::ordered_json::array();
  for (std::size_t c = 0; c < figures.stable.size(); ++c) {
    nlohmann::ordered_json hankel;
    if (figures.stable[c])
      hankel = hankel_values(sources.tf ? System(select_channel(*sources.tf, c)) : sources.channels[c]);
    const Peak& peak = figures.peak[c];
    channels.push_back({{"stable", static_cast<bool>(figures.stable[c])},
                        {"at_0", figures.ends[2 * c].real()},
                        {"at_pi", figures.ends[2 * c + 1].real()},
                        {"h_infinity_norm", peak.value},
                        {"h_infinity_angle", peak.angle},
                        {"h2_norm", figures.h2[c]},
                        {"hankel_singular_values", std::move(hankel)}});
  }
  fmt::print("{}\n", nlohmann::ordered_json{{"channels", std::move(channels)}}.dump());
}

void run(const FreqzOptions& options) {
  check_result(options, options.output, "freqz");
  if (!options.group_delay.empty()) {
    check_result(options, options.group_delay, "freqz");
    require_two_files(options.output, options.group_delay, "the response and the group delay");
  }
  const RunnableFilter filter = read_runnable_filter(options.filter);
  const Cascade cascade = cascade_of(options.filter, filter);
  const std::size_t channels = cascade.channels();
  require_memory(2 * static_cast<double>(channels) * static_cast<double>(options.points),
                 fmt::format("{}: a response of {} channels at {} points", options.filter, channels, options.points));

  const std::vector<double> angles = angle_grid(options.points, options.whole);
  const std::vector<std::size_t> shape = {channels, options.points};
  // All that can fail comes before the first file gets its name.
  std::optional<StagedFile> delay;
  if (!options.group_delay.empty())
    delay.emplace(options.group_delay,
                  npy_bytes(Array{shape, group_delay_of(filter, cascade, angles)}, options.group_delay), "freqz");
  StagedFile response(options.output,
                      npy_bytes(ComplexArray{shape, response_of(filter, cascade, angles)}, options.output), "freqz");
  std::optional<Figures> figures;
  std::optional<Sources> sources;
  const bool with_peak = options.json || options.norms || cascade.order() <= largest_order_with_norms;
  if (options.json || !options.quiet) {
    sources.emplace(options.filter, filter);
    figures = figures_of(filter, cascade, *sources, with_peak);
  }
  response.commit();
  if (delay) delay->commit();
  if (options.json) return print_json(*sources, *figures);
  if (options.quiet) return;
  say(options, fmt::format("{}: response {}, c128, angles {}pi k / {}", options.output, shape_text(shape),
                           options.whole ? "2 " : "", options.points));
  print_table(*figures);
  if (!with_peak) {
    fmt::print("max |H| is left out beyond order {}, where the search takes long; --norms prints it\n",
               largest_order_with_norms);
  } else if (!figures->failure.empty()) {
    fmt::print("norms are left out: {}\n", figures->failure);
  }
}

}  // namespace

void add_freqz(CLI::App& app) {
  add_command<FreqzOptions>(app, "freqz", "Write the frequency response of every channel, and print its norms",
                            "  echo '{\"a\": [-1.2, 0.81], \"b\": [1, 0], \"h0\": 0}' > resonator.json\n"
                            "  rtf freqz resonator.json -o h.npy --points 1024",
                            add_options, run);
}

}  // namespace rtf::cli
