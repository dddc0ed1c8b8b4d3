#include "core/convert_filter.h"

#include <fmt/format.h>

#include <utility>

#include "core/file_errors.h"
#include "rtf/correction.h"
#include "rtf/executor.h"

namespace rtf {
namespace {

constexpr double few_digits = 1e-3;  // the error from which on a warning is due

System convert_channel(const System& source, const std::string& to, const ConversionOptions& options,
                       ConversionReport& report) {
  const auto keep = [&](auto converted) -> System {
    report = std::move(converted.report);
    return std::move(converted.value);
  };
  if (to == "tf") return keep(to_transfer_function(source, options));
  if (to == "ba") return keep(to_polynomial_ratio(source, options));
  if (to == "ss") return keep(to_state_space(source, options));
  if (to == "modal") return keep(to_modal(source, options));
  if (to == "zpk") return keep(to_zero_pole_gain(source, options));
  if (to == "sos") return keep(to_sections(source, options));
  throw Error(ErrorCode::argument, "convert", fmt::format("to is '{}'; tf, ba, ss, modal, zpk or sos is needed", to));
}

ConvertedFilter convert_channels(const std::vector<System>& sources, const std::string& to,
                                 const ConversionOptions& options) {
  std::vector<System> systems(sources.size());
  std::vector<ConversionReport> reports(sources.size());
  parallel_for(default_executor(), sources.size(), [&](std::size_t c, std::size_t) {
    try {
      systems[c] = convert_channel(sources[c], to, options, reports[c]);
    } catch (const Error& error) {
      if (sources.size() == 1) throw;
      throw Error(error.code(), "convert", fmt::format("channel {}: {}", c, without_operation(error)));
    }
  });
  if (to != "tf") return {std::move(systems), std::move(reports), to};
  std::vector<TransferFunction> channels;
  for (System& system : systems) channels.push_back(std::move(std::get<TransferFunction>(system)));
  return {join_channels(channels), std::move(reports), to};
}

}  // namespace

std::vector<std::string> ConvertedFilter::warnings() const {
  std::vector<std::string> lines;
  for (std::size_t c = 0; c < reports.size(); ++c)
    if (!(reports[c].worst() <= few_digits))
      lines.push_back(fmt::format("channel {} is off by {:.1e} of its largest value: form {} cannot hold it", c,
                                  reports[c].worst(), form));
  return lines;
}

ConvertedFilter convert(const AnyFilter& filter, const std::string& to, const ConversionOptions& options) {
  if (const auto* systems = std::get_if<std::vector<System>>(&filter)) return convert_channels(*systems, to, options);
  if (const auto* tf = std::get_if<TransferFunction>(&filter))
    return convert_channels(split_channels(*tf), to, options);
  if (const auto* trained = std::get_if<TrainedTransferFunction>(&filter)) {
    ConvertedFilter result = convert_channels(split_channels(correct(*trained)), to, options);
    for (ConversionReport& report : result.reports)
      report.method =
          fmt::format("corrected at length {}{}{}", trained->length, report.method.empty() ? "" : ", ", report.method);
    return result;
  }
  // What is left has several inputs or outputs.
  if (to != "tf" && to != "ss")
    throw Error(ErrorCode::unsupported, "convert",
                "several inputs or outputs; such a system has the forms ss and mimo, which is its tf");
  const ConversionReport copied{0, 1, options.report_length, "", 0};
  if (const auto* tf = std::get_if<MimoTransferFunction>(&filter)) {
    if (to == "tf") return {*tf, {copied}, "mimo"};
    return {to_block_companion(*tf), {{0, 1, options.report_length, "block companion", 0}}, to};
  }
  const auto& system = std::get<StateSpace>(filter);
  if (to == "ss") return {system, {copied}, to};
  auto converted = to_mimo_transfer_function(system, options);
  return {std::move(converted.value), {std::move(converted.report)}, "mimo"};
}

bool is_state_space(const AnyFilter& filter) {
  const auto* systems = std::get_if<std::vector<System>>(&filter);
  return systems ? std::holds_alternative<StateSpace>(systems->front()) : std::holds_alternative<StateSpace>(filter);
}

}  // namespace rtf
