// State spaces from the singular vectors of a Hankel matrix: well conditioned whatever their poles are.
#pragma once

#include <Eigen/Core>

#include "core/hankel.h"

namespace rtf {

// x' = A x + B u, one output a channel; reachability Gramian I.
struct HankelSystem {
  Eigen::MatrixXd A;
  Eigen::VectorXd B;
  Eigen::MatrixXd C;       // (channels, states)
  Eigen::VectorXd values;  // singular values, one a state

  // C A^(t-1) B for t = 1, 2, .., one column a channel.
  Eigen::MatrixXd kernels(Eigen::Index length) const;
};

// Balanced truncation to `order` of kernels that are zero past their end, given the spectrum of all of them: there the
// state is shifted by the projection of the shift onto the leading vectors.
HankelSystem balanced_system(const HankelSpectrum& spectrum, const Eigen::MatrixXd& samples, Eigen::Index order);

// Of the square part of the Hankel matrix that the samples fill: its vectors, shifted, are combinations of themselves
// (ERA). Exact for kernels that are cut short, and perhaps not stable.
HankelSystem era_system(const Eigen::MatrixXd& samples, Eigen::Index order);

// Whether the end of the samples is as good as zero.
bool has_died_out(const Eigen::MatrixXd& samples);

}  // namespace rtf
