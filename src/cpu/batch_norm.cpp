#include "rtf/batch_norm.h"

#include <algorithm>
#include <cmath>

#include "core/arguments.h"
#include "core/carver.h"
#include "cpu/batch_norm_lanes.h"

namespace rtf {
namespace {

// Rows that share one partial sum: fixed, so that threads cannot change the order.
constexpr std::size_t tile = 256;

std::size_t tiles(std::size_t rows) { return (rows + tile - 1) / tile; }

// The two sums of every tile.
struct Sums {
  double *first, *second;  // (tiles, channels)

  Sums(std::size_t rows, std::size_t channels, Carver& carver)
      : first(carver.take<double>(tiles(rows) * channels)), second(carver.take<double>(tiles(rows) * channels)) {}

  // The sums of all tiles, in the tiles' order, end up in the first.
  void total(std::size_t rows, std::size_t channels) const {
    for (double* sum : {first, second})
      for (std::size_t t = 1; t < tiles(rows); ++t)
        for (std::size_t c = 0; c < channels; ++c) sum[c] += sum[t * channels + c];
  }
};

template <class T>
std::size_t check(const char* operation, std::span<const T> x, std::span<const T> weight, std::size_t mean,
                  std::size_t variance) {
  const std::size_t channels = weight.size();
  if (channels == 0 || x.empty() || x.size() % channels != 0)
    fail(ErrorCode::argument, operation, "{} values are no rows of {} channels", x.size(), channels);
  check_count(operation, "the mean", mean, channels);
  check_count(operation, "the variance", variance, channels);
  return x.size() / channels;
}

template <class Body>
void each_tile(std::size_t rows, Executor& executor, Body&& body) {
  parallel_for(executor, tiles(rows), [&](std::size_t task, std::size_t) {
    body(task, task * tile, std::min(tile, rows - task * tile));
  });
}

template <class T>
void normalize(std::span<const T> x, std::span<const T> weight, std::span<const T> bias, double eps,
               std::span<const double> mean, std::span<const double> variance, std::span<T> y, Executor& executor) {
  const std::size_t channels = weight.size(), rows = x.size() / channels;
  const auto& lanes = cpu::batch_norm_lanes<T>(instruction_set());
  // Pieces of channels, so that what depends on the channel alone fits the stack.
  constexpr std::size_t piece = 512;
  each_tile(rows, executor, [&](std::size_t, std::size_t first, std::size_t count) {
    alignas(64) T center[piece], scale[piece];
    for (std::size_t c = 0; c < channels; c += piece) {
      const std::size_t width = std::min(piece, channels - c);
      for (std::size_t i = 0; i < width; ++i) {
        center[i] = static_cast<T>(mean[c + i]);
        scale[i] = static_cast<T>(static_cast<double>(weight[c + i]) / std::sqrt(variance[c + i] + eps));
      }
      for (std::size_t row = first; row < first + count; ++row)
        lanes.apply(x.data() + row * channels + c, center, scale, bias.data() + c, width, y.data() + row * channels + c);
    }
  });
}

}  // namespace

std::size_t batch_norm_workspace_bytes(std::size_t rows, std::size_t channels) {
  return 2 * array_bytes<double>(tiles(rows) * channels) + 4 * array_bytes<double>(channels) + workspace_alignment;
}

template <class T>
void batch_norm(std::span<const T> x, std::span<const T> weight, std::span<const T> bias, double eps,
                std::span<double> mean, std::span<double> variance, std::span<T> y, std::span<std::byte> workspace,
                Executor& executor) {
  const std::size_t rows = check("batch_norm", x, weight, mean.size(), variance.size()), channels = weight.size();
  check_count("batch_norm", "the bias", bias.size(), channels);
  check_count("batch_norm", "y", y.size(), x.size());
  Carver carver(workspace, batch_norm_workspace_bytes(rows, channels) - workspace_alignment, "batch_norm");
  const Sums sums(rows, channels, carver);
  const auto& lanes = cpu::batch_norm_lanes<T>(instruction_set());
  // Around the first row the squares are small, whatever the mean is.
  each_tile(rows, executor, [&](std::size_t t, std::size_t first, std::size_t count) {
    lanes.moments(x.data() + first * channels, x.data(), channels, count, channels, sums.first + t * channels,
                  sums.second + t * channels);
  });
  sums.total(rows, channels);
  const auto n = static_cast<double>(rows);
  for (std::size_t c = 0; c < channels; ++c) {
    const double offset = sums.first[c] / n;
    mean[c] = x[c] + offset;
    const double rounded = sums.second[c] / n - offset * offset;
    variance[c] = rounded < 0 ? 0 : rounded;  // nan stays nan
  }
  normalize<T>(x, weight, bias, eps, mean, variance, y, executor);
}

template <class T>
void batch_norm_vjp(std::span<const T> x, std::span<const T> weight, double eps, std::span<const double> mean,
                    std::span<const double> variance, std::span<const T> y_gradient, std::span<T> x_gradient,
                    std::span<T> weight_gradient, std::span<T> bias_gradient, std::span<std::byte> workspace,
                    Executor& executor) {
  const std::size_t rows = check("batch_norm_vjp", x, weight, mean.size(), variance.size()), channels = weight.size();
  check_count("batch_norm_vjp", "y_gradient", y_gradient.size(), x.size());
  check_count("batch_norm_vjp", "x_gradient", x_gradient.size(), x.size());
  check_count("batch_norm_vjp", "weight_gradient", weight_gradient.size(), channels);
  check_count("batch_norm_vjp", "bias_gradient", bias_gradient.size(), channels);
  Carver carver(workspace, batch_norm_workspace_bytes(rows, channels) - workspace_alignment, "batch_norm_vjp");
  const Sums sums(rows, channels, carver);
  T* center = carver.take<T>(channels);
  T* scale = carver.take<T>(channels);
  T* offset = carver.take<T>(channels);
  T* slope = carver.take<T>(channels);
  const auto& lanes = cpu::batch_norm_lanes<T>(instruction_set());
  for (std::size_t c = 0; c < channels; ++c) center[c] = static_cast<T>(mean[c]);
  each_tile(rows, executor, [&](std::size_t t, std::size_t first, std::size_t count) {
    lanes.gradient_moments(x.data() + first * channels, center, y_gradient.data() + first * channels, channels, count,
                           channels, sums.first + t * channels, sums.second + t * channels);
  });
  sums.total(rows, channels);
  const auto n = static_cast<double>(rows);
  for (std::size_t c = 0; c < channels; ++c) {
    const double inverse = 1 / std::sqrt(variance[c] + eps);
    // `center` is the mean rounded to T; the sums were taken around it.
    const double product = sums.second[c] + (static_cast<double>(center[c]) - mean[c]) * sums.first[c];
    bias_gradient[c] = static_cast<T>(sums.first[c]);
    weight_gradient[c] = static_cast<T>(product * inverse);
    scale[c] = static_cast<T>(static_cast<double>(weight[c]) * inverse);
    offset[c] = static_cast<T>(sums.first[c] / n);
    slope[c] = static_cast<T>(product * inverse * inverse / n);
  }
  each_tile(rows, executor, [&](std::size_t, std::size_t first, std::size_t count) {
    for (std::size_t row = first; row < first + count; ++row)
      lanes.apply_gradient(x.data() + row * channels, center, y_gradient.data() + row * channels, scale, offset, slope,
                           channels, x_gradient.data() + row * channels);
  });
}

#define RTF_INSTANTIATE(T)                                                                                            \
  template void batch_norm(std::span<const T>, std::span<const T>, std::span<const T>, double, std::span<double>,     \
                           std::span<double>, std::span<T>, std::span<std::byte>, Executor&);                         \
  template void batch_norm_vjp(std::span<const T>, std::span<const T>, double, std::span<const double>,               \
                               std::span<const double>, std::span<const T>, std::span<T>, std::span<T>, std::span<T>, \
                               std::span<std::byte>, Executor&);
RTF_INSTANTIATE(float)
RTF_INSTANTIATE(double)
#undef RTF_INSTANTIATE

}  // namespace rtf
