// From the transfer function in 106 bits to each form.
#pragma once

#include <vector>

#include "core/rational.h"
#include "core/roots.h"
#include "rtf/conversion.h"

namespace rtf {

TransferFunction rounded(const Rational& rational);
PolynomialRatio polynomial_ratio(const Rational& rational);
Modal modal(const Rational& rational);
ZeroPoleGain zero_pole_gain(const Rational& rational, FeedThrough feed_through);
SecondOrderSections sections(const Rational& rational);

// A numerator as w^delay gain (1 - z_1 w) (1 - z_2 w) ...; gain 0 without zeros for nothing at all.
struct Numerator {
  std::size_t delay = 0;
  DoubleDouble gain = 0.0;
  Roots zeros;
};

Numerator factored(std::vector<DoubleDouble> numerator, const char* operation);

}  // namespace rtf
