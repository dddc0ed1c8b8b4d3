// The loops of the right-angle convolution around its transforms, `lanes` rows side by side.
#pragma once

#include <cstddef>

#include "cpu/lane_rows.h"
#include "rtf/instruction_set.h"

namespace rtf::cpu {

// Complex arrays as fft.h lays them out; `weights` holds (cos, sin)(pi t / 2 size) for t < size.
template <class T>
struct ConvolutionLanes {
  std::size_t lanes;
  // z[t] = weights[t] u[t] for t < count, 0 up to size.
  void (*load)(LaneRows<const T> u, std::size_t count, std::size_t size, const T* weights, T* z);
  // y[t] = Re(conj(weights[t]) z[t]) for t < count.
  void (*store)(const T* z, std::size_t count, const T* weights, LaneRows<T> y);
  // z *= k.
  void (*multiply)(const T* k, std::size_t size, T* z);
  // sum += conj(u) g, then g *= conj(k): the spectra of the two gradients in one pass.
  void (*correlate)(const T* u, const T* k, std::size_t size, T* g, T* sum);
  // z = factor * from.
  void (*scale)(const T* from, T factor, std::size_t size, T* z);
  // z += from.
  void (*add)(const T* from, std::size_t size, T* z);
  // The backward kernel joins a forward one: z[size - m] += -i weights[size - m] k[m - 1] for 1 <= m < count.
  void (*load_backward)(LaneRows<const T> k, std::size_t count, std::size_t size, const T* weights, T* z);
  // Its gradient: k[m - 1] = -Im(conj(weights) z)[size - m] for 1 <= m < count.
  void (*store_backward)(const T* z, std::size_t count, std::size_t size, const T* weights, LaneRows<T> k);
};

template <class T>
const ConvolutionLanes<T>& convolution_lanes(InstructionSet set);

}  // namespace rtf::cpu
