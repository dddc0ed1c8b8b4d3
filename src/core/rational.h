// The transfer function of one channel in 106 bits: what every conversion goes through.
#pragma once

#include <complex>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/double_double.h"
#include "core/roots.h"
#include "rtf/conversion.h"

namespace rtf {

// A numerator as w^delay gain (1 - z_1 w) (1 - z_2 w) ...; gain 0 without zeros for nothing at all.
struct Numerator {
  std::size_t delay = 0;
  DoubleDouble gain = 0.0;
  Roots zeros;
};

// h0 + (b_1 w + ...) / (1 + a_1 w + ...), a[0] being a_1. `method` says how it was made, empty where nothing was done.
// Where the source has poles and zeros they are kept: in the coefficients of a narrow filter they are as good as lost.
struct Rational {
  std::vector<DoubleDouble> a, b;
  DoubleDouble h0;
  std::string method;
  std::optional<Roots> poles = {};
  std::optional<Numerator> numerator = {};  // of the whole but for `beside`; with its delay as long as the denominator
  DoubleDouble beside = 0.0;                // the part of h0 that is none of the numerator's
  std::optional<Numerator> whole = {};      // of h0 A + B, where it was found apart from the coefficients too
  // What rounding of the source's numbers may move a pole by; that of the pole itself where it is empty.
  std::function<double(std::complex<double>)> uncertainty = {};
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

// Of one input and one output: poles and zeros from the matrices alone, since the coefficients of a narrow filter need
// more than 106 bits. `coefficients` are what is known of them, from which the search for zeros starts.
Rational factors_of(const StateSpace& system, const MimoRational& coefficients);

}  // namespace rtf
