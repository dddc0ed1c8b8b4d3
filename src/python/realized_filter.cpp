#include "python/realized_filter.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/runnable_filter.h"
#include "rtf/error.h"

namespace rtf::python {
namespace {

// Zeros and poles, or sections, as they are, where that is what is asked for and they are stable.
std::optional<Realized> from_factors(const AnyFilter& filter, std::size_t length, const RealizeOptions& options) {
  const auto* systems = std::get_if<std::vector<System>>(&filter);
  if (!systems || options.realization != RealizationChoice::automatic ||
      !std::all_of(systems->begin(), systems->end(), has_factors))
    return {};
  try {
    return realize(*systems, length, options.precision);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unstable || !options.stabilize) throw;
    return {};
  }
}

}  // namespace

Exported realize_filter(const AnyFilter& filter, std::size_t length, const RealizeOptions& options) {
  const auto exported = [&](Realized found, std::size_t channels) {
    ModelFile file = filter_model(found.layer, channels, channels, options.precision);
    return Exported{std::move(file), {std::move(found)}};
  };
  if (auto found = from_factors(filter, length, options)) {
    const std::size_t channels = std::get<std::vector<System>>(filter).size();
    return exported(std::move(*found), channels);
  }
  const AnyTransferFunction coefficients = to_coefficients(filter, "the filter");
  if (const auto* trained = std::get_if<TrainedTransferFunction>(&coefficients))
    return exported(realize(*trained, options), trained->channels);
  const auto& tf = std::get<TransferFunction>(coefficients);
  return exported(realize(tf, length, options), tf.channels);
}

}  // namespace rtf::python
