// Kernels of diagonal systems: k[t] = 2 Re sum_j c_j z_j^t over pairs of conjugate poles, a row for each channel.
// No (pairs x length) matrix is made: powers come by two levels, z^(t0 + t) = z^t0 z^t, the large ones from log z.
#pragma once

#include <complex>
#include <cstddef>
#include <span>

#include "rtf/executor.h"

namespace rtf {

// c and log_z hold (rows, pairs), k (rows, length). Computed in double whatever k is.
template <class T>
void vandermonde(std::span<const std::complex<double>> c, std::span<const std::complex<double>> log_z,
                 std::size_t pairs, std::size_t length, std::span<T> k, Executor& executor);

// Gradients as of independent real and imaginary parts: re + i im.
template <class T>
void vandermonde_vjp(std::span<const std::complex<double>> c, std::span<const std::complex<double>> log_z,
                     std::size_t pairs, std::size_t length, std::span<const T> k_gradient,
                     std::span<std::complex<double>> c_gradient, std::span<std::complex<double>> log_z_gradient,
                     Executor& executor);

}  // namespace rtf
