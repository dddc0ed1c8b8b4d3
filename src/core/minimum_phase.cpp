#include "core/minimum_phase.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <limits>

#include "core/fft.h"

namespace rtf {

namespace {

// z^2 + a_1 z + a_2 by its roots.
std::vector<double> minimum_phase_of_two(double a1, double a2) {
  const double half = -0.5 * a1, discriminant = half * half - a2;
  if (discriminant < 0) return a2 > 1 ? std::vector{a1 / a2, 1 / a2} : std::vector{a1, a2};
  const double large = half + std::copysign(std::sqrt(discriminant), half);
  double x = large, y = large == 0 ? 0 : a2 / large;
  if (std::abs(x) > 1) x = 1 / x;
  if (std::abs(y) > 1) y = 1 / y;
  return {-(x + y), x * y};
}

}  // namespace

std::vector<double> minimum_phase(std::span<const double> a) {
  if (a.empty()) return {};
  if (a.size() == 1) return {std::abs(a[0]) > 1 ? 1 / a[0] : a[0]};
  if (a.size() == 2) return minimum_phase_of_two(a[0], a[1]);
  const std::size_t points = std::max<std::size_t>(std::size_t{1} << 11, std::bit_ceil(64 * (a.size() + 1)));
  const auto fft = get_fft<double>(FftKind::real, FftLanes::one, points, instruction_set());
  std::vector<double> space(FftRow<double>::elements(*fft));
  FftRow<double> row(*fft, space.data());
  std::fill(row.data, row.data + points, 0.0);
  row.data[0] = 1;
  std::copy(a.begin(), a.end(), row.data + 1);
  row.forward();

  // log |A|, whose even cepstrum belongs half to the causal factor and half to its mirror image.
  const auto log_magnitude = [](double re, double im) {
    return 0.5 * std::log(std::max(re * re + im * im, std::numeric_limits<double>::min()));
  };
  row.data[0] = log_magnitude(row.data[0], 0);
  for (std::size_t i = 1; i + 1 < points; i += 2) {
    row.data[i] = log_magnitude(row.data[i], row.data[i + 1]);
    row.data[i + 1] = 0;
  }
  row.data[points - 1] = log_magnitude(row.data[points - 1], 0);
  row.backward();
  const double scale = 1 / static_cast<double>(points);
  row.data[0] = 0;  // so that the leading coefficient is 1
  for (std::size_t t = 1; t < points / 2; ++t) row.data[t] *= 2 * scale;
  row.data[points / 2] *= scale;
  std::fill(row.data + points / 2 + 1, row.data + points, 0.0);
  row.forward();

  row.data[0] = std::exp(row.data[0]);
  for (std::size_t i = 1; i + 1 < points; i += 2) {
    const std::complex<double> value = std::exp(std::complex<double>(row.data[i], row.data[i + 1]));
    row.data[i] = value.real();
    row.data[i + 1] = value.imag();
  }
  row.data[points - 1] = std::exp(row.data[points - 1]);
  row.backward();
  std::vector<double> result(a.size());
  for (std::size_t k = 0; k < a.size(); ++k) result[k] = row.data[k + 1] * scale;
  return result;
}

}  // namespace rtf
