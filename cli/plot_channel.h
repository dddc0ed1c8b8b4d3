// One channel of a filter, examined for its picture.
#pragma once

#include <complex>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "core/runnable_filter.h"
#include "rtf/cascade.h"

namespace rtf::cli {

struct PlotChannel {
  RunnableFilter filter;  // of this channel alone
  Cascade cascade;
  std::optional<TransferFunction> tf;  // none where doubles do not hold the coefficients
  std::vector<std::complex<double>> poles, zeros;
  double radius = 0;
  bool stable = false;

  std::size_t order() const { return tf ? tf->order : cascade.order(); }
};

// Of channel `index` of the file at `path`.
PlotChannel examine(const std::string& path, const RunnableFilter& all, std::size_t index);

// So many samples that the impulse response has died out, within bounds.
std::size_t default_length(const PlotChannel& channel);

// Order, pole radius and norms in a line.
std::string figures_line(const PlotChannel& channel);

}  // namespace rtf::cli
