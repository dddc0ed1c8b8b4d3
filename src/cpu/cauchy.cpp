#include "rtf/cauchy.h"

#include <algorithm>
#include <cmath>

#include "core/arguments.h"
#include "cpu/cauchy_lanes.h"

namespace rtf {
namespace {

using Complex = std::complex<double>;

// Points of a task: what belongs to them stays in the cache while all pairs pass.
constexpr std::size_t tile = 256;
using Tile = double[tile];

std::size_t tiles(std::size_t points) { return (points + tile - 1) / tile; }

void check(const char* operation, const CauchySizes& sizes, std::size_t v, std::size_t poles, std::size_t points,
           std::size_t y) {
  if (sizes.sums < 1 || sizes.sums > most_cauchy_sums)
    fail(ErrorCode::argument, operation, "{} sums; 1 to {} are possible", sizes.sums, most_cauchy_sums);
  check_count(operation, "v", v, sizes.rows * sizes.sums * sizes.pairs);
  check_count(operation, "the poles", poles, sizes.rows * sizes.pairs);
  check_count(operation, "y", y, sizes.rows * sizes.sums * points);
}

// The points of a tile, the last one repeated to its end: nothing new is divided by.
std::size_t load_points(std::span<const double> points, std::size_t first, Tile& s) {
  const std::size_t count = std::min(tile, points.size() - first);
  std::copy_n(points.begin() + first, count, s);
  std::fill(s + count, s + tile, s[count - 1]);
  return count;
}

}  // namespace

template <class T>
void cauchy(const CauchySizes& sizes, std::span<const Complex> v, std::span<const Complex> poles,
            std::span<const double> points, std::span<std::complex<T>> y, Executor& executor) {
  check("cauchy", sizes, v.size(), poles.size(), points.size(), y.size());
  const auto& lanes = cpu::cauchy_lanes(instruction_set());
  const auto [rows, sums, pairs] = sizes;
  parallel_for(executor, rows * tiles(points.size()), [&, sums = sums, pairs = pairs](std::size_t task, std::size_t) {
    const std::size_t row = task / tiles(points.size()), first = task % tiles(points.size()) * tile;
    alignas(64) Tile s, r_re, r_im, y_re[most_cauchy_sums], y_im[most_cauchy_sums];
    const std::size_t count = load_points(points, first, s);
    for (std::size_t m = 0; m < sums; ++m) {
      std::fill_n(y_re[m], tile, 0.0);
      std::fill_n(y_im[m], tile, 0.0);
    }
    for (std::size_t j = 0; j < pairs; ++j) {
      const Complex pole = poles[row * pairs + j];
      lanes.reciprocals(pole.real(), pole.imag(), s, count, r_re, r_im);
      for (std::size_t m = 0; m < sums; ++m) {
        const Complex c = v[(row * sums + m) * pairs + j];
        lanes.add_quotients(2 * c.real(), 2 * (c * std::conj(pole)).real(), s, r_re, r_im, count, y_re[m], y_im[m]);
      }
    }
    for (std::size_t m = 0; m < sums; ++m) {
      std::complex<T>* to = y.data() + (row * sums + m) * points.size() + first;
      for (std::size_t i = 0; i < count; ++i) to[i] = {static_cast<T>(y_re[m][i]), static_cast<T>(y_im[m][i])};
    }
  });
}

template <class T>
void cauchy_vjp(const CauchySizes& sizes, std::span<const Complex> v, std::span<const Complex> poles,
                std::span<const double> points, std::span<const std::complex<T>> y_gradient,
                std::span<Complex> v_gradient, std::span<Complex> poles_gradient, Executor& executor) {
  check("cauchy_vjp", sizes, v.size(), poles.size(), points.size(), y_gradient.size());
  check_count("cauchy_vjp", "the gradient to v", v_gradient.size(), v.size());
  check_count("cauchy_vjp", "the gradient to the poles", poles_gradient.size(), poles.size());
  const auto& lanes = cpu::cauchy_lanes(instruction_set());
  const auto [rows, sums, pairs] = sizes;
  parallel_for(executor, rows, [&, sums = sums, pairs = pairs](std::size_t row, std::size_t) {
    const auto dv = v_gradient.subspan(row * sums * pairs, sums * pairs);
    const auto dp = poles_gradient.subspan(row * pairs, pairs);
    std::fill(dv.begin(), dv.end(), 0.0);
    std::fill(dp.begin(), dp.end(), 0.0);
    alignas(64) Tile s, r_re, r_im, g_re[most_cauchy_sums], g_im[most_cauchy_sums];
    for (std::size_t first = 0; first < points.size(); first += tile) {
      const std::size_t count = load_points(points, first, s);
      for (std::size_t m = 0; m < sums; ++m) {
        const std::complex<T>* from = y_gradient.data() + (row * sums + m) * points.size() + first;
        for (std::size_t i = 0; i < tile; ++i) {
          g_re[m][i] = i < count ? from[i].real() : 0;
          g_im[m][i] = i < count ? from[i].imag() : 0;
        }
      }
      for (std::size_t j = 0; j < pairs; ++j) {
        const Complex pole = poles[row * pairs + j];
        const double a = pole.real(), b = pole.imag();
        lanes.reciprocals(a, b, s, count, r_re, r_im);
        for (std::size_t m = 0; m < sums; ++m) {
          const Complex c = v[(row * sums + m) * pairs + j];
          double to[4] = {};  // alpha, beta, p, q s
          lanes.gradients(2 * c.real(), 2 * (c * std::conj(pole)).real(), s, r_re, r_im, g_re[m], g_im[m], count, to);
          dv[m * pairs + j] += Complex(2 * to[0] + 2 * a * to[1], 2 * b * to[1]);
          dp[j] += Complex(2 * c.real() * to[1] + 2 * a * to[2] - 2 * to[3], 2 * c.imag() * to[1] + 2 * b * to[2]);
        }
      }
    }
  });
}

template void cauchy(const CauchySizes&, std::span<const Complex>, std::span<const Complex>, std::span<const double>,
                     std::span<std::complex<float>>, Executor&);
template void cauchy(const CauchySizes&, std::span<const Complex>, std::span<const Complex>, std::span<const double>,
                     std::span<std::complex<double>>, Executor&);
template void cauchy_vjp(const CauchySizes&, std::span<const Complex>, std::span<const Complex>,
                         std::span<const double>, std::span<const std::complex<float>>, std::span<Complex>,
                         std::span<Complex>, Executor&);
template void cauchy_vjp(const CauchySizes&, std::span<const Complex>, std::span<const Complex>,
                         std::span<const double>, std::span<const std::complex<double>>, std::span<Complex>,
                         std::span<Complex>, Executor&);

}  // namespace rtf
