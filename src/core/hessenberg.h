// A state space of one input and one output in coordinates that make its determinants cheap.
#pragma once

#include <cstddef>
#include <vector>

#include "core/double_double.h"
#include "core/roots.h"

namespace rtf {

// Replaces m (n, n) by a similar matrix with zeros below the first subdiagonal, by elimination with the largest pivot,
// and b and c (n) by what they are in its coordinates.
void reduce_to_hessenberg(std::vector<DoubleDouble>& m, std::vector<DoubleDouble>& b, std::vector<DoubleDouble>& c);

// det(zI - m) and d + c (zI - m)^-1 b for m of that shape: O(n^2).
struct Determinants {
  ScaledProduct denominator;
  WideComplex response;
};
Determinants determinants(const std::vector<DoubleDouble>& m, const std::vector<DoubleDouble>& b,
                          const std::vector<DoubleDouble>& c, const DoubleDouble& d, const WideComplex& z);

}  // namespace rtf
