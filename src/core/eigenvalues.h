// Eigenvalues of a real matrix after balancing.
#pragma once

#include <complex>
#include <cstddef>
#include <vector>

namespace rtf {

enum class MatrixShape { dense, hessenberg };  // hessenberg: nothing below the first subdiagonal

// Of a (size, size) matrix given row by row: largest modulus first, a pair side by side with the upper one ahead and
// exact conjugates of each other. Errors begin with `operation`.
std::vector<std::complex<double>> eigenvalues(const std::vector<double>& matrix, std::size_t size, MatrixShape shape,
                                              const char* operation);

// The z for which z right - left is singular, both (size, size): largest modulus first, pairs as above. Of a singular
// `right` some are infinite, or so large that rounding may have made them. None when the iteration does not converge.
std::vector<std::complex<double>> pencil_eigenvalues(const std::vector<double>& left, const std::vector<double>& right,
                                                     std::size_t size);

// Eigenvalues and what rounding of the matrix, every number by half an ulp, may move each of them by: to first order,
// in double.
struct Uncertain {
  std::complex<double> value;
  double radius;
};
std::vector<Uncertain> uncertain_eigenvalues(const std::vector<double>& matrix, std::size_t size);

}  // namespace rtf
