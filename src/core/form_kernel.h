// Impulse responses of every form from its own numbers, in wide arithmetic or with derivatives.
#pragma once

#include <cstddef>
#include <vector>

#include "core/double_double.h"
#include "rtf/conversion.h"

namespace rtf {

// h_0..h_{length-1} in 106 bits; of a state space with several inputs and outputs (outputs, inputs, length).
std::vector<DoubleDouble> wide_kernel(const System& system, std::size_t length);
std::vector<DoubleDouble> wide_kernel(const MimoTransferFunction& tf, std::size_t length);

// The largest relative change of the kernel over the relative change of the numbers, at least 1: each number that is
// not 0 or +-1 moves by the same share of itself, up or down at random, in a few random ways.
double sensitivity(const System& system, std::size_t length);
double sensitivity(const MimoTransferFunction& tf, std::size_t length);

}  // namespace rtf
