#include "core/circle_search.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace rtf {
namespace {

// The largest value between `low` and `high`, given one local maximum there: golden section. The value at the top is
// flat, so that 1e-8 of the interval is more than enough.
double top(const std::function<double(double)>& value, double low, double high) {
  constexpr double ratio = 1 / std::numbers::phi;
  double left = high - ratio * (high - low), right = low + ratio * (high - low);
  double at_left = value(left), at_right = value(right), best = std::max(at_left, at_right);
  for (int step = 0; step < 38; ++step) {
    if (at_left > at_right) {
      high = right;
      right = left;
      at_right = at_left;
      best = std::max(best, at_left = value(left = high - ratio * (high - low)));
    } else {
      low = left;
      left = right;
      at_left = at_right;
      best = std::max(best, at_right = value(right = low + ratio * (high - low)));
    }
  }
  return best;
}

}  // namespace

// The logarithm of F changes by at most the sum of 1 / |z - p| a radian, and as much again for its zeros: half the
// inverse of that is a step on which nothing happens. It shrinks by no more than a half from one point to the next.
std::vector<double> search_angles(std::span<const std::complex<double>> poles) {
  constexpr double longest = std::numbers::pi / 64, shortest = 0x1p-50;
  std::vector<double> angles;
  for (double angle = 0; angle < std::numbers::pi;) {
    angles.push_back(angle);
    const std::complex<double> z = std::polar(1.0, angle);
    double rate = 0;
    for (const std::complex<double> pole : poles) rate += 1 / std::max(std::abs(z - pole), shortest);
    angle += std::clamp(0.5 / rate, shortest, longest);
  }
  angles.push_back(std::numbers::pi);
  return angles;
}

double largest_on_circle(const std::function<double(double)>& value, std::span<const double> angles,
                         Executor& executor) {
  constexpr std::size_t tile = 64;
  std::vector<double> values(angles.size());
  parallel_for(executor, (angles.size() + tile - 1) / tile, [&](std::size_t task, std::size_t) {
    for (std::size_t i = task * tile; i < std::min((task + 1) * tile, angles.size()); ++i) values[i] = value(angles[i]);
  });
  const double best = *std::max_element(values.begin(), values.end());
  std::vector<std::size_t> maxima;
  const std::size_t last = angles.size() - 1;
  for (std::size_t i = 0; i <= last; ++i)
    if (values[i] >= 0.5 * best && values[i] >= values[i - (i > 0)] && values[i] >= values[i + (i < last)])
      maxima.push_back(i);
  std::vector<double> tops(maxima.size(), best);
  parallel_for(executor, maxima.size(), [&](std::size_t m, std::size_t) {
    const std::size_t i = maxima[m];
    tops[m] = std::max(best, top(value, angles[i - (i > 0)], angles[i + (i < last)]));
  });
  return maxima.empty() ? best : *std::max_element(tops.begin(), tops.end());
}

}  // namespace rtf
