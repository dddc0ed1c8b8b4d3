// A polynomial of the same magnitude on the unit circle with its roots on one side.
#pragma once

#include <span>
#include <vector>

namespace rtf {

// a_1..a_n of the denominator with |A| on the circle as given up to a factor, and the poles outside reflected inside.
// Up to order 2 by the roots, else by the cepstrum, O(n log n) without eigenvalues; good to what its grid resolves, which poles very near the circle
// exceed: for starts and trials, not for results.
std::vector<double> minimum_phase(std::span<const double> a);

}  // namespace rtf
