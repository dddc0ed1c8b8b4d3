// From samples of a kernel, or of a frequency response, to a stable transfer function of a given order.
#pragma once

#include <complex>
#include <cstddef>
#include <span>
#include <vector>

#include "rtf/executor.h"
#include "rtf/state_space.h"
#include "rtf/transfer_function.h"

namespace rtf {

enum class FitMethod {
  hankel,     // balanced truncation from the singular vectors of the Hankel matrix (Kung, ERA); kernels only
  prony,      // linear prediction by least squares; Levy's method for a frequency response
  iterative,  // the better of these, then Levenberg-Marquardt: never worse than either in l2
};

struct FitOptions {
  std::size_t order = 0;
  FitMethod method = FitMethod::iterative;
  std::size_t groups = 0;  // denominators, shared by equal runs of channels; 0: one for each channel
};

// The fit is stable, and so conditioned that its recurrence can run: direct form in double does not hold many poles
// that lie close together, and a method whose poles do draws back to fewer of them.
struct Fit {
  TransferFunction tf;
  std::vector<double> error;   // (channels): |samples - fit| / |samples| in l2, 0 when both are zero
  std::vector<double> radius;  // (groups): largest pole modulus
  // Of a group, the leading order + 1 singular values of the Hankel matrix of the samples; not for prony. Of several
  // channels: of their matrices stacked, each kernel divided by its norm over samples 1, 2, .., as they are fitted, so
  // that a loud channel counts no more than a soft one; there what is below 1e-8 of the first value is rounding.
  std::vector<std::vector<double>> hankel;
};

// kernel is (channels, length), row by row.
Fit fit(std::span<const double> kernel, std::size_t channels, std::size_t length, const FitOptions& options,
        Executor& executor = default_executor());

struct StateSpaceFit {
  std::vector<StateSpace> systems;    // (channels): of the order asked for, or less where the samples need no more
  std::vector<double> error, radius;  // (channels), as in Fit
  std::vector<std::vector<double>> hankel;  // (groups), as in Fit
};

// FitMethod::hankel as balanced state spaces, which hold poles that lie close together: nothing is drawn back. Channels
// of a group have the same A and B. The Hankel norm of the error is at most twice the sum of the values cut off, for a
// kernel that is zero past its end.
StateSpaceFit fit_state_space(std::span<const double> kernel, std::size_t channels, std::size_t length,
                              const FitOptions& options, Executor& executor = default_executor());

// values are (channels, angles), H(e^{i angle}) at angles in radians a sample; weights one an angle, or empty for 1.
Fit fit_response(std::span<const double> angles, std::span<const std::complex<double>> values, std::size_t channels,
                 std::span<const double> weights, const FitOptions& options, Executor& executor = default_executor());

}  // namespace rtf
