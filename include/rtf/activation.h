// What stands between a block's layer and its output, each in one pass over memory: GELU, gate, dropout, residual.
// Arrays hold (rows, channels) row by row, a row for each position of each sequence. No second array is kept for a
// gradient: masks are drawn again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "rtf/executor.h"

namespace rtf {

// Each element is dropped with probability p, to the nearest 2^-16, and scaled by 1 / (1 - p) otherwise. Half-word i % 8 of Philox at counter
// (i / 8, step, layer), the low half of a word first, decides element i: the same bits on every device.
struct Dropout {
  double p = 0;  // 0: nothing is dropped
  std::uint64_t seed = 0;
  std::uint32_t step = 0, layer = 0;
  std::size_t tied = 0;  // rows of a sequence, which share one mask of `channels` elements; 0: every element its own
};

// y = dropout(x). y may be x.
template <class T>
void dropout(std::span<const T> x, std::size_t channels, const Dropout& mask, std::span<T> y, Executor& executor);

// y = dropout(x Phi(x)), Phi the normal distribution function. y may be x.
template <class T>
void gelu(std::span<const T> x, std::size_t channels, const Dropout& mask, std::span<T> y, Executor& executor);
template <class T>
void gelu_vjp(std::span<const T> x, std::size_t channels, const Dropout& mask, std::span<const T> y_gradient,
              std::span<T> x_gradient, Executor& executor);

// z has rows (p, q) of 2 * channels: y = residual + dropout(p sigmoid(q)); an empty residual counts as zero.
template <class T>
void glu(std::span<const T> z, std::size_t channels, const Dropout& mask, std::span<const T> residual, std::span<T> y,
         Executor& executor);
template <class T>
void glu_vjp(std::span<const T> z, std::size_t channels, const Dropout& mask, std::span<const T> y_gradient,
             std::span<T> z_gradient, Executor& executor);

}  // namespace rtf
