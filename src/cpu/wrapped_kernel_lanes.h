// The loops of Algorithm 1 around its transforms, `lanes` channels side by side in double.
#pragma once

#include <cstddef>

#include "rtf/instruction_set.h"

namespace rtf::cpu {

// Spectra are real transforms as fft.h lays them out: (r0, r1, i1, ...).
struct WrappedKernelLanes {
  std::size_t lanes;
  // b = b / a, and in each lane of `smallest` the least |a|^2 that was divided by.
  void (*divide)(const double* a, std::size_t size, double* b, double* smallest);
  // g = g / conj(a), then b = -g conj(b) / conj(a): the spectra of the gradients to b and to a.
  void (*divide_gradient)(const double* a, std::size_t size, double* g, double* b, double* smallest);
};

const WrappedKernelLanes& wrapped_kernel_lanes(InstructionSet set);

}  // namespace rtf::cpu
