#include "runnable_filter.h"

#include <algorithm>

#include "common.h"
#include "rtf/executor.h"
#include "rtf/kernel.h"

namespace rtf::cli {

using Systems = std::vector<System>;

RunnableFilter read_runnable_filter(const std::string& path) {
  AnyFilter file = read_any_filter(path);
  if (auto* systems = std::get_if<Systems>(&file)) {
    const System& first = systems->front();  // all are of one form
    if (std::holds_alternative<ZeroPoleGain>(first) || std::holds_alternative<SecondOrderSections>(first))
      return std::move(*systems);
  }
  return std::visit([](auto&& tf) -> RunnableFilter { return std::move(tf); }, to_coefficients(std::move(file), path));
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

std::vector<double> kernel_of(const std::string& path, const RunnableFilter& filter, std::size_t length) {
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

std::optional<TransferFunction> coefficients_for_norms(const std::string& path, const RunnableFilter& filter) {
  constexpr double largest_error = 1e-9;  // what the search for the largest |H| promises
  const auto* systems = std::get_if<Systems>(&filter);
  if (!systems) return coefficients_of(path, filter);
  std::vector<TransferFunction> channels;
  for (const System& system : *systems) {
    try {
      auto [tf, report] = to_transfer_function(system);
      if (!(report.error <= largest_error)) return {};
      channels.push_back(std::move(tf));
    } catch (const Error&) {
      return {};  // not even a digit is left
    }
  }
  return join_channels(channels);
}

}  // namespace rtf::cli
