// The loops of `cauchy` over neighbouring points, in double. A pair of poles a +- ib with coefficient v is one quotient
// with real numbers: (i alpha s - beta) / (p + i q), alpha = 2 Re v, beta = 2 Re(v conj(l)), p = a^2 + (b - s)(b + s),
// q = -2 a s.
#pragma once

#include <cstddef>

#include "rtf/instruction_set.h"

namespace rtf::cpu {

struct CauchyLanes {
  // Points that are taken at once: counts are rounded up to a multiple, and arrays must hold that many.
  std::size_t step;
  // 1 / (p + i q) at every point.
  void (*reciprocals)(double a, double b, const double* s, std::size_t count, double* re, double* im);
  // y += (i alpha s - beta) r.
  void (*add_quotients)(double alpha, double beta, const double* s, const double* r_re, const double* r_im,
                        std::size_t count, double* y_re, double* y_im);
  // Adds up the gradients to alpha, to beta, to p, and that to q times s.
  void (*gradients)(double alpha, double beta, const double* s, const double* r_re, const double* r_im,
                    const double* g_re, const double* g_im, std::size_t count, double* sums);
};

const CauchyLanes& cauchy_lanes(InstructionSet set);

}  // namespace rtf::cpu
