// rtf convert: a filter from one form to another, and what that cost.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "common.h"
#include "core/atomic_file.h"
#include "core/convert_filter.h"
#include "core/option_names.h"
#include "rtf/conversion.h"

namespace rtf::cli {
namespace {

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
  ConversionOptions result;
  result.report_length = options.report_length;
  result.feed_through = option_value("convert", "--feed-through", feed_throughs, options.feed_through);
  result.method = option_value("convert", "--method", state_space_methods, options.method);
  return result;
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
  const ConvertedFilter result =
      naming(options.filter, [&] { return convert(filter, options.to, conversion_options(options)); });
  write_any_filter(options.output, result.filter);
  if (options.json) {
    print_json(result.form, result.reports);
  } else if (!options.quiet) {
    say(options, fmt::format("{}: {}, {} channel{}", options.output, result.form, result.reports.size(),
                             result.reports.size() == 1 ? "" : "s"));
    print_table(result.reports);
  }
  for (const std::string& line : result.warnings()) warn(options, "convert", line);
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
