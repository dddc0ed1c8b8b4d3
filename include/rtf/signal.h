// A strided view of samples in the one logical order (batch, length, channels).
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

namespace rtf {

template <class T>
struct Signal {
  T* data = nullptr;
  std::size_t batch = 0, length = 0, channels = 0;
  std::ptrdiff_t batch_stride = 0, length_stride = 0, channel_stride = 0;  // in elements

  T* at(std::size_t b, std::size_t t, std::size_t c) const {
    return data + static_cast<std::ptrdiff_t>(b) * batch_stride + static_cast<std::ptrdiff_t>(t) * length_stride +
           static_cast<std::ptrdiff_t>(c) * channel_stride;
  }

  operator Signal<const T>() const requires(!std::is_const_v<T>) {
    return {data, batch, length, channels, batch_stride, length_stride, channel_stride};
  }
};

// (batch, length, channels), contiguous: the CPU's own layout, one channel a lane.
template <class T>
Signal<T> channels_last(T* data, std::size_t batch, std::size_t length, std::size_t channels) {
  const auto h = static_cast<std::ptrdiff_t>(channels), l = static_cast<std::ptrdiff_t>(length);
  return {data, batch, length, channels, l * h, h, 1};
}

// (batch, channels, length), contiguous: the usual layout on a GPU.
template <class T>
Signal<T> length_last(T* data, std::size_t batch, std::size_t channels, std::size_t length) {
  const auto h = static_cast<std::ptrdiff_t>(channels), l = static_cast<std::ptrdiff_t>(length);
  return {data, batch, length, channels, l * h, 1, l};
}

// Where each sequence of a packed signal begins. A packed signal has batch 1 and holds sequence s in
// [offsets[s], offsets[s + 1]) of its length; empty means "not packed".
using Offsets = std::span<const std::size_t>;

// Where the sequences of a signal lie. Packed ones have offsets; in padded ones, samples of sequence s from lengths[s] on
// are read as zero (empty: none are).
struct Sequences {
  Offsets offsets;
  std::span<const std::size_t> lengths;

  Sequences() = default;
  Sequences(Offsets packed, std::span<const std::size_t> padded = {}) : offsets(packed), lengths(padded) {}
};

// How many sequences a signal holds, packed or not.
inline std::size_t sequence_count(std::size_t batch, Offsets offsets) {
  return offsets.empty() ? batch : offsets.size() - 1;
}

}  // namespace rtf
