// What each method costs: nanoseconds on one core, per vector of lanes. Measured by bench/cost_table.cpp on an AMD EPYC
// of the Zen 4 generation, 2026-11-15.
#pragma once

#include <cstddef>

#include "rtf/instruction_set.h"

namespace rtf::cpu {

struct CostTable {
  double transform;      // of one complex element, times log2 of the length, in cache
  double transform_far;  // the same for rows that do not fit the cache
  double element;        // around a transform: load, multiply, store, of one element
  double copy;           // of one double in or out of the extended signal of a convolution with state
  double tap;            // of one sample and tap of the recurrence, one channel a lane
  double sample;         // of one sample besides its taps
  double time_tap;       // of one vector of samples and tap of the recurrence of a single channel
  double time_vector;    // of one such vector besides its taps
};

inline const CostTable& cost_table(InstructionSet set) {
  static constexpr CostTable portable{0.55, 0.84, 5.4, 1.76, 0.34, 2.6, 0.33, 2.7};
  static constexpr CostTable v2{0.47, 0.75, 2.8, 0.10, 0.34, 1.7, 0.50, 8.0};
  static constexpr CostTable v3{0.61, 1.16, 0.5, 0.12, 0.28, 2.1, 0.81, 5.9};
  static constexpr CostTable v4{1.05, 2.42, 0.0, 0.14, 0.54, 2.8, 1.12, 10.3};
  switch (set) {
    case InstructionSet::v4:
      return v4;
    case InstructionSet::v3:
      return v3;
    case InstructionSet::v2:
      return v2;
    case InstructionSet::portable:
      break;
  }
  return portable;
}

}  // namespace rtf::cpu
