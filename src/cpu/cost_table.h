// What each method costs, measured by bench/cost_table.cpp: nanoseconds on one core, per vector of lanes.
#pragma once

#include <cstddef>

#include "rtf/instruction_set.h"

namespace rtf::cpu {

struct CostTable {
  double transform;     // of one complex element, times log2 of the length, in cache
  double transform_far;  // the same for rows that do not fit the cache
  double element;       // around a transform: load, multiply, store, of one element
  double copy;          // of one double in or out of the extended signal of a convolution with state
  double tap;           // of one sample and tap of the recurrence, one channel a lane
  double sample;        // of one sample besides its taps
  double time_tap;      // of one vector of samples and tap of the recurrence of a single channel
  double time_vector;   // of one such vector besides its taps
};

inline const CostTable& cost_table(InstructionSet set) {
  static constexpr CostTable portable{0.30, 0.60, 2.0, 1.0, 1.0, 6.0, 1.2, 10.0};
  static constexpr CostTable v2{0.30, 0.60, 2.0, 1.0, 1.0, 6.0, 1.2, 10.0};
  static constexpr CostTable v3{0.35, 0.60, 2.0, 1.0, 0.6, 4.0, 1.0, 14.0};
  static constexpr CostTable v4{0.60, 1.00, 2.0, 1.0, 0.6, 4.0, 1.0, 14.0};
  switch (set) {
    case InstructionSet::v4: return v4;
    case InstructionSet::v3: return v3;
    case InstructionSet::v2: return v2;
    case InstructionSet::portable: break;
  }
  return portable;
}

}  // namespace rtf::cpu
