// Gramians of stable systems, as factors: products of matrices would lose half the digits of small singular values.
#pragma once

#include <Eigen/Core>
#include <span>

namespace rtf {

// R, of at most `order` rows, with R^T R = sum_k (A^T)^k C^T C A^k: the solution of X = A^T X A + C^T C, which is the
// observability Gramian. The reachability Gramian is that of (A^T, B^T).
// Squares of C's entries have to fit a double: divide it by 2^binary_exponent() first.
// Doubling: after step i the sum has 2^i terms. Throws ErrorCode::unstable when the powers of A do not die out.
Eigen::MatrixXd gramian_factor(const Eigen::MatrixXd& A, const Eigen::MatrixXd& C, const char* operation);

// 2^this is the largest modulus rounded to a power of two at least as large; 0 when all are zero.
int binary_exponent(std::span<const double> values);

}  // namespace rtf
