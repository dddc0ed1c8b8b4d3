#include "core/polynomial.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/conditioning.h"
#include "core/fft.h"

namespace rtf {
namespace {

// Below this many multiply-adds the direct product is faster than three transforms, and it is exact on integers.
constexpr std::size_t direct_product = 64 * 64;

// Above this order Newton's transforms beat the recurrence.
constexpr std::size_t newton_order = 128;

std::vector<double> multiply_direct(std::span<const double> x, std::span<const double> y, std::size_t size) {
  std::vector<double> product(size, 0.0);
  for (std::size_t i = 0; i < std::min(x.size(), size); ++i)
    for (std::size_t j = 0; j < std::min(y.size(), size - i); ++j) product[i + j] += x[i] * y[j];
  return product;
}

}  // namespace

std::vector<double> multiply(std::span<const double> x, std::span<const double> y, std::size_t size) {
  x = x.first(std::min(x.size(), size));
  y = y.first(std::min(y.size(), size));
  if (x.empty() || y.empty() || x.size() * y.size() <= direct_product) return multiply_direct(x, y, size);

  const auto fft = get_fft<double>(FftKind::real, FftLanes::one, good_size(x.size() + y.size() - 1), instruction_set());
  const std::size_t m = fft->length;
  std::vector<double> x_space(FftRow<double>::elements(*fft)), y_space(FftRow<double>::elements(*fft));
  FftRow<double> p(*fft, x_space.data()), q(*fft, y_space.data());
  std::copy(x.begin(), x.end(), p.data);
  std::copy(y.begin(), y.end(), q.data);
  p.forward();
  q.forward();
  p.data[0] *= q.data[0];
  for (std::size_t i = 1; i + 1 < m; i += 2) {
    const double re = p.data[i] * q.data[i] - p.data[i + 1] * q.data[i + 1];
    const double im = p.data[i] * q.data[i + 1] + p.data[i + 1] * q.data[i];
    p.data[i] = re;
    p.data[i + 1] = im;
  }
  if (m % 2 == 0) p.data[m - 1] *= q.data[m - 1];
  p.backward();
  std::vector<double> product(size, 0.0);
  for (std::size_t i = 0; i < std::min(size, m); ++i) product[i] = p.data[i] / static_cast<double>(m);
  return product;
}

double l1_norm(std::span<const double> x) {
  double sum = 0;
  for (const double value : x) sum += std::abs(value);
  return sum;
}

int binary_exponent(std::span<const double> x) {
  double largest = 0;
  for (const double value : x) largest = std::max(largest, std::abs(value));
  int exponent = 0;
  std::frexp(largest, &exponent);
  return exponent;
}

std::vector<double> with_leading_one(std::span<const double> a) {
  std::vector<double> polynomial{1.0};
  polynomial.insert(polynomial.end(), a.begin(), a.end());
  return polynomial;
}

std::vector<double> inverse_series(std::span<const double> a, std::size_t length) {
  if (length == 0) return {};
  const std::vector<double> denominator = with_leading_one(a);
  std::vector<double> g{1.0};
  while (g.size() < length) {
    const std::size_t next = std::min(2 * g.size(), length);
    // g (2 - A g) in full: the half that is known is corrected too, or its rounding would grow with every doubling.
    std::vector<double> residual = multiply(denominator, g, next);
    residual[0] -= 1;
    const std::vector<double> change = multiply(g, residual, next);
    g.resize(next);
    for (std::size_t t = 0; t < next; ++t) g[t] -= change[t];
  }
  return g;
}

std::vector<double> inverse_series_recurrence(std::span<const double> a, std::size_t length) {
  std::vector<double> g(length);
  for (std::size_t t = 0; t < length; ++t) {
    double sum = t == 0 ? 1.0 : 0.0;
    for (std::size_t k = 1; k <= std::min(a.size(), t); ++k) sum -= a[k - 1] * g[t - k];
    g[t] = sum;
  }
  return g;
}

std::vector<double> inverse_series_automatic(std::span<const double> a, std::size_t length) {
  if (a.size() <= newton_order || length == 0) return inverse_series_recurrence(a, length);
  // With A g = 1 + r the error of g is r / A, at most |r| times the sum of |g|. Where 1/A is large against what it ends
  // in, Newton's steps may do anything.
  std::vector<double> g = inverse_series(a, length);
  std::vector<double> r = multiply(with_leading_one(a), g, length);
  r[0] -= 1;
  double residual = 0, largest = 0, sum = 0;
  for (std::size_t t = 0; t < length; ++t) {
    residual = std::max(residual, std::abs(r[t]));
    largest = std::max(largest, std::abs(g[t]));
    sum += std::abs(g[t]);
  }
  return residual * sum <= tolerance<double> * largest ? g : inverse_series_recurrence(a, length);
}

std::vector<double> divide_series(std::span<const double> b, std::span<const double> a, std::size_t length) {
  std::vector<double> h(length, 0.0);
  for (std::size_t t = 1; t < length; ++t) {
    double sum = t <= b.size() ? b[t - 1] : 0.0;
    for (std::size_t k = 1; k <= std::min(a.size(), t - 1); ++k) sum -= a[k - 1] * h[t - k];
    h[t] = sum;
  }
  return h;
}

std::vector<double> power_modulo(std::size_t exponent, std::span<const double> a) {
  const std::size_t n = a.size();
  const std::vector<double> reversed_inverse = inverse_series(a, n - 1);
  std::vector<double> low(n);  // the modulus without its leading term, low powers first
  for (std::size_t i = 0; i < n; ++i) low[i] = a[n - 1 - i];

  // p of degree up to 2n - 2, modulo z^n + low: the quotient read backwards is p read backwards times 1/A.
  const auto reduce = [&](const std::vector<double>& p) {
    std::vector<double> top(n - 1);
    for (std::size_t i = 0; i < n - 1; ++i) top[i] = p[2 * n - 2 - i];
    std::vector<double> quotient = multiply(top, reversed_inverse, n - 1);
    std::reverse(quotient.begin(), quotient.end());
    const std::vector<double> taken = multiply(quotient, low, n);
    std::vector<double> remainder(p.begin(), p.begin() + static_cast<std::ptrdiff_t>(n));
    for (std::size_t i = 0; i < n; ++i) remainder[i] -= taken[i];
    return remainder;
  };

  std::vector<double> power(n, 0.0);
  power[0] = 1.0;
  for (int bit = static_cast<int>(std::bit_width(exponent)) - 1; bit >= 0; --bit) {
    power = reduce(multiply(power, power, 2 * n - 1));
    if ((exponent >> bit & 1u) == 0) continue;
    const double top = power[n - 1];
    for (std::size_t i = n - 1; i > 0; --i) power[i] = power[i - 1] - top * low[i];
    power[0] = -top * low[0];
  }
  return power;
}

}  // namespace rtf
