// Roots of a real polynomial two by two: near the place where two real ones meet and leave the axis, their sum and
// product are smooth.
#pragma once

#include <utility>
#include <vector>

#include "core/roots.h"

namespace rtf {

// Two roots that share a real quadratic z^2 - sum z + product; real or complex, whichever it says.
struct RootPair {
  DoubleDouble sum, product;

  DoubleDouble discriminant() const;
  bool complex() const { return discriminant() < DoubleDouble(0.0); }
  std::pair<WideComplex, WideComplex> roots() const;
};

// All roots as pairs, and one left over when their number is odd.
struct RootPairs {
  std::vector<RootPair> pairs;
  std::vector<DoubleDouble> single;  // none or one

  std::vector<WideComplex> roots() const;
};

// Neighbours on the axis become pairs, the closest first: two that are nearly equal may turn out to be complex. Pairs
// are in the order in which they are multiplied.
RootPairs paired(std::vector<DoubleDouble> real, const std::vector<WideComplex>& upper);

// Values whose conjugates are among them but for rounding. One that is nearer to its own conjugate than to any other's
// is real.
RootPairs paired(const std::vector<WideComplex>& values);

Roots as_roots(const RootPairs& pairs);

// Adds the two roots of z^2 - sum z + product.
void append_quadratic(const DoubleDouble& sum, const DoubleDouble& product, Roots& roots);

}  // namespace rtf
