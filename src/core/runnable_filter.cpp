#include "core/runnable_filter.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "core/file_errors.h"
#include "core/option_names.h"
#include "core/rounding.h"
#include "rtf/correction.h"
#include "rtf/executor.h"
#include "rtf/kernel.h"
#include "rtf/reduce.h"
#include "rtf/stability.h"

namespace rtf {

using Systems = std::vector<System>;

namespace {

// How far the channels of all systems are off in the form that `to` makes; infinitely where that is refused.
template <class To, class Form>
double convert_all(const Systems& systems, const To& to, std::vector<Form>& results) {
  results.resize(systems.size());
  std::vector<double> errors(systems.size());
  parallel_for(default_executor(), systems.size(), [&](std::size_t c, std::size_t) {
    try {
      auto [value, report] = to(systems[c]);
      results[c] = std::move(value);
      errors[c] = report.worst();
    } catch (const Error&) {
      errors[c] = std::numeric_limits<double>::infinity();
    }
  });
  return *std::max_element(errors.begin(), errors.end());
}

constexpr double enough = 1e-12;

// How far coefficients are off; none where that is more than enough, or where a recurrence would cost more than they.
struct RunnableCoefficients {
  std::optional<TransferFunction> tf;
  double error;

  explicit RunnableCoefficients(const Systems& systems) {
    constexpr std::size_t length = 4096;  // over which rounding is counted
    std::vector<TransferFunction> channels;
    error = convert_all(
        systems, [](const System& system) { return to_transfer_function(system); }, channels);
    const auto can_run = [](const TransferFunction& channel) {
      return std::numeric_limits<double>::epsilon() * condition(channel, length) <= enough;
    };
    if (error <= enough && std::all_of(channels.begin(), channels.end(), can_run)) tf = join_channels(channels);
  }
};

// Matrices and residues hold what coefficients may not: then their sections are run. What neither holds is refused in
// the words of to_coefficients().
RunnableFilter coefficients_or_sections(Systems systems, const std::string& path) {
  constexpr double too_much = 1e-3;
  const RunnableCoefficients coefficients(systems);
  if (coefficients.tf) return *coefficients.tf;
  Systems sections;
  const auto in_sections = [](const System& system) {
    // The zeros of matrices are found without coefficients.
    return to_sections(std::holds_alternative<Modal>(system) ? System(realization(system)) : system);
  };
  const double error_of_sections = convert_all(systems, in_sections, sections);
  if (error_of_sections < coefficients.error && error_of_sections <= too_much) return sections;
  return plain_filter(path, to_coefficients(std::move(systems), path));
}

}  // namespace

RunnableFilter to_runnable(AnyFilter filter, const std::string& path) {
  if (auto* systems = std::get_if<Systems>(&filter)) {
    if (has_factors(systems->front())) return std::move(*systems);  // all are of one form
    return coefficients_or_sections(std::move(*systems), path);
  }
  return std::visit([](auto&& tf) -> RunnableFilter { return std::move(tf); },
                    to_coefficients(std::move(filter), path));
}

RunnableFilter read_runnable_filter(const std::string& path) { return to_runnable(read_any_filter(path), path); }

RunnableFilter for_signals(RunnableFilter filter) {
  const auto* systems = std::get_if<Systems>(&filter);
  if (!systems) return filter;
  if (RunnableCoefficients coefficients(*systems); coefficients.tf) return *std::move(coefficients.tf);
  return filter;
}

TransferFunction plain_filter(const std::string& path, const AnyTransferFunction& filter) {
  const auto* trained = std::get_if<TrainedTransferFunction>(&filter);
  if (!trained) return std::get<TransferFunction>(filter);
  require_memory(static_cast<double>(trained->length), fmt::format("{}: a kernel of {} points", path, trained->length));
  return naming(path, [&] { return correct(*trained); });
}

std::size_t channels_of(const RunnableFilter& filter) {
  if (const auto* systems = std::get_if<Systems>(&filter)) return systems->size();
  const auto* trained = std::get_if<TrainedTransferFunction>(&filter);
  return trained ? trained->channels : std::get<TransferFunction>(filter).channels;
}

std::size_t order_of(const RunnableFilter& filter) {
  const auto* systems = std::get_if<Systems>(&filter);
  const auto* trained = std::get_if<TrainedTransferFunction>(&filter);
  if (!systems) return trained ? trained->order : std::get<TransferFunction>(filter).order;
  std::size_t largest = 0;
  for (const System& system : *systems) {
    const auto* zpk = std::get_if<ZeroPoleGain>(&system);
    largest = std::max(largest, zpk ? zpk->poles.size() : 2 * std::get<SecondOrderSections>(system).sections.size());
  }
  return largest;
}

TransferFunction coefficients_of(const std::string& path, const RunnableFilter& filter) {
  if (const auto* systems = std::get_if<Systems>(&filter)) return plain_filter(path, to_coefficients(*systems, path));
  if (const auto* trained = std::get_if<TrainedTransferFunction>(&filter)) return plain_filter(path, *trained);
  return std::get<TransferFunction>(filter);
}

Cascade cascade_of(const std::string& path, const RunnableFilter& filter) {
  const auto* systems = std::get_if<Systems>(&filter);
  return systems ? naming(path, [&] { return to_cascade(*systems); }) : to_cascade(coefficients_of(path, filter));
}

namespace {

// Null unless the channels are poles and zeros.
const Systems* poles_and_zeros(const RunnableFilter& filter) {
  const auto* systems = std::get_if<Systems>(&filter);
  return systems && std::holds_alternative<ZeroPoleGain>(systems->front()) ? systems : nullptr;
}

template <class Row, class F>
Row row_by_row(const Systems& systems, const F& compute) {
  Row all;
  for (const System& system : systems) {
    const Row one = compute(system);
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

}  // namespace

std::vector<std::complex<double>> response_of(const RunnableFilter& filter, const Cascade& cascade,
                                              std::span<const double> angles) {
  const Systems* systems = poles_and_zeros(filter);
  if (!systems) return frequency_response(cascade, angles);
  return row_by_row<std::vector<std::complex<double>>>(
      *systems, [&](const System& system) { return frequency_response(system, angles); });
}

std::vector<double> group_delay_of(const RunnableFilter& filter, const Cascade& cascade,
                                   std::span<const double> angles) {
  const Systems* systems = poles_and_zeros(filter);
  if (!systems) return group_delay(cascade, angles);
  return row_by_row<std::vector<double>>(*systems, [&](const System& system) { return group_delay(system, angles); });
}

bool is_stable(const RunnableFilter& filter, const Cascade& cascade, std::size_t channel) {
  const auto* systems = std::get_if<Systems>(&filter);
  return systems ? rtf::is_stable((*systems)[channel]) : rtf::is_stable(cascade, channel);
}

double rounding_of_sections(const RunnableFilter& filter, std::size_t length) {
  const Systems* systems = poles_and_zeros(filter);
  if (!systems) return 0;
  ConversionOptions options;
  options.report_length = std::clamp<std::size_t>(length, 1, probe_length);
  double largest = 0;
  for (const System& system : *systems) {
    ZeroPoleGain product = std::get<ZeroPoleGain>(system);
    product.h0 = 0;
    const ConversionReport report = to_sections(product, options).report;
    largest = std::max(largest, length > probe_length ? report.worst() : report.error);
  }
  return largest;
}

namespace {

std::vector<double> automatic_kernel(const std::string& path, const RunnableFilter& filter, std::size_t length) {
  if (const auto* trained = std::get_if<TrainedTransferFunction>(&filter)) return kernel(*trained, length);
  const auto* systems = std::get_if<Systems>(&filter);
  if (!systems) return exact_kernel(coefficients_of(path, filter), length);
  std::vector<double> kernels(systems->size() * length);
  parallel_for(default_executor(), systems->size(), [&](std::size_t c, std::size_t) {
    const std::vector<double> one = kernel((*systems)[c], length);
    std::copy(one.begin(), one.end(), kernels.begin() + static_cast<std::ptrdiff_t>(c * length));
  });
  return kernels;
}

}  // namespace

std::vector<double> kernel_of(const std::string& path, const RunnableFilter& filter, std::size_t length,
                              const std::string& method) {
  const std::optional<KernelMethod> exact = option_value("kernel", "method", kernel_methods, method);
  if (exact == KernelMethod::automatic) return automatic_kernel(path, filter, length);
  const auto* trained = std::get_if<TrainedTransferFunction>(&filter);
  if (!exact && trained) return kernel(*trained, length);
  const TransferFunction plain = coefficients_of(path, filter);
  return exact ? exact_kernel(plain, length, *exact) : wrapped_kernel(TrainedTransferFunction{plain, length});
}

std::optional<TransferFunction> held_coefficients(const System& channel) {
  constexpr double largest_error = 1e-9;  // what the search for the largest |H| promises
  try {
    auto [tf, report] = to_transfer_function(channel);
    // Of poles that outlive the samples of the report the factors always have the norms.
    if (report.error <= largest_error && report.response_error == 0) return std::move(tf);
  } catch (const Error&) {  // not even a digit is left
  }
  return {};
}

std::optional<TransferFunction> coefficients_for_norms(const std::string& path, const RunnableFilter& filter) {
  const auto* systems = std::get_if<Systems>(&filter);
  if (!systems) return coefficients_of(path, filter);
  std::vector<TransferFunction> channels;
  for (const System& system : *systems) {
    auto tf = held_coefficients(system);
    if (!tf) return {};
    channels.push_back(*std::move(tf));
  }
  return join_channels(channels);
}

}  // namespace rtf
