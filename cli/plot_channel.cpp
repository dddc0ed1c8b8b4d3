#include "plot_channel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "common.h"
#include "rtf/conversion.h"
#include "rtf/executor.h"
#include "rtf/response.h"
#include "rtf/stability.h"

namespace rtf::cli {
namespace {

// The zeros are the roots of h0 A + B; leading zeros, a delay, lower its degree.
std::vector<std::complex<double>> zeros_of(const TransferFunction& tf) {
  std::vector<double> numerator = {tf.h0[0]};
  for (std::size_t k = 0; k < tf.order; ++k) numerator.push_back(tf.h0[0] * tf.a[k] + tf.b[k]);
  const auto first = std::find_if(numerator.begin(), numerator.end(), [](double value) { return value != 0; });
  std::vector<double> monic;
  if (first != numerator.end())
    for (auto it = first + 1; it != numerator.end(); ++it) monic.push_back(*it / *first);
  // A first coefficient next to nothing sends a zero to infinity.
  if (!std::all_of(monic.begin(), monic.end(), [](double value) { return std::isfinite(value); })) monic.clear();
  return poles(monic);
}

void find_roots(PlotChannel& channel) {
  if (const auto* systems = std::get_if<std::vector<System>>(&channel.filter)) {
    ConversionOptions of_all;
    of_all.feed_through = FeedThrough::inside;
    const ZeroPoleGain zpk = to_zero_pole_gain(systems->front(), of_all).value;
    channel.poles = zpk.poles;
    channel.zeros = zpk.zeros;
  } else {
    // Nearly all the time of a picture of high order goes into these two.
    parallel_for(default_executor(), 2, [&](std::size_t which, std::size_t) {
      which == 0 ? channel.poles = poles(channel.tf->a) : channel.zeros = zeros_of(*channel.tf);
    });
  }
  for (const std::complex<double> pole : channel.poles) channel.radius = std::max(channel.radius, std::abs(pole));
}

}  // namespace

PlotChannel examine(const std::string& path, const RunnableFilter& all, std::size_t index) {
  PlotChannel channel;
  if (const auto* systems = std::get_if<std::vector<System>>(&all)) {
    channel.filter = std::vector<System>{(*systems)[index]};
  } else {
    channel.filter = select_channel(coefficients_of(path, all), index);
  }
  channel.cascade = cascade_of(path, channel.filter);
  channel.tf = coefficients_for_norms(path, channel.filter);
  channel.stable = is_stable(channel.filter, channel.cascade, 0);
  naming(path, [&] { find_roots(channel); });
  return channel;
}

std::size_t default_length(const PlotChannel& channel) {
  constexpr double shortest = 40, longest = 2000;
  if (!channel.stable) return 100;
  const double decay = channel.radius > 0 ? std::log(1e-3) / std::log(channel.radius) : 0;
  return static_cast<std::size_t>(std::clamp(decay + static_cast<double>(channel.order() + 1), shortest, longest));
}

std::string figures_line(const PlotChannel& channel) {
  std::string line = fmt::format("order {}, pole radius {:.6g}, {}", channel.order(), channel.radius,
                                 channel.stable ? "stable" : "NOT stable");
  const auto* systems = std::get_if<std::vector<System>>(&channel.filter);
  const System source = channel.tf ? System(*channel.tf) : systems->front();
  try {
    const double h2 = h2_norm(source);
    if (!std::isfinite(h2)) return line;
    line += fmt::format(", H2 norm {:.4g}", h2);
    if (channel.order() > largest_order_with_norms) return line;
    const Peak peak = h_infinity_norm(source);
    if (std::isfinite(peak.value))
      line += fmt::format(", largest |H| {:.4g} at {:.4g} \u03c0", peak.value, peak.angle / std::numbers::pi);
  } catch (const Error&) {  // a picture without it is still a picture
  }
  return line;
}

}  // namespace rtf::cli
