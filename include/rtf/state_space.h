// State space: x' = A x + B u, y = C x + D u, of any number of inputs and outputs; matrices row by row.
#pragma once

#include <cstddef>
#include <vector>

#include "rtf/transfer_function.h"

namespace rtf {

struct StateSpace {
  std::size_t order = 0, inputs = 1, outputs = 1;
  std::vector<double> A;  // (order, order)
  std::vector<double> B;  // (order, inputs)
  std::vector<double> C;  // (outputs, order)
  std::vector<double> D;  // (outputs, inputs)
};

// Throws unless the shapes agree and every number is finite.
void validate(const StateSpace& system, const char* operation);

// Companion realisation of one channel: first row of A -a, ones below the diagonal; B = e1, C = b, D = h0.
StateSpace to_state_space(const TransferFunction& tf, std::size_t channel);

}  // namespace rtf
