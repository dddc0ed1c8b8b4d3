#include "rtf/activation.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/arguments.h"
#include "cpu/activation_lanes.h"

namespace rtf {
namespace {

// The low half of a word is the first of its two in memory.
static_assert(std::endian::native == std::endian::little);

// A row is taken in pieces whose mask fits the stack, and rows in tasks that do not depend on the number of threads.
constexpr std::size_t piece = 1024;
constexpr std::size_t task_elements = 1 << 15;

std::size_t check_rows(const char* operation, std::size_t size, std::size_t channels, const Dropout& mask) {
  if (channels == 0 || size % channels != 0)
    fail(ErrorCode::argument, operation, "{} values are no rows of {} channels", size, channels);
  if (!(mask.p >= 0 && mask.p < 1)) fail(ErrorCode::argument, operation, "p is {}; it must be in [0, 1)", mask.p);
  const std::size_t rows = size / channels;
  if (mask.tied > 0 && rows % mask.tied != 0)
    fail(ErrorCode::argument, operation, "{} rows are no sequences of {}", rows, mask.tied);
  return rows;
}

// The factors of elements first .. first + count, on the stack; null when nothing is dropped.
template <class T>
class Mask {
 public:
  Mask(const Dropout& dropout, const cpu::ActivationLanes<T>& lanes)
      : dropout_(dropout),
        lanes_(lanes),
        threshold_(static_cast<std::uint32_t>(std::min(std::round(dropout.p * 0x1p16), 0x1p16 - 1))),
        kept_(static_cast<T>(1 / (1 - dropout.p))) {}

  const T* factors(std::uint64_t first, std::size_t count) {
    if (dropout_.p == 0) return nullptr;
    if (drawn_ && first == first_) return factors_;
    const std::size_t skipped = first % 8, blocks = (skipped + count + 7) / 8;
    lanes_.draw(dropout_.seed, dropout_.step, dropout_.layer, first / 8, blocks, words_);
    std::memcpy(halves_, words_, blocks * 4 * sizeof(std::uint32_t));
    lanes_.choose(halves_ + skipped, threshold_, kept_, count, factors_);
    drawn_ = true;
    first_ = first;
    return factors_;
  }

