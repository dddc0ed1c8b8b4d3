#include "python/realized_filter.h"

#include <algorithm>
#include <utility>

#include "core/runnable_filter.h"

namespace rtf::python {

Exported realize_filter(const AnyFilter& filter, const RealizeOptions& options) {
  constexpr std::size_t length = 1024;  // samples over which the error of a recurrence is measured
  const auto exported = [&](Realized found, std::size_t channels) {
    ModelFile file = filter_model(found.layer, channels, channels, options.precision);
    return Exported{std::move(file), {std::move(found)}};
  };
  // Factors run as they are, unless something else is asked for.
  const auto* systems = std::get_if<std::vector<System>>(&filter);
  const bool asked = options.realization != RealizationChoice::automatic || options.stabilize;
  if (systems && !asked && std::all_of(systems->begin(), systems->end(), has_factors))
    return exported(realize(*systems, length, options.precision), systems->size());
  const AnyTransferFunction coefficients = to_coefficients(filter, "the filter");
  if (const auto* trained = std::get_if<TrainedTransferFunction>(&coefficients))
    return exported(realize(*trained, options), trained->channels);
  const auto& tf = std::get<TransferFunction>(coefficients);
  return exported(realize(tf, length, options), tf.channels);
}

}  // namespace rtf::python
