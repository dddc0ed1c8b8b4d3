// Sums over pairs of conjugate poles at points of the imaginary axis, several of them over the same poles:
// y_m(s) = sum_j v_mj / (i s - l_j) + conj(v_mj) / (i s - conj(l_j)), a row for each channel.
#pragma once

#include <complex>
#include <cstddef>
#include <span>

#include "rtf/executor.h"

namespace rtf {

// A call takes no more sums than this.
constexpr std::size_t most_cauchy_sums = 16;

struct CauchySizes {
  std::size_t rows = 0, sums = 0, pairs = 0;
};

// v holds (rows, sums, pairs), poles (rows, pairs), y (rows, sums, points). Computed in double whatever y is.
template <class T>
void cauchy(const CauchySizes& sizes, std::span<const std::complex<double>> v,
            std::span<const std::complex<double>> poles, std::span<const double> points, std::span<std::complex<T>> y,
            Executor& executor);

// Gradients as of independent real and imaginary parts: re + i im.
template <class T>
void cauchy_vjp(const CauchySizes& sizes, std::span<const std::complex<double>> v,
                std::span<const std::complex<double>> poles, std::span<const double> points,
                std::span<const std::complex<T>> y_gradient, std::span<std::complex<double>> v_gradient,
                std::span<std::complex<double>> poles_gradient, Executor& executor);

}  // namespace rtf
