// From poles back to the coefficients of a denominator.
#pragma once

#include <complex>
#include <span>
#include <vector>

namespace rtf {

// a_1..a_n of prod (1 - p w). Complex poles in pairs beside each other, as poles() gives them; of a pair the first
// counts. In long double, and in Leja's order, so that the intermediate products stay as small as the result.
std::vector<double> denominator_from_poles(std::span<const std::complex<double>> poles);

}  // namespace rtf
