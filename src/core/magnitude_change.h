// What rounding leaves of |H| when poles are reflected.
#pragma once

#include <complex>
#include <cstddef>
#include <vector>

namespace rtf {

// Where |H| is compared.
std::vector<double> magnitude_angles();

// Of every channel the largest relative change of |H| where it is not much smaller than at its peak. Responses are
// (channels, magnitude_angles()).
std::vector<double> magnitude_changes(const std::vector<std::complex<double>>& before,
                                      const std::vector<std::complex<double>>& after);

}  // namespace rtf
