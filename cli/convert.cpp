// rtf convert: a filter from one form to another, and what that cost.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "common.h"
#include "core/atomic_file.h"
#include "rtf/conversion.h"
#include "rtf/correction.h"
#include "rtf/executor.h"

namespace rtf::cli {
namespace {

constexpr double few_digits = 1e-3;  // the error from which on a warning is due

struct ConvertOptions : CommonOptions {
  std::string to, feed_through = "auto", method = "auto", output;
  std::size_t report_length = ConversionOptions().report_length;
  bool json = false;
};

void add_options(CLI::App& command, ConvertOptions& options) {
  command.add_option("--to", options.to, "form to write: tf, ba, ss, modal, zpk or sos")
      ->required()
      ->type_name("FORM")
      ->check(CLI::IsMember({"tf", "ba", "ss", "modal", "zpk", "sos"}));
  add_output(command, options.output, "file to write: JSON, or .safetensors for the form tf");
  add_count(command, "--report-length", options.report_length, "samples over which the error is measured")
      ->default_str(fmt::format("{}", options.report_length));
  command
      .add_option("--feed-through", options.feed_through,
                  "zeros and gain of zpk: separate, of H - h0; inside, of H as SciPy has it; auto, the source's own, "
                  "else separate")
      ->type_name("WHERE")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "separate", "inside"}));
  command.add_option("--method", options.method, "ss to another form: eigenvalues, markov, or the better of the two")
      ->type_name("METHOD")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "eigenvalues", "markov"}));
  command.add_flag("--json", options.json,
                   "print {\"form\": .., \"channels\": [{\"error\": .., \"condition\": .., \"length\": .., "
                   "\"response_error\": .., \"method\": ..}, ..]}");
}

ConversionOptions conversion_options(const ConvertOptions& options) {
  static const std::map<std::string, StateSpaceMethod> methods = {{"auto", StateSpaceMethod::automatic},
                                                                  {"eigenvalues", StateSpaceMethod::eigenvalues},
                                                                  {"markov", StateSpaceMethod::markov}};
  static const std::map<std::string, FeedThrough> feed_throughs = {
      {"auto", FeedThrough::automatic}, {"separate", FeedThrough::separate}, {"inside", FeedThrough::inside}};
  ConversionOptions result;
  result.report_length = options.report_length;
  result.feed_through = feed_throughs.at(options.feed_through);
  result.method = methods.at(options.method);
  return result;
}

struct Result {
  AnyFilter filter;
  std::vector<ConversionReport> reports;
};

System convert_channel(const System& source, const std::string& to, const ConversionOptions& options,
                       ConversionReport& report) {
  const auto keep = [&](auto converted) -> System {
    report = std::move(converted.report);
    return std::move(converted.value);
  };
  if (to == "ba") return keep(to_polynomial_ratio(source, options));
  if (to == "ss") return keep(to_state_space(source, options));
  if (to == "modal") return keep(to_modal(source, options));
  if (to == "zpk") return keep(to_zero_pole_gain(source, options));
  if (to == "sos") return keep(to_sections(source, options));
  return keep(to_transfer_function(source, options));
}

Result convert_channels(const std::vector<System>& sources, const std::string& to, const ConversionOptions& options) {
  std::vector<System> systems(sources.size());
  std::vector<ConversionReport> reports(sources.size());
  parallel_for(default_executor(), sources.size(), [&](std::size_t c, std::size_t) {
    try {
      systems[c] = convert_channel(sources[c], to, options, reports[c]);
    } catch (const Error& error) {
      const std::string text = error.what();
      if (sources.size() == 1) throw;
      throw Error(error.code(), "convert", fmt::format("channel {}: {}", c, text.substr(text.find("] ") + 2)));
    }
  });
  if (to != "tf") return {std::move(systems), std::move(reports)};
  std::vector<TransferFunction> channels;
  for (System& system : systems) channels.push_back(std::move(std::get<TransferFunction>(system)));
  return {join_channels(channels), std::move(reports)};
}

