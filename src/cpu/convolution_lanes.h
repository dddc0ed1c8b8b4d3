// The loops of the right-angle convolution around its transforms, `lanes` rows side by side.
//
// A transform of m = split * s points is `split` transforms of s points after one butterfly across the signal. Fused
// into the load and the store, that butterfly costs no pass over memory, and the short transforms stay in the cache.
#pragma once

#include <cstddef>
#include <vector>

#include "core/fft.h"
#include "cpu/lane_rows.h"
#include "rtf/instruction_set.h"

namespace rtf::cpu {

constexpr std::size_t convolution_split = 8;

// Points z with z^size = i, as `split` groups of `part` points each.
template <class T>
struct RightAngle {
  explicit RightAngle(std::size_t size);

  std::size_t size, split, part;
  // (split, part) complex: W_t e^{-2 pi i j t / size} with the right-angle weight W_t = e^{i pi t / (2 size)}.
  std::vector<T> twiddles;
};

// The kernels of a row group; backward.data is null when causal. Sample m - 1 of the backward kernel acts at lag -m.
template <class T>
struct KernelRows {
  LaneRows<T> forward, backward;
  std::size_t forward_count = 0, backward_count = 0;
};

// Complex arrays as fft.h lays them out; spectra are the groups one after the other.
template <class T>
struct ConvolutionLanes {
  std::size_t lanes;
  // u[0 .. count), zeros after it, weighted and split.
  void (*load)(LaneRows<const T> u, std::size_t count, const RightAngle<T>& grid, T* z);
  // The real part of the merged and unweighted z.
  void (*store)(const T* z, std::size_t count, const RightAngle<T>& grid, LaneRows<T> y);
  // Forward samples at their index, backward ones as -i k[m - 1] at index size - m.
  void (*load_kernel)(const KernelRows<const T>& kernel, const RightAngle<T>& grid, T* z);
  // Its transpose, for gradients; z is overwritten.
  void (*store_kernel)(T* z, const RightAngle<T>& grid, const KernelRows<T>& kernel);
  // z *= k.
  void (*multiply)(const T* k, std::size_t size, T* z);
  // sum += conj(u) g, then g *= conj(k): the spectra of the two gradients in one pass.
  void (*correlate)(const T* u, const T* k, std::size_t size, T* g, T* sum);
  // z = factor * from.
  void (*scale)(const T* from, T factor, std::size_t size, T* z);
  // z += from.
  void (*add)(const T* from, std::size_t size, T* z);
};

// `lanes` as get_fft takes it, so that both agree.
template <class T>
const ConvolutionLanes<T>& convolution_lanes(InstructionSet set, FftLanes lanes);

}  // namespace rtf::cpu
