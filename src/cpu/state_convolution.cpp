#include "cpu/state_convolution.h"

#include <algorithm>

#include "core/arguments.h"
#include "core/carver.h"
#include "core/polynomial.h"
#include "rtf/kernel.h"

namespace rtf::cpu {

StateConvolution::StateConvolution(const TransferFunction& tf, std::size_t batch, std::size_t length, bool prefix,
                                   bool final_state)
    : batch_(batch),
      length_(length),
      channels_(tf.channels),
      order_(tf.order),
      prefix_(prefix ? tf.order : 0),
      final_state_(final_state && tf.order > 0),
      plan_(batch, length + prefix_, tf.channels, length + prefix_),
      prefix_plan_(batch, prefix_, tf.channels, prefix_) {
  const std::size_t total = length_ + prefix_, n = order_;
  kernel_.emplace(plan_, exact_kernel(tf, total));
  if (final_state_) {
    std::vector<double> inverse(channels_ * total);
    for (std::size_t channel = 0; channel < channels_; ++channel) {
      // Channels of a group lie next to each other: the first computes, the others copy.
      const std::size_t each = channels_ / tf.groups;
      const auto out = inverse.begin() + static_cast<std::ptrdiff_t>(channel * total);
      if (channel % each != 0) {
        std::copy_n(out - static_cast<std::ptrdiff_t>(total), total, out);
        continue;
      }
      const auto g = inverse_series_automatic(std::span(tf.a).subspan(tf.group_of(channel) * n, n), total);
      std::copy(g.begin(), g.end(), out);
    }
    inverse_.emplace(plan_, inverse);
  }
  if (prefix_ == 0) return;
  std::vector<double> denominator(channels_ * n);
  for (std::size_t channel = 0; channel < channels_; ++channel) {
    denominator[channel * n] = 1.0;
    std::copy_n(tf.a.begin() + static_cast<std::ptrdiff_t>(tf.group_of(channel) * n), n - 1,
                denominator.begin() + static_cast<std::ptrdiff_t>(channel * n + 1));
  }
  denominator_.emplace(prefix_plan_, denominator);
}

std::size_t StateConvolution::workspace_bytes(const Executor& executor) const {
  return 2 * array_bytes<double>(batch_ * (length_ + prefix_) * channels_) +
         std::max(plan_.workspace_bytes(executor), prefix_plan_.workspace_bytes(executor)) + workspace_alignment;
}

template <class T>
void StateConvolution::run(Signal<const T> u, Signal<T> y, Offsets offsets, std::size_t first,
                           const double* initial_state, double* final_state, std::span<std::byte> workspace,
                           Executor& executor) const {
  const std::size_t total = length_ + prefix_, n = order_, row = total * channels_;
  Carver carver(workspace, workspace_bytes(executor) - workspace_alignment, "filter");
  double* extended = carver.take<double>(batch_ * row);
  double* result = carver.take<double>(batch_ * row);
  const std::size_t inner = std::max(plan_.workspace_bytes(executor), prefix_plan_.workspace_bytes(executor));
  const std::span<std::byte> space(carver.take<std::byte>(inner), inner);

  // How many samples of a sequence this call covers.
  const auto count_of = [&](const auto& one) { return one.length > first ? std::min(length_, one.length - first) : 0; };

  parallel_for(executor, batch_, [&](std::size_t s, std::size_t) {
    double* out = extended + s * row;
    for (std::size_t j = 0; j < prefix_; ++j)
      for (std::size_t c = 0; c < channels_; ++c)
        out[j * channels_ + c] = initial_state == nullptr ? 0.0 : initial_state[(s * channels_ + c) * n + n - 1 - j];
    const auto in = sequence(u, offsets, s);
    const std::size_t count = count_of(in);
    out += prefix_ * channels_;
    for (std::size_t t = 0; t < count; ++t)
      for (std::size_t c = 0; c < channels_; ++c) out[t * channels_ + c] = *in.at(0, first + t, c);
    std::fill_n(out + count * channels_, (length_ - count) * channels_, 0.0);
  });
  const Signal<double> signal = channels_last(extended, batch_, total, channels_);
  if (prefix_ > 0) {
    Signal<double> front = signal;
    front.length = prefix_;
    convolve(prefix_plan_, front, *denominator_, front, {}, space, executor);
  }
  const Signal<double> convolved = channels_last(result, batch_, total, channels_);
  if (final_state_ && final_state != nullptr) {
    convolve(plan_, signal, *inverse_, convolved, {}, space, executor);
    for (std::size_t s = 0; s < batch_; ++s) {
      const std::size_t count = count_of(sequence(u, offsets, s)), end = prefix_ + count;
      if (count == 0 && initial_state == final_state) continue;  // a sequence that has ended keeps its state to the bit
      for (std::size_t c = 0; c < channels_; ++c)
        for (std::size_t k = 1; k <= n; ++k)
          final_state[(s * channels_ + c) * n + k - 1] = k <= end ? result[s * row + (end - k) * channels_ + c] : 0.0;
    }
  }
  convolve(plan_, signal, *kernel_, convolved, {}, space, executor);
  parallel_for(executor, batch_, [&](std::size_t s, std::size_t) {
    const auto to = sequence(y, offsets, s);
    const double* from = result + s * row + prefix_ * channels_;
    for (std::size_t t = 0; t < count_of(to); ++t)
      for (std::size_t c = 0; c < channels_; ++c) *to.at(0, first + t, c) = static_cast<T>(from[t * channels_ + c]);
  });
}

template void StateConvolution::run(Signal<const float>, Signal<float>, Offsets, std::size_t, const double*, double*,
                                    std::span<std::byte>, Executor&) const;
template void StateConvolution::run(Signal<const double>, Signal<double>, Offsets, std::size_t, const double*, double*,
                                    std::span<std::byte>, Executor&) const;

}  // namespace rtf::cpu
