// Rows of batch normalisation, one channel a lane; one table for each instruction set.
#pragma once

#include <cstddef>

#include "rtf/instruction_set.h"

namespace rtf::cpu {

// Rows are `stride` apart; per-channel arrays begin at the first of `channels` channels.
template <class T>
struct BatchNormLanes {
  // first = sum of (x - center), second = sum of (x - center)^2 over the rows.
  void (*moments)(const T* x, const T* center, std::size_t stride, std::size_t rows, std::size_t channels,
                  double* first, double* second);
  // first = sum of dy, second = sum of dy (x - center).
  void (*gradient_moments)(const T* x, const T* center, const T* y_gradient, std::size_t stride, std::size_t rows,
                           std::size_t channels, double* first, double* second);
  // One row: y = (x - center) * scale + shift.
  void (*apply)(const T* x, const T* center, const T* scale, const T* shift, std::size_t channels, T* y);
  // One row: dx = scale * (dy - offset - (x - center) * slope).
  void (*apply_gradient)(const T* x, const T* center, const T* y_gradient, const T* scale, const T* offset,
                         const T* slope, std::size_t channels, T* x_gradient);
};

template <class T>
const BatchNormLanes<T>& batch_norm_lanes(InstructionSet set);

}  // namespace rtf::cpu
