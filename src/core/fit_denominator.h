// Denominators for a FitTarget: three ways to find one, each better judged by the numerators that go with it.
#pragma once

#include <Eigen/Core>

#include "core/fit_target.h"

namespace rtf {

// A denominator and the best numerators for it.
struct FitPoint {
  Eigen::VectorXd a;
  Eigen::MatrixXd numerators;  // (columns, channels), for the data as divided by their norms
  Eigen::MatrixXd residual;    // (rows, channels)
  double error = 0;            // sum of squares of the residual, over all channels
};

FitPoint best_numerators(const FitTarget& target, Eigen::VectorXd a);

// Linear least squares for the equation A data = N: linear prediction for a kernel (Prony), Levy's method for a
// frequency response. Of several solutions the smallest; poles outside the circle are reflected.
Eigen::VectorXd prony_denominator(const FitTarget& target);

// Balanced truncation of the samples, taken as zero past their end. When direct form does not hold so many poles, a
// half, a quarter, .. of them is spent on what follows the first samples, which numerators alone reproduce. Where that
// halves the error, the shift invariance of the part of the Hankel matrix that the samples fill (ERA) instead: it is
// exact for kernels that are cut short. `values` gets the leading order + 1 singular values.
Eigen::VectorXd hankel_denominator(const KernelTarget& target, Eigen::VectorXd& values);

// Levenberg-Marquardt on the denominator, numerators eliminated, from a denominator that the target allows to a better
// one or the same.
FitPoint improve(const FitTarget& target, FitPoint start);

}  // namespace rtf
