// rtf reduce: a filter of lower order, by balanced truncation.
#include "rtf/reduce.h"

#include <fmt/format.h>

#include "common.h"
#include "core/atomic_file.h"
#include "progress_executor.h"
#include "rtf/correction.h"

namespace rtf::cli {
namespace {

struct ReduceOptions : CommonOptions {
  std::size_t order = 0;
  std::string output;
};

void add_options(CLI::App& command, ReduceOptions& options) {
  add_count(command, "--order", options.order, "order of the new filter, from 0 on", 0)->required();
  add_output(command, options.output, "filter file to write, JSON or .safetensors; a trained filter stays trained");
}

void print_rows(const Reduction& reduction) {
  const TransferFunction& tf = reduction.tf;
  fmt::print("{:>9} {:>16} {:>16} {:>14} {:>14}\n", "channel", "max |H - H'|", "its bound", "sigma_1",
             fmt::format("sigma_{}", tf.order + 1));
  for (std::size_t c = 0; c < tf.channels; ++c) {
    const std::size_t g = tf.group_of(c);
    const std::vector<double>& sigma = reduction.hankel[g];
    fmt::print("{:>9} {:>16.6e} {:>16.6e} {:>14.6e} {:>14.6e}\n", c, reduction.error[c], reduction.bound[g],
               sigma.empty() ? 0.0 : sigma.front(), sigma.size() > tf.order ? sigma[tf.order] : 0.0);
  }
}

// The bound is that of exact arithmetic; coefficients of clustered poles, rounded to doubles, may miss it by far.
void warn_past_bound(const ReduceOptions& options, const Reduction& reduction) {
  const TransferFunction& tf = reduction.tf;
  std::size_t past = 0, first = 0;
  for (std::size_t c = tf.channels; c-- > 0;) {
    const std::size_t g = tf.group_of(c);
    const double rounding = reduction.hankel[g].empty() ? 0 : 1e-9 * reduction.hankel[g].front();
    if (reduction.error[c] <= reduction.bound[g] + rounding) continue;
    ++past;
    first = c;
  }
  if (past == 0) return;
  warn(options, "reduce",
       fmt::format("{} of {} channels, channel {} first, differ by more than their bound: {:.3g} against {:.3g}; "
                   "doubles do not hold the new coefficients well enough, try another order",
                   past, tf.channels, first, reduction.error[first], reduction.bound[tf.group_of(first)]));
}

void run(const ReduceOptions& options) {
  check_output(options.output, "reduce");
  const AnyTransferFunction filter = read_filter(options.filter);
  const auto order = static_cast<double>(coefficients(filter).order);
  require_memory(8 * order * order, fmt::format("{}: balanced truncation at order {:.0f}", options.filter, order));
  ProgressExecutor executor(default_executor(), options.quiet);
  const auto* trained = std::get_if<TrainedTransferFunction>(&filter);
  const Reduction reduction = naming(options.filter, [&] {
    return reduce(trained ? correct(*trained) : std::get<TransferFunction>(filter), options.order, executor);
  });
  AnyTransferFunction result = reduction.tf;
  if (trained) result = naming(options.filter, [&] { return wrap(reduction.tf, trained->length); });
  write_filter(options.output, result);
  say(options, fmt::format("{}: {} filter, {} channel{}, order {} from {}", options.output,
                           trained ? "trained" : "plain", reduction.tf.channels, reduction.tf.channels == 1 ? "" : "s",
                           options.order, coefficients(filter).order));
  if (!options.quiet) print_rows(reduction);
  warn_past_bound(options, reduction);
}

}  // namespace

void add_reduce(CLI::App& app) {
  add_command<ReduceOptions>(app, "reduce",
                             "Lower the order of a stable filter by balanced truncation, and say what that costs",
                             "  echo '{\"a\": [-1.3, 0.8, -0.2], \"b\": [1, 0.5, 0.1], \"h0\": 0}' > third.json\n"
                             "  rtf reduce third.json --order 2 -o second.json",
                             add_options, run);
}

}  // namespace rtf::cli