 private:
  const Dropout& dropout_;
  const cpu::ActivationLanes<T>& lanes_;
  const std::uint32_t threshold_;
  const T kept_;
  bool drawn_ = false;
  std::uint64_t first_ = 0;
  alignas(64) std::uint32_t words_[piece / 2 + 8];
  alignas(64) std::uint16_t halves_[piece + 16];
  alignas(64) T factors_[piece];
};

// body(lanes, row, channel, count, factors) for every piece of every row.
template <class T, class Body>
void each_piece(std::size_t rows, std::size_t channels, const Dropout& dropout, Executor& executor, Body&& body) {
  const auto& lanes = cpu::activation_lanes<T>(instruction_set());
  const std::size_t together = std::max<std::size_t>(1, task_elements / channels);
  parallel_for(executor, (rows + together - 1) / together, [&](std::size_t task, std::size_t) {
    Mask<T> mask(dropout, lanes);
    const std::size_t last = std::min(rows, (task + 1) * together);
    for (std::size_t channel = 0; channel < channels; channel += piece) {
      const std::size_t count = std::min(piece, channels - channel);
      for (std::size_t row = task * together; row < last; ++row) {
        const std::uint64_t sequence = dropout.tied > 0 ? row / dropout.tied : row;
        body(lanes, row, channel, count, mask.factors(sequence * channels + channel, count));
      }
    }
  });
}

}  // namespace

template <class T>
void dropout(std::span<const T> x, std::size_t channels, const Dropout& mask, std::span<T> y, Executor& executor) {
  const std::size_t rows = check_rows("dropout", x.size(), channels, mask);
  check_count("dropout", "y", y.size(), x.size());
  each_piece<T>(rows, channels, mask, executor,
                [&](const auto& lanes, std::size_t row, std::size_t channel, std::size_t count, const T* factors) {
                  const std::size_t at = row * channels + channel;
                  lanes.multiply(x.data() + at, factors, count, y.data() + at);
                });
}

template <class T>
void gelu(std::span<const T> x, std::size_t channels, const Dropout& mask, std::span<T> y, Executor& executor) {
  const std::size_t rows = check_rows("gelu", x.size(), channels, mask);
  check_count("gelu", "y", y.size(), x.size());
  each_piece<T>(rows, channels, mask, executor,
                [&](const auto& lanes, std::size_t row, std::size_t channel, std::size_t count, const T* factors) {
                  const std::size_t at = row * channels + channel;
                  lanes.gelu(x.data() + at, factors, count, y.data() + at);
                });
}

template <class T>
void gelu_vjp(std::span<const T> x, std::size_t channels, const Dropout& mask, std::span<const T> y_gradient,
              std::span<T> x_gradient, Executor& executor) {
  const std::size_t rows = check_rows("gelu_vjp", x.size(), channels, mask);
  check_count("gelu_vjp", "y_gradient", y_gradient.size(), x.size());
  check_count("gelu_vjp", "x_gradient", x_gradient.size(), x.size());
  each_piece<T>(rows, channels, mask, executor,
                [&](const auto& lanes, std::size_t row, std::size_t channel, std::size_t count, const T* factors) {
                  const std::size_t at = row * channels + channel;
                  lanes.gelu_gradient(x.data() + at, factors, y_gradient.data() + at, count, x_gradient.data() + at);
                });
}

template <class T>
void glu(std::span<const T> z, std::size_t channels, const Dropout& mask, std::span<const T> residual, std::span<T> y,
         Executor& executor) {
  const std::size_t rows = check_rows("glu", y.size(), channels, mask);
  check_count("glu", "z", z.size(), 2 * y.size());
  if (!residual.empty()) check_count("glu", "the residual", residual.size(), y.size());
  each_piece<T>(rows, channels, mask, executor,
                [&](const auto& lanes, std::size_t row, std::size_t channel, std::size_t count, const T* factors) {
                  const std::size_t at = row * channels + channel, p = at + row * channels;
                  lanes.glu(z.data() + p, z.data() + p + channels, factors,
                            residual.empty() ? nullptr : residual.data() + at, count, y.data() + at);
                });
}

template <class T>
void glu_vjp(std::span<const T> z, std::size_t channels, const Dropout& mask, std::span<const T> y_gradient,
             std::span<T> z_gradient, Executor& executor) {
  const std::size_t rows = check_rows("glu_vjp", y_gradient.size(), channels, mask);
  check_count("glu_vjp", "z", z.size(), 2 * y_gradient.size());
  check_count("glu_vjp", "z_gradient", z_gradient.size(), z.size());
  each_piece<T>(rows, channels, mask, executor,
                [&](const auto& lanes, std::size_t row, std::size_t channel, std::size_t count, const T* factors) {
                  const std::size_t at = row * channels + channel, p = at + row * channels;
                  lanes.glu_gradient(z.data() + p, z.data() + p + channels, factors, y_gradient.data() + at, count,
                                     z_gradient.data() + p, z_gradient.data() + p + channels);
                });
}

#define RTF_INSTANTIATE(T)                                                                                            \
  template void dropout(std::span<const T>, std::size_t, const Dropout&, std::span<T>, Executor&);                    \
  template void gelu(std::span<const T>, std::size_t, const Dropout&, std::span<T>, Executor&);                       \
  template void gelu_vjp(std::span<const T>, std::size_t, const Dropout&, std::span<const T>, std::span<T>,           \
                         Executor&);                                                                                  \
  template void glu(std::span<const T>, std::size_t, const Dropout&, std::span<const T>, std::span<T>, Executor&);    \
  template void glu_vjp(std::span<const T>, std::size_t, const Dropout&, std::span<const T>, std::span<T>, Executor&);
RTF_INSTANTIATE(float)
RTF_INSTANTIATE(double)
#undef RTF_INSTANTIATE

}  // namespace rtf
