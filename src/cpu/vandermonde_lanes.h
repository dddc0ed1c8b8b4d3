// The loops of `vandermonde` over neighbouring lags, in double.
#pragma once

#include <cstddef>

#include "rtf/instruction_set.h"

namespace rtf::cpu {

struct VandermondeLanes {
  // Lags that are taken at once: counts are rounded up to a multiple, and arrays must hold that many.
  std::size_t step;
  // k[t] += Re(c z^t) for t < count.
  void (*add_powers)(double c_re, double c_im, double z_re, double z_im, std::size_t count, double* k);
  // sums = sum g[t] z^t, then sum t g[t] z^t: (re, im, re, im).
  void (*moments)(const double* g, double z_re, double z_im, std::size_t count, double* sums);
};

const VandermondeLanes& vandermonde_lanes(InstructionSet set);

}  // namespace rtf::cpu
