// The dominant part of a Hankel matrix, without the matrix.
#pragma once

#include <Eigen/Core>

namespace rtf {

// Singular values, largest first, and the right singular vectors that belong to them.
struct HankelSpectrum {
  Eigen::VectorXd values;
  Eigen::MatrixXd vectors;  // (size, count)
};

// Of the Hankel matrices h[i + j], 0 <= i, j < size, of all columns of `samples`, stacked; what lies past the samples
// is zero. `count` of them, or `size`. One column: relative to the largest value right to rounding, several: to the
// root of it. Lanczos with products by FFT, O(count size (count + log size)); always the same start.
HankelSpectrum hankel_spectrum(const Eigen::MatrixXd& samples, Eigen::Index size, Eigen::Index count);

}  // namespace rtf
