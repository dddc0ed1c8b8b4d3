// From the transfer function in 106 bits to each form.
#pragma once

#include "core/rational.h"
#include "rtf/conversion.h"

namespace rtf {

TransferFunction rounded(const Rational& rational);
PolynomialRatio polynomial_ratio(const Rational& rational);
Modal modal(const Rational& rational);
ZeroPoleGain zero_pole_gain(const Rational& rational, FeedThrough feed_through);
SecondOrderSections sections(const Rational& rational);

}  // namespace rtf
