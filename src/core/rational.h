// The transfer function of one channel in 106 bits: what every conversion goes through.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/double_double.h"
#include "rtf/conversion.h"

namespace rtf {

// h0 + (b_1 w + ...) / (1 + a_1 w + ...), a[0] being a_1. `method` says how it was made, empty where nothing was done.
struct Rational {
  std::vector<DoubleDouble> a, b;
  DoubleDouble h0;
  std::string method;
};

// `route` matters to state spaces alone and is not automatic. The system is valid.
Rational to_rational(const System& system, StateSpaceMethod route);

// h0 + b_1 w + ... = numerator / (1 + a_1 w + ...), numerator[0] being that of w^0.
Rational with_numerator(std::vector<DoubleDouble> a, std::vector<DoubleDouble> numerator, std::string method);

// h0 A + B, from w^0 on.
std::vector<DoubleDouble> whole_numerator(const Rational& rational);

// One denominator and (outputs, inputs) numerators b_1..b_n of a state space.
struct MimoRational {
  std::vector<DoubleDouble> a, b;
};
MimoRational to_rational(const StateSpace& system, StateSpaceMethod route);

}  // namespace rtf
