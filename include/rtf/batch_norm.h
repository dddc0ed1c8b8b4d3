// Batch normalisation: every channel to mean 0 and variance 1 over all rows, then scaled and shifted.
// Arrays hold (rows, channels) row by row. Sums are in double over fixed tiles: the thread count changes no bit.
#pragma once

#include <cstddef>
#include <span>

#include "rtf/executor.h"

namespace rtf {

std::size_t batch_norm_workspace_bytes(std::size_t rows, std::size_t channels);

// y = (x - mean) / sqrt(variance + eps) * weight + bias. Gives the mean and the (biased) variance of every channel.
template <class T>
void batch_norm(std::span<const T> x, std::span<const T> weight, std::span<const T> bias, double eps,
                std::span<double> mean, std::span<double> variance, std::span<T> y, std::span<std::byte> workspace,
                Executor& executor);

// Through batch_norm, its statistics included.
template <class T>
void batch_norm_vjp(std::span<const T> x, std::span<const T> weight, double eps, std::span<const double> mean,
                    std::span<const double> variance, std::span<const T> y_gradient, std::span<T> x_gradient,
                    std::span<T> weight_gradient, std::span<T> bias_gradient, std::span<std::byte> workspace,
                    Executor& executor);

}  // namespace rtf
