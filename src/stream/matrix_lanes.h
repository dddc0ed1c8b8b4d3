// Products of a matrix and a few rows, one output a lane, of weights in several types. Blocks and rows are as in
// lanes.h.
#pragma once

#include <cstddef>

#include "rtf/instruction_set.h"
#include "stream/lanes.h"

namespace rtf::stream {

// Weights: (blocks, inputs, vectors of the block), in the type of the function that reads them. Narrow ones of `share`
// vectors lie beside each other: (blocks, inputs, vectors of the block / share rounded up, lanes, share).
template <class T>
struct LaneMatrix {
  const void* weights;
  const T* bias;
  const T* scale;  // a number an output, of int8
  std::size_t inputs, vectors;
  bool identity;  // y is x, and there are no weights: of filters alone as a model
};

// Weights that are kept in one type and computed with in another.
template <class T>
struct WeightLanes {
  std::size_t bytes;  // of a weight
  std::size_t share() const { return sizeof(T) / bytes; }
  // y = weights x + bias for each row.
  void (*multiply)(const LaneMatrix<T>& matrix, const T* x, std::size_t x_stride, std::size_t rows, T* y,
                   std::size_t y_stride);
  // A row of an embedding, times `scale` where it is int8.
  void (*widen)(const void* row, T scale, std::size_t vectors, T* y);
};

template <class T>
struct MatrixLanes {
  WeightLanes<T> full, bf16, int8;  // the narrow ones for float alone
};

template <class T>
const MatrixLanes<T>& matrix_lanes_of(InstructionSet set);

}  // namespace rtf::stream
