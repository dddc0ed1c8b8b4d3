// The 2 L-point spectrum of the exact kernel cut to L samples: A H_L = B - w^L R, where R comes from the last n kernel
// values, and those from z^M mod A without the samples before them.
#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <vector>

#include "core/arguments.h"
#include "core/fft.h"
#include "core/polynomial.h"
#include "rtf/kernel.h"

namespace rtf {
namespace {

// h_{length-n} .. h_{length-1}; indices below 1 are zero.
std::vector<double> last_values(std::span<const double> a, std::span<const double> b, std::size_t length) {
  const std::size_t n = a.size();
  std::vector<double> last(n, 0.0);
  if (length <= 2 * n) {
    const std::vector<double> h = divide_series(b, a, length);
    for (std::size_t i = 0; i < n; ++i)
      if (length + i > n) last[i] = h[length - n + i];
    return last;
  }
  // h_{M+j} = sum_i c_i h_{i+j} with z^M = sum_i c_i z^i modulo the denominator.
  const std::vector<double> c = power_modulo(length - n - 1, a);
  const std::vector<double> h = divide_series(b, a, 2 * n);
  const std::vector<double> sums =
      multiply(std::vector<double>(c.rbegin(), c.rend()), std::span(h).subspan(1), 2 * n - 1);
  for (std::size_t j = 1; j <= n; ++j) last[j - 1] = sums[n - 2 + j];
  return last;
}

// A polynomial's spectrum: it is folded modulo the transform's length.
std::vector<std::complex<double>> spectrum(std::span<const double> polynomial, std::size_t points) {
  const auto fft = get_fft<double>(FftKind::real, FftLanes::one, points, instruction_set());
  std::vector<double> space(FftRow<double>::elements(*fft), 0.0);
  FftRow<double> z(*fft, space.data());
  for (std::size_t i = 0; i < polynomial.size(); ++i) z.data[i % points] += polynomial[i];
  z.forward();
  std::vector<std::complex<double>> bins(points / 2 + 1);
  bins[0] = z.data[0];
  for (std::size_t k = 1; 2 * k < points; ++k) bins[k] = {z.data[2 * k - 1], z.data[2 * k]};
  bins[points / 2] = z.data[points - 1];  // points is even
  return bins;
}

}  // namespace

std::vector<std::complex<double>> exact_spectrum(const TransferFunction& tf, std::size_t length) {
  validate(tf, "exact_spectrum");
  if (length == 0) fail(ErrorCode::argument, "exact_spectrum", "length is 0; it must be at least 1");
  const std::size_t n = tf.order, bins = length + 1;
  std::vector<std::complex<double>> result(tf.channels * bins);
  parallel_for(default_executor(), tf.channels, [&](std::size_t channel, std::size_t) {
    std::complex<double>* out = result.data() + channel * bins;
    std::fill_n(out, bins, tf.h0[channel]);
    if (n == 0) return;
    const auto a = std::span(tf.a).subspan(tf.group_of(channel) * n, n);
    const auto b = std::span(tf.b).subspan(channel * n, n);
    const std::vector<double> denominator = with_leading_one(a);
    const std::vector<double> overlap = multiply(denominator, last_values(a, b, length), 2 * n);
    // B - w^length R as one polynomial.
    std::vector<double> numerator(length + n, 0.0);
    for (std::size_t k = 1; k <= std::min(n, length - 1); ++k) numerator[k] = b[k - 1];
    for (std::size_t j = 0; j < n; ++j) numerator[length + j] = overlap[n + j];
    const auto top = spectrum(numerator, 2 * length), bottom = spectrum(denominator, 2 * length);
    const double norm = l1_norm(denominator);
    for (std::size_t k = 0; k < bins; ++k) {
      if (!(std::abs(bottom[k]) > std::numeric_limits<double>::epsilon() * norm))
        fail(ErrorCode::unstable, "exact_spectrum",
             "denominator {} vanishes (|A| = {:.3g}) at a {}-th root of unity; use another length or the exact kernel",
             tf.group_of(channel), std::abs(bottom[k]), 2 * length);
      out[k] += top[k] / bottom[k];
    }
  });
  return result;
}

}  // namespace rtf
