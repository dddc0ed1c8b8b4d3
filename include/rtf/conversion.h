// From one form of a channel to another, with a measured report. Everything in between is computed with 106 bits, so
// that what is lost is what the target's doubles cannot hold.
#pragma once

#include <algorithm>
#include <complex>
#include <cstddef>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "rtf/forms.h"
#include "rtf/mimo.h"
#include "rtf/state_space.h"
#include "rtf/transfer_function.h"

namespace rtf {

// One channel in any form. A TransferFunction here has one channel, a StateSpace one input and one output.
using System = std::variant<TransferFunction, PolynomialRatio, StateSpace, Modal, ZeroPoleGain, SecondOrderSections>;

// "tf", "ba", "ss", "modal", "zpk" or "sos".
const char* form_name(const System& system);

// Throws unless the numbers are finite, the sizes agree and complex values come with their conjugates.
void validate(const System& system, const char* operation);

// Whose zeros and gain a zpk has.
enum class FeedThrough {
  automatic,  // those that the source has, as zpk and sos do; else separate
  separate,   // of B = H - h0
  inside,     // of H itself with h0 = 0, as SciPy has it
};

// How a state space becomes a transfer function.
enum class StateSpaceMethod {
  automatic,    // markov, or where that is off by more than the rounding of doubles the one whose error is smaller
  eigenvalues,  // poles and zeros of the matrices in 106 bits; with several inputs or outputs, in double,
                // poly(eig(A)), and poly(eig(A - B C)) - poly(eig(A)) for a numerator
  markov,       // characteristic polynomial of the Hessenberg form, times C B, C A B, ... for a numerator
};

struct ConversionOptions {
  std::size_t report_length = 1024;  // samples that the report looks at
  FeedThrough feed_through = FeedThrough::automatic;
  StateSpaceMethod method = StateSpaceMethod::automatic;
};

struct ConversionReport {
  double error = 0;        // largest difference of the two kernels over the largest value of the source's, measured
  double condition = 1;    // relative change of the kernel for one of the numbers of either form, at least 1
  std::size_t length = 0;  // samples compared: less than asked for when the kernel outgrows a double
  std::string method;      // what was computed on the way
  // Of coefficients made from another form, what those samples do not show of a stable system: the largest difference
  // of both responses next to poles that are still heard after them, over the largest |H|; infinite where the
  // coefficients are not stable.
  double response_error = 0;

  double worst() const { return std::max(error, response_error); }
};

template <class Target>
struct Converted {
  Target value;
  ConversionReport report;
};

// A source that has the form already is copied. Throws when either measured error leaves not one digit, or that of the
// kernel is more than 1e-8 times the condition.
Converted<TransferFunction> to_transfer_function(const System& source, const ConversionOptions& options = {});
Converted<PolynomialRatio> to_polynomial_ratio(const System& source, const ConversionOptions& options = {});
// The companion form of every other form; of zpk, sos and modal, where that is off by more than 1e-12, or refused,
// realization() of rtf/reduce.h if it is closer.
Converted<StateSpace> to_state_space(const System& source, const ConversionOptions& options = {});
// Throws for poles that rounding of the denominator's coefficients could make equal.
Converted<Modal> to_modal(const System& source, const ConversionOptions& options = {});
// Poles and zeros largest modulus first.
Converted<ZeroPoleGain> to_zero_pole_gain(const System& source, const ConversionOptions& options = {});
// Poles nearest to the circle in the last section, those as near as each other far apart in turn, each pair with the
// zeros nearest to it; the gain in the first one.
Converted<SecondOrderSections> to_sections(const System& source, const ConversionOptions& options = {});

// Any number of inputs and outputs.
Converted<MimoTransferFunction> to_mimo_transfer_function(const StateSpace& source,
                                                          const ConversionOptions& options = {});

// One channel of several, and several of them as one value: of the largest order, with the denominators of
// neighbouring channels shared where they are equal. And apart again.
TransferFunction select_channel(const TransferFunction& tf, std::size_t channel);
TransferFunction join_channels(std::span<const TransferFunction> channels);
std::vector<System> split_channels(const TransferFunction& tf);

// Whether a channel is written as the ratio of two polynomials, tf or ba; every other form has poles of its own.
bool is_ratio(const System& channel);
// Whether it is written as factors, zpk or sos.
bool has_factors(const System& channel);

// The impulse response from the numbers of the form itself, in 106 bits inside. Throws when it overflows.
std::vector<double> kernel(const System& system, std::size_t length);

// Where the poles are, as in rtf/stability.h, from the numbers of the form itself: zpk, sos and modal have them, those
// of a state space are the eigenvalues of A, in 106 bits inside.
std::vector<std::complex<double>> poles(const System& system);
double pole_radius(const System& system);
bool is_stable(const System& system);

}  // namespace rtf
