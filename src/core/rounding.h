// What rounding costs a filter as it is run, measured against 106 bits.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "rtf/cascade.h"

namespace rtf {

// Samples that are looked at.
inline constexpr std::size_t probe_length = 4096;

// Of an impulse and of noise through the plan, the largest error over the largest output, of the worst channel. Beyond
// probe_length it grows as the condition number does. 0 without a look where rounding cannot reach the tolerance of T.
template <class T>
double estimated_rounding(const CascadePlan<T>& plan, const Cascade& cascade);

// The same for what `run` makes of samples in place, looked at whatever the bound says, and of the samples too that drive
// the state furthest: of a constant for a narrow high pass.
double estimated_rounding(const TransferFunction& tf, std::size_t length,
                          const std::function<void(Signal<double>)>& run);

// The same for kernels, (channels, length), that were computed in double.
double estimated_rounding(const TransferFunction& tf, std::span<const double> kernels, std::size_t length,
                          double tolerance);

// Nothing where that is within `tolerance`.
std::string rounding_text(double estimate, double tolerance, const std::string& method);

}  // namespace rtf
