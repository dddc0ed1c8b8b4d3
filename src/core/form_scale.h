// Forms whose kernels are near the ends of what a double holds, brought back by a power of two.
#pragma once

#include "rtf/conversion.h"

namespace rtf {

// Numbers that products of 106 bits have room for; the kernel is that of `form` times 2^exponent.
template <class Form>
struct Moderate {
  Form form;
  int exponent;  // 0 unless that kernel is near the ends of what a double holds
};
Moderate<System> moderate(const System& system);
Moderate<TransferFunction> moderate(const TransferFunction& tf);
Moderate<StateSpace> moderate(const StateSpace& system);

bool is_finite(const System& system);

// The same system with a kernel 2^exponent times as large: exact unless a number overflows or becomes subnormal.
TransferFunction scaled(TransferFunction tf, int exponent);
PolynomialRatio scaled(PolynomialRatio ratio, int exponent);
StateSpace scaled(StateSpace system, int exponent);
Modal scaled(Modal modal, int exponent);
ZeroPoleGain scaled(ZeroPoleGain zpk, int exponent);
SecondOrderSections scaled(SecondOrderSections sos, int exponent);
System scaled(const System& system, int exponent);

}  // namespace rtf
