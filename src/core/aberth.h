// All roots of a polynomial at once, from nothing but its coefficients.
#pragma once

#include <span>
#include <vector>

#include "core/roots.h"

namespace rtf {

// The roots of z^n + c_1 z^{n-1} + ... + c_n, c_n not zero, by the iteration of Aberth and Ehrlich in 106 bits.
// Conjugates are equal to about the accuracy of the roots and in no order. Empty when a number overflows on the way.
std::vector<WideComplex> aberth_roots(std::span<const DoubleDouble> c);

}  // namespace rtf
