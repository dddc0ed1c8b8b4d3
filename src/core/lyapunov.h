// Gramians of stable systems, as factors: products of matrices would lose half the digits of small singular values.
#pragma once

#include <Eigen/Core>

namespace rtf {

// R, of at most `order` rows, with R^T R = sum_k (A^T)^k C^T C A^k: the solution of X = A^T X A + C^T C, which is the
// observability Gramian. The reachability Gramian is that of (A^T, B^T).
// Squares of C's entries have to fit a double: divide it by a power of two first.
// Doubling: after step i the sum has 2^i terms. Throws ErrorCode::unstable when the powers of A do not die out.
Eigen::MatrixXd gramian_factor(const Eigen::MatrixXd& A, const Eigen::MatrixXd& C, const char* operation);

}  // namespace rtf
