// rtf stabilize: a stable filter in place of one with poles outside the circle.
#include "rtf/stabilize.h"

#include <fmt/format.h>

#include <algorithm>

#include "common.h"
#include "core/atomic_file.h"
#include "core/option_names.h"
#include "progress_executor.h"
#include "radius_text.h"
#include "rtf/stability.h"

namespace rtf::cli {
namespace {

constexpr double tolerated_change = 1e-6;  // of |H|, by reflect, which is to keep it

struct StabilizeOptions : CommonOptions {
  std::string method, output;
  std::size_t length = 0;
};

void add_options(CLI::App& command, StabilizeOptions& options) {
  command
      .add_option("--method", options.method,
                  "reflect keeps |H|; refit fits stable poles to the kernel; montel scales a to sum |a| <= 0.999")
      ->required()
      ->type_name("METHOD")
      ->check(CLI::IsMember({"reflect", "refit", "montel"}));
  add_count(command, "--length", options.length,
            fmt::format(
                "samples of the kernel to fit and compare (default: {} for a plain filter; a trained one has its own)",
                usual_kernel_length));
  add_output(
      command, options.output,
      "filter file to write, JSON or .safetensors; a trained filter stays trained, and in JSON reflect keeps the "
      "forms zpk (with h0 = 0) and sos");
}

double radius(const Coefficients& c, std::size_t group) { return pole_radius({c.a.data() + group * c.order, c.order}); }

struct Radii {
  double before, after;
};

template <class Value>
std::vector<Radii> radii_of(const Value& before, const Value& after) {
  std::vector<Radii> rows;
  for (std::size_t c = 0; c < before.channels; ++c) {
    const std::size_t group = before.group_of(c);
    const bool known = c > 0 && before.group_of(c - 1) == group;
    rows.push_back(known ? rows.back() : Radii{radius(before, group), radius(after, group)});
  }
  return rows;
}

std::vector<Radii> radii_of(const std::vector<System>& before, const std::vector<System>& after) {
  std::vector<Radii> rows;
  for (std::size_t c = 0; c < before.size(); ++c) rows.push_back({pole_radius(before[c]), pole_radius(after[c])});
  return rows;
}

template <class Value>
void finish(const StabilizeOptions& options, const Value& before, const Stabilized<Value>& after,
            const std::string& sizes, std::size_t length) {
  const std::size_t channels = after.error.size();
  say(options, fmt::format("{}: {} channel{}, {}, method {}, kernels compared over {} samples", options.output,
                           channels, channels == 1 ? "" : "s", sizes, options.method, length));
  if (!after.magnitude_change.empty()) {
    const auto worst = std::max_element(after.magnitude_change.begin(), after.magnitude_change.end());
    const std::string change = fmt::format(
        "|H| changed by at most {:.3g} of itself on {} frequencies, where it is above {:.0e} of its largest value, in "
        "channel {}",
        *worst, magnitude_points, magnitude_floor, worst - after.magnitude_change.begin());
    say(options, change);
    if (*worst > tolerated_change)
      warn(options, "stabilize", change + ": doubles do not hold the mirrored poles well enough; try refit");
  }
  if (options.quiet) return;
  fmt::print("{:>9} {:>14} {:>14} {:>14} {:>14}\n", "channel", "radius before", "radius after", "relative error",
             "of reflect");
  const std::vector<Radii> radii = radii_of(before, after.value);
  for (std::size_t c = 0; c < channels; ++c)
    fmt::print("{:>9} {:>14} {:>14} {:>14.6e} {:>14.6e}\n", c, radius_text(radii[c].before),
               radius_text(radii[c].after), after.error[c], after.reflect_error[c]);
}

void reflect_factors(const StabilizeOptions& options, const std::vector<System>& systems) {
  const std::size_t length = options.length == 0 ? usual_kernel_length : options.length;
  require_memory(static_cast<double>(length), fmt::format("{}: reflect at length {}", options.filter, length));
  const auto after = naming(options.filter, [&] { return reflect(systems, length); });
  write_any_filter(options.output, after.value);
  finish(options, systems, after, fmt::format("form {}", form_name(systems.front())), length);
}

void run(const StabilizeOptions& options) {
  check_output(options.output, "stabilize");
  const StabilizeMethod method = option_value("stabilize", "--method", stabilize_methods, options.method);
  AnyFilter file = read_any_filter(options.filter);
  const auto* systems = std::get_if<std::vector<System>>(&file);
  const bool factors = systems && std::all_of(systems->begin(), systems->end(), has_own_poles);
  if (factors && method == StabilizeMethod::reflect && !options.output.ends_with(".safetensors"))
    return reflect_factors(options, *systems);
  const bool done = factors && method == StabilizeMethod::refit &&
                    std::all_of(systems->begin(), systems->end(), [](const System& s) { return is_stable(s); });
  const AnyTransferFunction filter =
      coefficients_or_hint(std::move(file), options.filter,
                           done      ? "its own poles are all inside the circle already"
                           : factors ? "--method reflect to a JSON file needs no coefficients"
                                     : "");
  const auto* trained = std::get_if<TrainedTransferFunction>(&filter);
  if (trained && options.length != 0 && options.length != trained->length)
    throw Error(ErrorCode::argument, "stabilize",
                fmt::format("{} is trained at length {}, so its kernel has no other; --length is {}", options.filter,
                            trained->length, options.length));
  const std::size_t length = trained ? trained->length : options.length == 0 ? usual_kernel_length : options.length;
  const Coefficients& c = coefficients(filter);
  const bool fits = method != StabilizeMethod::reflect && c.order < length;
  require_memory(
      static_cast<double>(length) * (static_cast<double>(c.channels) + (fits ? 2 * static_cast<double>(c.order) : 0)),
      fmt::format("{}: {} at length {}", options.filter, options.method, length));
  ProgressExecutor executor(default_executor(), options.quiet);
  const auto write_and_finish = [&](const auto& before, const auto& after) {
    write_filter(options.output, after.value);
    finish(options, before, after, fmt::format("order {}", before.order), length);
  };
  if (trained) {
    write_and_finish(*trained, naming(options.filter, [&] { return stabilize(*trained, method, executor); }));
  } else {
    const auto& plain = std::get<TransferFunction>(filter);
    write_and_finish(plain, naming(options.filter, [&] { return stabilize(plain, method, length, executor); }));
  }
}

}  // namespace

void add_stabilize(CLI::App& app) {
  add_command<StabilizeOptions>(
      app, "stabilize", "Replace unstable denominators by stable ones, and say what that costs the kernel",
      "  echo '{\"a\": [-1.9, 1.02], \"b\": [1, 0], \"h0\": 0, \"length\": 64}' > trained.json\n"
      "  rtf stabilize trained.json --method refit -o stable.json",
      add_options, run);
}

}  // namespace rtf::cli
