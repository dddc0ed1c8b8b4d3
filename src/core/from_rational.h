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

// The poles, and the factors of h0 A + B or of B alone: the source's own where it has them.
Roots poles_of(const Rational& rational, const char* operation);
Numerator whole_factors(const Rational& rational, const char* operation);
Numerator separate_factors(const Rational& rational, const char* operation);

}  // namespace rtf
