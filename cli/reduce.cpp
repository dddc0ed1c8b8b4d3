// rtf reduce: a filter of lower order, by balanced truncation.
#include "rtf/reduce.h"

#include <fmt/format.h>

#include <algorithm>

#include "common.h"
#include "core/atomic_file.h"
#include "core/runnable_filter.h"
#include "progress_executor.h"
#include "rtf/correction.h"

namespace rtf::cli {
namespace {

struct ReduceOptions : CommonOptions {
  std::size_t order = 0;
  std::string to = "tf", output;
};

void add_options(CLI::App& command, ReduceOptions& options) {
  add_count(command, "--order", options.order, "order of the new filter, from 0 on", 0)->required();
  command
      .add_option("--to", options.to,
                  "form to write: tf, or ss, a balanced state space of each channel, which holds what coefficients "
                  "cannot")
      ->type_name("FORM")
      ->capture_default_str()
      ->check(CLI::IsMember({"tf", "ss"}));
  add_output(command, options.output,
             "filter file to write, JSON, or .safetensors for the form tf; a trained filter stays trained in it");
}

// What one channel was reduced by.
struct Row {
  double error, bound, first, cut;  // first and cut are singular values
};

Row make_row(double error, double bound, const std::vector<double>& sigma, std::size_t order) {
  return {error, bound, sigma.empty() ? 0.0 : sigma.front(), sigma.size() > order ? sigma[order] : 0.0};
}

void print_rows(const std::vector<Row>& rows, std::size_t order) {
  fmt::print("{:>9} {:>16} {:>16} {:>14} {:>14}\n", "channel", "max |H - H'|", "its bound", "sigma_1",
             fmt::format("sigma_{}", order + 1));
  for (std::size_t c = 0; c < rows.size(); ++c)
    fmt::print("{:>9} {:>16.6e} {:>16.6e} {:>14.6e} {:>14.6e}\n", c, rows[c].error, rows[c].bound, rows[c].first,
               rows[c].cut);
}

// The bound is that of exact arithmetic; coefficients of clustered poles, rounded to doubles, may miss it by far, and
// balanced matrices of high order by some digits.
void warn_past_bound(const ReduceOptions& options, const std::vector<Row>& rows) {
  const auto past = [](const Row& row) { return row.error > row.bound + 1e-9 * row.first; };
  const auto first = std::find_if(rows.begin(), rows.end(), past);
  if (first == rows.end()) return;
  const char* reason = options.to == "ss"
                           ? "rounding of the balanced matrices costs more than what was cut, try a lower order"
                           : "doubles do not hold the new coefficients well enough, try another order or --to ss";
  warn(options, "reduce",
       fmt::format("{} of {} channels, channel {} first, differ by more than their bound: {:.3g} against {:.3g}; {}",
                   std::count_if(rows.begin(), rows.end(), past), rows.size(), first - rows.begin(), first->error,
                   first->bound, reason));
}

// The state spaces of a file: one a channel, or one of several inputs and outputs.
std::vector<StateSpace> read_systems(const std::string& path) {
  const AnyFilter filter = read_any_filter(path);
  if (const auto* system = std::get_if<StateSpace>(&filter)) return {*system};
  if (const auto* mimo = std::get_if<MimoTransferFunction>(&filter)) return {to_block_companion(*mimo)};
  std::vector<System> channels;
  if (const auto* systems = std::get_if<std::vector<System>>(&filter)) {
    channels = *systems;
  } else {
    const auto* trained = std::get_if<TrainedTransferFunction>(&filter);
    channels = split_channels(
        plain_filter(path, trained ? AnyTransferFunction(*trained) : std::get<TransferFunction>(filter)));
  }
  std::vector<StateSpace> result;
  for (std::size_t c = 0; c < channels.size(); ++c)
    result.push_back(naming(fmt::format("{}: channel {}", path, c), [&] { return realization(channels[c]); }));
  return result;
}

void check_memory(const ReduceOptions& options, std::size_t order) {
  require_memory(8 * static_cast<double>(order) * static_cast<double>(order),
                 fmt::format("{}: balanced truncation at order {}", options.filter, order));
}

void reduce_to_state_space(const ReduceOptions& options) {
  const std::vector<StateSpace> systems = read_systems(options.filter);
  ProgressExecutor executor(default_executor(), options.quiet);
  std::vector<Row> rows;
  std::vector<System> reduced;
  for (std::size_t c = 0; c < systems.size(); ++c) {
    check_memory(options, systems[c].order);
    naming(fmt::format("{}: channel {}", options.filter, c), [&] {
      const StateSpaceReduction one = reduce(systems[c], options.order);
      rows.push_back(
          make_row(largest_difference(systems[c], one.system, executor), one.bound, one.hankel, options.order));
      reduced.push_back(one.system);
    });
  }
  const bool siso = systems[0].inputs == 1 && systems[0].outputs == 1;
  write_any_filter(options.output, siso ? AnyFilter(reduced) : AnyFilter(std::get<StateSpace>(reduced[0])));
  say(options, fmt::format("{}: ss, {} {}{}, order {}", options.output, systems.size(), siso ? "channel" : "system",
                           systems.size() == 1 ? "" : "s", options.order));
  if (!options.quiet) print_rows(rows, options.order);
  warn_past_bound(options, rows);
}

// Channels of a form that is more than coefficients: what is cut off them, and what the new coefficients are compared
// with, is the form itself, which coefficients may not hold.
void reduce_forms(const ReduceOptions& options, const std::vector<System>& channels) {
  ProgressExecutor executor(default_executor(), options.quiet);
  std::vector<StateSpace> systems;
  std::size_t largest = 0;
  for (std::size_t c = 0; c < channels.size(); ++c) {
    const std::string name = fmt::format("{}: channel {}", options.filter, c);
    systems.push_back(naming(name, [&] { return realization(channels[c]); }));
    largest = std::max(largest, systems[c].order);
    check_memory(options, systems[c].order);
  }
  std::vector<Row> rows;
  std::vector<TransferFunction> reduced;
  for (std::size_t c = 0; c < channels.size(); ++c) {
    // One of a lower order than the others stays as it is.
    const std::size_t order = options.order > largest ? options.order : std::min(options.order, systems[c].order);
    const std::string name = fmt::format("{}: channel {}", options.filter, c);
    const StateSpaceReduction one = naming(name, [&] { return reduce(systems[c], order); });
    try {
      reduced.push_back(to_transfer_function(order == systems[c].order ? channels[c] : System(one.system)).value);
    } catch (const Error& error) {
      throw Error(
          error.code(), "command",
          fmt::format("{} as a transfer function: {}; --to ss needs no coefficients", name, without_operation(error)));
    }
    rows.push_back(naming(name, [&] {
      return make_row(largest_difference(channels[c], System(reduced[c]), executor), one.bound, one.hankel, order);
    }));
    TransferFunction& tf = reduced.back();
    tf.order = std::max(tf.order, options.order);
    tf.a.resize(tf.order);
    tf.b.resize(tf.order);
  }
  write_filter(options.output, join_channels(reduced));
  say(options, fmt::format("{}: plain filter, {} channel{}, order {} from {}", options.output, channels.size(),
                           channels.size() == 1 ? "" : "s", options.order, largest));
  if (!options.quiet) print_rows(rows, options.order);
  warn_past_bound(options, rows);
}

void reduce_coefficients(const ReduceOptions& options) {
  AnyFilter file = read_any_filter(options.filter);
  if (const auto* systems = std::get_if<std::vector<System>>(&file); systems && !is_ratio(systems->front()))
    return reduce_forms(options, *systems);
  const AnyTransferFunction filter = to_coefficients(std::move(file), options.filter);
  check_memory(options, coefficients(filter).order);
  ProgressExecutor executor(default_executor(), options.quiet);
  const auto* trained = std::get_if<TrainedTransferFunction>(&filter);
  const Reduction reduction = naming(options.filter, [&] {
    return reduce(trained ? correct(*trained) : std::get<TransferFunction>(filter), options.order, executor);
  });
  const TransferFunction& tf = reduction.tf;
  AnyTransferFunction result = tf;
  if (trained) result = naming(options.filter, [&] { return wrap(tf, trained->length); });
  write_filter(options.output, result);
  say(options,
      fmt::format("{}: {} filter, {} channel{}, order {} from {}", options.output, trained ? "trained" : "plain",
                  tf.channels, tf.channels == 1 ? "" : "s", options.order, coefficients(filter).order));
  std::vector<Row> rows;
  for (std::size_t c = 0; c < tf.channels; ++c) {
    const std::size_t g = tf.group_of(c);
    rows.push_back(make_row(reduction.error[c], reduction.bound[g], reduction.hankel[g], options.order));
  }
  if (!options.quiet) print_rows(rows, options.order);
  warn_past_bound(options, rows);
}

void run(const ReduceOptions& options) {
  check_output(options.output, "reduce");
  options.to == "ss" ? reduce_to_state_space(options) : reduce_coefficients(options);
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
