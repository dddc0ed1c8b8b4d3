// The inner loops of the runtime, one channel or one output a lane; one table for each instruction set.
//
// Rows hold whole vectors, zero past the last channel; vectors without channels are not read. Numbers that belong to a
// row come in blocks of vectors, the last block being what is left: the loops over a block keep its sums in registers.
// No sum depends on how many rows a call has, so neither does a bit of the result.
#pragma once

#include <cstddef>

#include "rtf/instruction_set.h"

namespace rtf::stream {

// Vectors in a block: of outputs of a matrix, of channels of a recurrence.
inline constexpr std::size_t matrix_block = 8, channel_block = 4;

// Row r of a call belongs to a stream whose state of the layer begins at `state`; `position` is the oldest sample of
// its ring, of companion forms.
template <class T>
struct LaneState {
  T* state;
  std::size_t position;
};

// One layer's recurrence over rows of u, which become y. Numbers lie block by block as the function says, states
// likewise, one stream after the other in memory of its own.
template <class T>
struct LaneRecurrence {
  const T* numbers;
  const T* h0;          // one row
  std::size_t terms;    // taps, sections or pairs of poles
  std::size_t vectors;  // with channels in them
};

template <class T>
using RunLanes = void (*)(const LaneRecurrence<T>& layer, const LaneState<T>* states, std::size_t rows, T* u,
                          std::size_t stride);

template <class T>
struct Lanes {
  std::size_t lanes;

  // Taps oldest first, a then b of each: (blocks, order, 2, vectors of the block). State: a ring of `order` samples.
  RunLanes<T> companion;
  // b0 b1 b2 a1 a2 of each section: (blocks, sections, 5, vectors of the block). State: two numbers a section, of the
  // transposed form.
  RunLanes<T> sos;
  // s <- M s + (u, 0), y = h0 u + c . s for each pair of poles: M by rows, then c, 6 numbers. State: s.
  RunLanes<T> modal;

  // y = x weight + bias; y may be x.
  void (*affine)(const T* x, const T* weight, const T* bias, std::size_t vectors, T* y);
  // The same of (x - mean) / sqrt(variance + epsilon) over `channels`.
  void (*layer_norm)(const T* x, const T* weight, const T* bias, std::size_t channels, T epsilon, T* y);
};

template <class T>
const Lanes<T>& lanes_of(InstructionSet set);

// Calls visit(first, vectors) for the blocks of a row.
template <class Visit>
void each_block(std::size_t vectors, std::size_t block, Visit&& visit) {
  for (std::size_t first = 0; first < vectors; first += block)
    visit(first, vectors - first < block ? vectors - first : block);
}

}  // namespace rtf::stream
