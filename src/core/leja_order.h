// In which order the factors of a polynomial are multiplied.
#pragma once

#include <complex>
#include <cstddef>
#include <span>
#include <vector>

namespace rtf {

// Factors by their roots, one or two each: each next one is farthest from those before, by the product of the distances
// (Leja), so that the products on the way stay as small as the last one. Roots along a circle, taken one after the
// other, would cost all digits.
std::vector<std::size_t> leja_order(std::span<const std::vector<std::complex<double>>> factors);

}  // namespace rtf
