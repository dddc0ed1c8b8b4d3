// rtf stabilize: a stable filter in place of one with poles outside the circle.
#include "rtf/stabilize.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "common.h"
#include "core/atomic_file.h"
#include "progress_executor.h"
#include "radius_text.h"
#include "rtf/stability.h"

namespace rtf::cli {
namespace {

constexpr std::size_t plain_length = 1000;
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
                plain_length));
  add_output(command, options.output, "filter file to write, JSON or .safetensors; a trained filter stays trained");
}

double radius(const Coefficients& c, std::size_t group) { return pole_radius({c.a.data() + group * c.order, c.order}); }

template <class Value>
void print_rows(const Value& before, const Stabilized<Value>& after) {
  fmt::print("{:>9} {:>14} {:>14} {:>14} {:>14}\n", "channel", "radius before", "radius after", "relative error",
             "of reflect");
  std::size_t group = before.groups;
  double old_radius = 0, new_radius = 0;
  for (std::size_t c = 0; c < before.channels; ++c) {
    if (before.group_of(c) != group) {
      group = before.group_of(c);
      old_radius = radius(before, group);
      new_radius = radius(after.value, group);
    }
    fmt::print("{:>9} {:>14} {:>14} {:>14.6e} {:>14.6e}\n", c, radius_text(old_radius), radius_text(new_radius),
               after.error[c], after.reflect_error[c]);
  }
}

template <class Value>
void finish(const StabilizeOptions& options, const Value& before, const Stabilized<Value>& after, std::size_t length) {
  write_filter(options.output, after.value);
  say(options, fmt::format("{}: {} channel{}, order {}, method {}, kernels compared over {} samples", options.output,
                           before.channels, before.channels == 1 ? "" : "s", before.order, options.method, length));
  if (!after.magnitude_change.empty()) {
    const auto worst = std::max_element(after.magnitude_change.begin(), after.magnitude_change.end());
    const std::string change = fmt::format("|H| changed by at most {:.3g} of itself, in channel {}", *worst,
                                           worst - after.magnitude_change.begin());
    say(options, change);
    if (*worst > tolerated_change)
      warn(options, "stabilize", change + ": doubles do not hold the mirrored poles well enough; try refit");
  }
  if (!options.quiet) print_rows(before, after);
}

void run(const StabilizeOptions& options) {
  static const std::map<std::string, StabilizeMethod> methods = {
      {"reflect", StabilizeMethod::reflect}, {"refit", StabilizeMethod::refit}, {"montel", StabilizeMethod::montel}};
  check_output(options.output, "stabilize");
  const StabilizeMethod method = methods.at(options.method);
  const AnyTransferFunction filter = read_filter(options.filter);
  const auto* trained = std::get_if<TrainedTransferFunction>(&filter);
  if (trained && options.length != 0 && options.length != trained->length)
    throw Error(ErrorCode::argument, "stabilize",
                fmt::format("{} is trained at length {}, so its kernel has no other; --length is {}", options.filter,
                            trained->length, options.length));
  const std::size_t length = trained ? trained->length : options.length == 0 ? plain_length : options.length;
  const Coefficients& c = coefficients(filter);
  const bool fits = method != StabilizeMethod::reflect && c.order < length;
  require_memory(
      static_cast<double>(length) * (static_cast<double>(c.channels) + (fits ? 2 * static_cast<double>(c.order) : 0)),
      fmt::format("{}: {} at length {}", options.filter, options.method, length));
  ProgressExecutor executor(default_executor(), options.quiet);
  if (trained) {
    finish(options, *trained, naming(options.filter, [&] { return stabilize(*trained, method, executor); }), length);
  } else {
    const auto& plain = std::get<TransferFunction>(filter);
    finish(options, plain, naming(options.filter, [&] { return stabilize(plain, method, length, executor); }), length);
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
