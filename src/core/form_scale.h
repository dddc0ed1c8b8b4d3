// Forms whose kernels are near the ends of what a double holds, brought back by a power of two.
#pragma once

#include "rtf/conversion.h"

namespace rtf {

// The binary exponent of the numbers that the kernel is proportional to; 0 where products of 106 bits have room enough.
int excess_exponent(const System& system);

// The same system with a kernel 2^exponent times as large: exact unless a number overflows or becomes subnormal.
TransferFunction scaled(TransferFunction tf, int exponent);
PolynomialRatio scaled(PolynomialRatio ratio, int exponent);
StateSpace scaled(StateSpace system, int exponent);
Modal scaled(Modal modal, int exponent);
ZeroPoleGain scaled(ZeroPoleGain zpk, int exponent);
SecondOrderSections scaled(SecondOrderSections sos, int exponent);
System scaled(const System& system, int exponent);

}  // namespace rtf
