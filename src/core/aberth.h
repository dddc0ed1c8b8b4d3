// All roots of a polynomial at once, from nothing but its coefficients.
#pragma once

#include <span>
#include <vector>

#include "core/roots.h"

namespace rtf {

// The roots of z^n + c_1 z^{n-1} + ... + c_n, c_n not zero, by the iteration of Aberth and Ehrlich; T is double or
// DoubleDouble, which has 106 bits. O(n^2) a sweep over all roots, and a few dozen sweeps unless roots are clustered.
// Conjugates are equal to about the accuracy of the roots and in no order. Empty when a number overflows on the way,
// and in double when a root has not settled.
template <class T>
std::vector<Complex<T>> aberth_roots(std::span<const T> c);

extern template std::vector<Complex<double>> aberth_roots(std::span<const double> c);
extern template std::vector<Complex<DoubleDouble>> aberth_roots(std::span<const DoubleDouble> c);

}  // namespace rtf
