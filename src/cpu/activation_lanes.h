// Rows of the activations, one element a lane; one table for each instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rtf/instruction_set.h"

namespace rtf::cpu {

// A null factor counts as ones, a null residual as zeros.
template <class T>
struct ActivationLanes {
  // Blocks first, first + 1, ... of Philox, four words each.
  void (*draw)(std::uint64_t seed, std::uint32_t step, std::uint32_t layer, std::uint64_t first, std::size_t blocks,
               std::uint32_t* words);
  // 0 where a half-word is below the threshold, `kept` elsewhere.
  void (*choose)(const std::uint16_t* halves, std::uint32_t threshold, T kept, std::size_t count, T* factors);
  // y = x * factor.
  void (*multiply)(const T* x, const T* factor, std::size_t count, T* y);
  void (*gelu)(const T* x, const T* factor, std::size_t count, T* y);
  void (*gelu_gradient)(const T* x, const T* factor, const T* y_gradient, std::size_t count, T* x_gradient);
  void (*glu)(const T* p, const T* q, const T* factor, const T* residual, std::size_t count, T* y);
  void (*glu_gradient)(const T* p, const T* q, const T* factor, const T* y_gradient, std::size_t count, T* p_gradient,
                       T* q_gradient);
};

template <class T>
const ActivationLanes<T>& activation_lanes(InstructionSet set);

}  // namespace rtf::cpu
