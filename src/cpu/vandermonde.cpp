#include "rtf/vandermonde.h"

#include <algorithm>
#include <cmath>

#include "core/arguments.h"
#include "cpu/vandermonde_lanes.h"

namespace rtf {
namespace {

using Complex = std::complex<double>;

// Lags of a task: small powers within it, one large power at its start.
constexpr std::size_t tile = 2048;
constexpr std::size_t most_step = 256;  // of the widest vectors

std::size_t tiles(std::size_t length) { return (length + tile - 1) / tile; }

std::size_t check(const char* operation, std::span<const Complex> c, std::span<const Complex> log_z, std::size_t pairs,
                  std::size_t length, std::size_t kernel) {
  if (pairs == 0 || c.size() % pairs != 0)
    fail(ErrorCode::argument, operation, "{} values are no rows of {} pairs", c.size(), pairs);
  if (length == 0) fail(ErrorCode::argument, operation, "length is 0; at least 1 is needed");
  const std::size_t rows = c.size() / pairs;
  check_count(operation, "log z", log_z.size(), c.size());
  check_count(operation, "the kernel", kernel, rows * length);
  return rows;
}

// z^t, zero where it is less than every double.
Complex power(Complex log_z, std::size_t t) {
  const double at = static_cast<double>(t), size = at * log_z.real();
  if (size < -745) return 0;
  return std::polar(std::exp(size), at * log_z.imag());
}

}  // namespace

template <class T>
void vandermonde(std::span<const Complex> c, std::span<const Complex> log_z, std::size_t pairs, std::size_t length,
                 std::span<T> k, Executor& executor) {
  const std::size_t rows = check("vandermonde", c, log_z, pairs, length, k.size());
  const auto& lanes = cpu::vandermonde_lanes(instruction_set());
  parallel_for(executor, rows * tiles(length), [&](std::size_t task, std::size_t) {
    const std::size_t row = task / tiles(length), first = task % tiles(length) * tile;
    const std::size_t count = std::min(tile, length - first);
    alignas(64) double sum[tile + most_step] = {};
    for (std::size_t j = row * pairs; j < (row + 1) * pairs; ++j) {
      const Complex start = 2.0 * c[j] * power(log_z[j], first), z = power(log_z[j], 1);
      if (start != 0.0) lanes.add_powers(start.real(), start.imag(), z.real(), z.imag(), count, sum);
    }
    std::copy_n(sum, count, k.begin() + row * length + first);
  });
}

template <class T>
void vandermonde_vjp(std::span<const Complex> c, std::span<const Complex> log_z, std::size_t pairs, std::size_t length,
                     std::span<const T> k_gradient, std::span<Complex> c_gradient, std::span<Complex> log_z_gradient,
                     Executor& executor) {
  const std::size_t rows = check("vandermonde_vjp", c, log_z, pairs, length, k_gradient.size());
  check_count("vandermonde_vjp", "the gradient to c", c_gradient.size(), c.size());
  check_count("vandermonde_vjp", "the gradient to log z", log_z_gradient.size(), c.size());
  const auto& lanes = cpu::vandermonde_lanes(instruction_set());
  parallel_for(executor, rows, [&](std::size_t row, std::size_t) {
    const auto dc = c_gradient.subspan(row * pairs, pairs), dz = log_z_gradient.subspan(row * pairs, pairs);
    std::fill(dc.begin(), dc.end(), 0.0);
    std::fill(dz.begin(), dz.end(), 0.0);
    for (std::size_t first = 0; first < length; first += tile) {
      const std::size_t count = std::min(tile, length - first);
      alignas(64) double g[tile + most_step] = {};
      std::copy_n(k_gradient.begin() + row * length + first, count, g);
      for (std::size_t j = 0; j < pairs; ++j) {
        const Complex log = log_z[row * pairs + j], start = power(log, first), z = power(log, 1);
        if (start == 0.0) continue;
        double sums[4];
        lanes.moments(g, z.real(), z.imag(), count, sums);
        const Complex plain(sums[0], sums[1]), weighted(sums[2], sums[3]);
        dc[j] += start * plain;
        dz[j] += start * (static_cast<double>(first) * plain + weighted);
      }
    }
    // k = 2 Re(c z^t): its gradients are 2 conj(z^t) and 2 t conj(c z^t).
    for (std::size_t j = 0; j < pairs; ++j) {
      dc[j] = 2.0 * std::conj(dc[j]);
      dz[j] = 2.0 * std::conj(c[row * pairs + j] * dz[j]);
    }
  });
}

template void vandermonde(std::span<const Complex>, std::span<const Complex>, std::size_t, std::size_t,
                          std::span<float>, Executor&);
template void vandermonde(std::span<const Complex>, std::span<const Complex>, std::size_t, std::size_t,
                          std::span<double>, Executor&);
template void vandermonde_vjp(std::span<const Complex>, std::span<const Complex>, std::size_t, std::size_t,
                              std::span<const float>, std::span<Complex>, std::span<Complex>, Executor&);
template void vandermonde_vjp(std::span<const Complex>, std::span<const Complex>, std::size_t, std::size_t,
                              std::span<const double>, std::span<Complex>, std::span<Complex>, Executor&);

}  // namespace rtf
