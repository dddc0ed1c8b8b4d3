// Model reduction by balanced truncation: the states that the input reaches least and the output shows least go.
#pragma once

#include <cstddef>
#include <vector>

#include "rtf/conversion.h"
#include "rtf/executor.h"
#include "rtf/state_space.h"
#include "rtf/transfer_function.h"

namespace rtf {

struct StateSpaceReduction {
  StateSpace system;           // of the order asked for, or less where the given system has no more; balanced
  std::vector<double> hankel;  // Hankel singular values of the given system, largest first
  double bound = 0;  // on the largest singular value of the difference over all frequencies: 2 (sum of those cut)
};

// Throws ErrorCode::unstable unless every pole is inside the circle.
StateSpaceReduction reduce(const StateSpace& system, std::size_t order);

// A state space that holds a channel as well as its form does: of sos and zpk a chain of sections, of modal the poles
// side by side, an ss as it is. Coefficients of polynomials, which do not hold narrow filters of high order, only come
// from tf and ba: these are brought to lattice coordinates, and have to be stable (ErrorCode::unstable).
StateSpace realization(const System& channel);

// The largest singular value of the difference of two frequency responses on the circle, searched for from angles that
// are dense where poles are close.
double largest_difference(const StateSpace& one, const StateSpace& other, Executor& executor = default_executor());
// The same of two channels from the numbers of their forms, in 106 bits but for state spaces.
double largest_difference(const System& one, const System& other, Executor& executor = default_executor());

struct Reduction {
  TransferFunction tf;                      // groups as they were
  std::vector<std::vector<double>> hankel;  // (groups)(order): of one input and the channels of the group as outputs
  std::vector<double> bound;                // (groups)
  std::vector<double> error;                // (channels): max |H - reduced H| on the circle, searched for
};

Reduction reduce(const TransferFunction& tf, std::size_t order, Executor& executor = default_executor());

}  // namespace rtf