Result convert(const AnyFilter& filter, const ConvertOptions& options) {
  const ConversionOptions how = conversion_options(options);
  const auto channels_of = [](const TransferFunction& tf) {
    std::vector<System> channels;
    for (std::size_t c = 0; c < tf.channels; ++c) channels.push_back(select_channel(tf, c));
    return channels;
  };
  if (const auto* systems = std::get_if<std::vector<System>>(&filter))
    return convert_channels(*systems, options.to, how);
  if (const auto* tf = std::get_if<TransferFunction>(&filter))
    return convert_channels(channels_of(*tf), options.to, how);
  if (const auto* trained = std::get_if<TrainedTransferFunction>(&filter)) {
    Result result = convert_channels(channels_of(correct(*trained)), options.to, how);
    for (ConversionReport& report : result.reports)
      report.method =
          fmt::format("corrected at length {}{}{}", trained->length, report.method.empty() ? "" : ", ", report.method);
    return result;
  }
  // What is left has several inputs or outputs.
  if (options.to != "tf" && options.to != "ss")
    throw Error(ErrorCode::unsupported, "convert",
                "several inputs or outputs; such a system has the forms ss and, for --to tf, mimo");
  const ConversionReport copied{0, 1, how.report_length, "", 0};
  if (const auto* tf = std::get_if<MimoTransferFunction>(&filter)) {
    if (options.to == "tf") return {*tf, {copied}};
    return {to_block_companion(*tf), {{0, 1, how.report_length, "block companion", 0}}};
  }
  const auto& system = std::get<StateSpace>(filter);
  if (options.to == "ss") return {system, {copied}};
  auto converted = to_mimo_transfer_function(system, how);
  return {std::move(converted.value), {std::move(converted.report)}};
}

void print_table(const std::vector<ConversionReport>& reports) {
  fmt::print("{:>9} {:>12} {:>12} {:>9} {:>12}  {}\n", "channel", "error", "condition", "samples", "beyond", "method");
  for (std::size_t c = 0; c < reports.size(); ++c) {
    const ConversionReport& report = reports[c];
    fmt::print("{:>9} {:>12.2e} {:>12.2e} {:>9} {:>12.2e}  {}\n", c, report.error, report.condition, report.length,
               report.response_error, report.method.empty() ? "copied" : report.method);
  }
}

void print_json(const std::string& form, const std::vector<ConversionReport>& reports) {
  auto channels = nlohmann::ordered_json::array();
  for (const ConversionReport& report : reports)
    channels.push_back({{"error", report.error},
                        {"condition", report.condition},
                        {"length", report.length},
                        {"response_error", report.response_error},
                        {"method", report.method}});
  fmt::print("{}\n", nlohmann::ordered_json{{"form", form}, {"channels", std::move(channels)}}.dump());
}

bool is_state_space(const AnyFilter& filter) {
  const auto* systems = std::get_if<std::vector<System>>(&filter);
  return systems ? std::holds_alternative<StateSpace>(systems->front()) : std::holds_alternative<StateSpace>(filter);
}

// An option that would do nothing is a mistake.
void check_options(const AnyFilter& filter, const ConvertOptions& options) {
  const auto refuse = [](const std::string& text) { throw Error(ErrorCode::argument, "convert", text); };
  if (options.feed_through != "auto" && options.to != "zpk")
    refuse(fmt::format("--feed-through {} is for --to zpk; --to is {}", options.feed_through, options.to));
  if (options.method != "auto" && (!is_state_space(filter) || options.to == "ss"))
    refuse(fmt::format("--method {} is for a file of form ss to another form; {} to {} needs none", options.method,
                       options.filter, options.to));
}

void run(const ConvertOptions& options) {
  check_output(options.output, "convert");
  const AnyFilter filter = read_any_filter(options.filter);
  check_options(filter, options);
  require_memory(4 * static_cast<double>(options.report_length),
                 fmt::format("{}: a report over {} samples", options.filter, options.report_length));
  if (const auto* trained = std::get_if<TrainedTransferFunction>(&filter))
    require_memory(static_cast<double>(trained->length),
                   fmt::format("{}: the correction at length {}", options.filter, trained->length));
  const Result result = naming(options.filter, [&] { return convert(filter, options); });
  write_any_filter(options.output, result.filter);
  const std::string form = std::holds_alternative<MimoTransferFunction>(result.filter) ? "mimo" : options.to;
  if (options.json) {
    print_json(form, result.reports);
  } else if (!options.quiet) {
    say(options, fmt::format("{}: {}, {} channel{}", options.output, form, result.reports.size(),
                             result.reports.size() == 1 ? "" : "s"));
    print_table(result.reports);
  }
  for (std::size_t c = 0; c < result.reports.size(); ++c)
    if (!(result.reports[c].worst() <= few_digits))
      warn(options, "convert",
           fmt::format("channel {} is off by {:.1e} of its largest value: form {} cannot hold it", c,
                       result.reports[c].worst(), form));
}

}  // namespace

void add_convert(CLI::App& app) {
  add_command<ConvertOptions>(app, "convert", "Write a filter in another form, and report what that cost",
                              "  echo '{\"a\": [-1.2, 0.81], \"b\": [1, 0.5], \"h0\": 2}' > resonator.json\n"
                              "  rtf convert resonator.json --to zpk -o zpk.json\n"
                              "  rtf convert zpk.json --to sos -o sos.json",
                              add_options, run);
}

}  // namespace rtf::cli
