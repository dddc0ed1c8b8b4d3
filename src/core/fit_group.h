// The fit of one denominator to the kernels of the channels that share it.
#pragma once

#include <Eigen/Core>
#include <span>

#include "rtf/fit.h"

namespace rtf {

// b of channel c is column c; hankel as in Fit.
struct GroupFit {
  Eigen::VectorXd a;
  Eigen::MatrixXd b;
  Eigen::VectorXd hankel;
};

// samples are h_1..h_m of every channel (m, channels). `starts` are more denominators to begin from.
GroupFit fit_group(const Eigen::MatrixXd& samples, Eigen::Index order, FitMethod method,
                   std::span<const Eigen::VectorXd> starts = {});

// Balanced: both Gramians are diagonal and equal. hankel as in Fit, errors as kernel_errors.
struct GroupSystem {
  Eigen::MatrixXd A;
  Eigen::VectorXd B;
  Eigen::MatrixXd C;  // (channels, states)
  Eigen::VectorXd hankel, errors;
  double radius = 0;  // largest pole modulus
};

GroupSystem fit_group_system(const Eigen::MatrixXd& samples, Eigen::Index order);

// The best numerators (order, channels) for a given denominator.
Eigen::MatrixXd fit_numerators(const Eigen::MatrixXd& samples, const Eigen::VectorXd& a);

// |samples - response| in l2 of each channel, of the filter as its recurrence runs.
Eigen::VectorXd kernel_errors(const Eigen::VectorXd& a, const Eigen::MatrixXd& b, const Eigen::MatrixXd& samples);

}  // namespace rtf
