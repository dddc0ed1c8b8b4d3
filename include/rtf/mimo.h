// Several inputs and outputs over one denominator: H(z) = h0 + (b1 w + ... + bn w^n) / A(w), b_k and h0 matrices.
#pragma once

#include <cstddef>
#include <vector>

namespace rtf {

struct MimoTransferFunction {
  std::size_t inputs = 0, outputs = 0, order = 0;
  std::vector<double> a;   // (order)
  std::vector<double> b;   // (outputs, inputs, order)
  std::vector<double> h0;  // (outputs, inputs)
};

// Throws unless the shapes agree and every coefficient is finite.
void validate(const MimoTransferFunction& tf, const char* operation);

}  // namespace rtf
