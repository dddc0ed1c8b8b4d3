// A strided group of rows in memory, one of them a SIMD lane: lane l is channel l, valid for l < channels.
#pragma once

#include <cstddef>

namespace rtf::cpu {

template <class T>
struct LaneRows {
  T* data = nullptr;
  std::ptrdiff_t length_stride = 0, channel_stride = 0;
  std::size_t channels = 0;

  T* at(std::size_t t, std::size_t lane) const {
    return data + static_cast<std::ptrdiff_t>(t) * length_stride + static_cast<std::ptrdiff_t>(lane) * channel_stride;
  }
};

}  // namespace rtf::cpu
