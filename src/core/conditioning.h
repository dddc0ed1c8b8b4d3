// How much rounding a form with state may cost, and when that is too much.
#pragma once

#include <cstddef>
#include <limits>

#include "rtf/transfer_function.h"

namespace rtf {

// Relative to the largest value, what a result of each type is asked to hold.
template <class T>
constexpr double tolerance = std::numeric_limits<T>::digits == 53 ? 1e-10 : 1e-5;

// Past this fewer than three digits are left, and a recurrence is refused rather than run. filter() measures before it
// refuses one by its bound.
constexpr double refused_bound = 1e-3;

// Rounding errors of double arithmetic enter once a sample and are amplified by at most kappa.
constexpr double recurrence_bound(double kappa) { return std::numeric_limits<double>::epsilon() * kappa; }

// Throws ErrorCode::unstable when a recurrence with these denominators is past refused_bound over `length` samples.
void check_condition(const char* operation, const Coefficients& coefficients, std::size_t length);

}  // namespace rtf
