// rtf fit: a filter from samples of its kernel.
#include "rtf/fit.h"

#include <fmt/format.h>

#include <cmath>

#include "common.h"
#include "core/array_bytes.h"
#include "core/atomic_file.h"
#include "core/option_names.h"
#include "progress_executor.h"
#include "radius_text.h"

namespace rtf::cli {
namespace {

struct KernelFitOptions : CommonOptions {
  std::size_t order = 0;
  std::string method = "iterative", to = "tf", output;
  bool shared = false;
};

void add_options(CLI::App& command, KernelFitOptions& options) {
  add_count(command, "--order", options.order, "order of the filter, from 0 on", 0)->required();
  command
      .add_option("--method", options.method,
                  "hankel is balanced truncation, prony linear prediction; iterative improves the better of both")
      ->type_name("METHOD")
      ->capture_default_str()
      ->check(CLI::IsMember({"hankel", "prony", "iterative"}));
  command.add_flag("--shared", options.shared, "one denominator for all channels");
  command
      .add_option("--to", options.to,
                  "form to write: tf, or with --method hankel ss, a balanced state space of each channel, which holds "
                  "what coefficients cannot")
      ->type_name("FORM")
      ->capture_default_str()
      ->check(CLI::IsMember({"tf", "ss"}));
  add_output(command, options.output, "filter file to write, JSON, or .safetensors for the form tf");
}

[[noreturn]] void fail(const std::string& message) { throw Error(ErrorCode::argument, "fit", message); }

Array read_kernel(const std::string& path) {
  Array kernel = read_npy(path);
  if (kernel.shape.size() != 1 && kernel.shape.size() != 2)
    fail(fmt::format("{} has shape {}, expected (length) or (channels, length)", path, shape_text(kernel.shape)));
  if (kernel.values.empty()) fail(fmt::format("{} has shape {}: nothing to fit", path, shape_text(kernel.shape)));
  for (std::size_t i = 0; i < kernel.values.size(); ++i)
    if (!std::isfinite(kernel.values[i]))
      fail(fmt::format("{} holds {} at flat index {}, expected finite samples", path, kernel.values[i], i));
  return kernel;
}

struct Row {
  double error, radius;
};

// Singular values, order + 1 of each group of channels or none, stand beside its first channel.
void print_rows(const std::vector<Row>& rows, const std::vector<std::vector<double>>& hankel, std::size_t order) {
  const bool any = std::any_of(hankel.begin(), hankel.end(), [](const auto& row) { return !row.empty(); });
  const std::size_t members = rows.size() / hankel.size();
  if (any && members > 1) fmt::print("sigma: of the kernels divided by their norms, all of them together\n");
  fmt::print("{:>9} {:>14} {:>12} {:>6}", "channel", "relative error", "pole radius", "stable");
  if (any) fmt::print(" {:>14} {:>14}", "sigma_1", fmt::format("sigma_{}", order + 1));
  fmt::print("\n");
  for (std::size_t c = 0; c < rows.size(); ++c) {
    const std::vector<double>& sigma = hankel[c / members];
    fmt::print("{:>9} {:>14.6e} {:>12} {:>6}", c, rows[c].error, radius_text(rows[c].radius),
               rows[c].radius < 1 ? "yes" : "NO");
    if (!sigma.empty() && c % members == 0)
      fmt::print(" {:>14.6e} {:>14.6e}", sigma.front(), sigma.size() > order ? sigma[order] : 0.0);
    fmt::print("\n");
  }
}

void run(const KernelFitOptions& options) {
  check_result(options, options.output, "fit");
  const Array kernel = read_kernel(options.filter);
  const std::size_t channels = kernel.shape.size() == 1 ? 1 : kernel.shape[0], length = kernel.shape.back();
  const auto order = static_cast<double>(options.order);
  // Coefficients; and of the least squares, unless the numerator alone does it, two matrices a worker.
  require_memory(2 * static_cast<double>(channels) * order +
                     (options.order + 1 < length ? 2 * order * static_cast<double>(length) : 0),
                 fmt::format("{}: a fit of order {}", options.filter, options.order));
  ProgressExecutor executor(default_executor(), options.quiet);
  const FitOptions how{options.order, option_value("fit", "--method", fit_methods, options.method),
                       options.shared ? std::size_t{1} : 0};
  std::vector<Row> rows;
  std::vector<std::vector<double>> hankel;
  if (options.to == "ss") {
    StateSpaceFit result =
        naming(options.filter, [&] { return fit_state_space(kernel.values, channels, length, how, executor); });
    for (std::size_t c = 0; c < channels; ++c) rows.push_back({result.error[c], result.radius[c]});
    hankel = std::move(result.hankel);
    write_any_filter(options.output, std::vector<System>(result.systems.begin(), result.systems.end()));
  } else {
    Fit result = naming(options.filter, [&] { return fit(kernel.values, channels, length, how, executor); });
    for (std::size_t c = 0; c < channels; ++c) rows.push_back({result.error[c], result.radius[result.tf.group_of(c)]});
    hankel = std::move(result.hankel);
    write_filter(options.output, result.tf);
  }
  say(options, fmt::format("{}: {}, {} channel{}, order {}, method {}, fitted to {} samples", options.output,
                           options.to == "ss" ? "ss" : "plain filter", channels, channels == 1 ? "" : "s",
                           options.order, options.method, length));
  if (!options.quiet) print_rows(rows, hankel, options.order);
}

}  // namespace

void add_fit(CLI::App& app) {
  auto options = std::make_shared<KernelFitOptions>();
  CLI::App& command = *app.add_subcommand("fit", "Find a stable filter of a given order for samples of a kernel");
  add_common(command, *options,
             "  echo '{\"a\": [-1.2, 0.81], \"b\": [1, 0.5], \"h0\": 0}' > resonator.json\n"
             "  rtf kernel resonator.json --length 100 -o k.npy\n"
             "  rtf fit k.npy --order 2 -o fitted.json",
             "KERNEL", "npy file of the samples, shape (length) or (channels, length)");
  add_options(command, *options);
  command.callback([options] { run(*options); });
}

}  // namespace rtf::cli
