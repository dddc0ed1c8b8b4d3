#include "core/lyapunov.h"

#include <Eigen/QR>

#include "core/arguments.h"

namespace rtf {

Eigen::MatrixXd gramian_factor(const Eigen::MatrixXd& A, const Eigen::MatrixXd& C, const char* operation) {
  const Eigen::Index n = A.rows();
  Eigen::MatrixXd power = A, factor = C;
  // A radius of 1 - 2^-53 dies out after 2^58 terms.
  for (int doubling = 0; doubling < 60; ++doubling) {
    const Eigen::MatrixXd next = factor * power;
    if (!next.allFinite()) break;
    // What is left adds at most its square to a Gramian of this size.
    if (next.norm() <= 1e-17 * factor.norm()) return factor;
    Eigen::MatrixXd stacked(factor.rows() + next.rows(), n);
    stacked << factor, next;
    if (stacked.rows() > n) {
      const Eigen::HouseholderQR<Eigen::MatrixXd> qr(stacked);
      factor = qr.matrixQR().topRows(n).triangularView<Eigen::Upper>();
    } else {
      factor = std::move(stacked);
    }
    power = (power * power).eval();
  }
  fail(ErrorCode::unstable, operation, "the powers of A do not die out: a Gramian needs a stable system");
}

}  // namespace rtf
