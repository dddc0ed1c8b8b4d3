#include "core/fit_denominator.h"

#include <Eigen/QR>
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/eigenvalues.h"
#include "core/hankel_system.h"
#include "core/minimum_phase.h"
#include "core/roots.h"

namespace rtf {

using Eigen::HouseholderQR;
using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

constexpr double epsilon = std::numeric_limits<double>::epsilon();

VectorXd vector(const std::vector<double>& x, Index size) {
  VectorXd result = VectorXd::Zero(size);
  std::copy(x.begin(), x.end(), result.begin());
  return result;
}

// A least-squares problem |z - R x| made of blocks of rows [columns | right side], one after the other.
class StackedProblem {
 public:
  explicit StackedProblem(Index unknowns) : rows_(0, unknowns + 1) {}

  void add(const MatrixXd& block) {
    MatrixXd grown(rows_.rows() + block.rows(), rows_.cols());
    grown << rows_, block;
    rows_ = std::move(grown);
    if (rows_.rows() <= rows_.cols()) return;
    const HouseholderQR<MatrixXd> qr(rows_);
    rows_ = qr.matrixQR().topRows(rows_.cols()).triangularView<Eigen::Upper>();
  }

  MatrixXd R() const { return rows_.topRows(count()).leftCols(rows_.cols() - 1); }
  VectorXd z() const { return rows_.col(rows_.cols() - 1).head(count()); }

 private:
  Index count() const { return std::min(rows_.rows(), rows_.cols() - 1); }

  MatrixXd rows_;
};

// In the change of a alone: numerators are eliminated by what their columns span.
StackedProblem linearized(const FitTarget& target, const FitPoint& point) {
  const HouseholderQR<MatrixXd> factors(target.numerator_columns(point.a));
  const MatrixXd rotated = factors.householderQ().adjoint() * target.data;
  const Index n = target.order, below = target.data.rows() - factors.matrixQR().cols();
  StackedProblem problem(n);
  for (Index c = 0; c < target.data.cols(); ++c) {
    MatrixXd columns = target.denominator_columns(point.a, target.data.col(c) - point.residual.col(c));
    columns.applyOnTheLeft(factors.householderQ().adjoint());
    MatrixXd block(below, n + 1);
    block << columns.bottomRows(below), rotated.col(c).tail(below);
    problem.add(block);
  }
  return problem;
}

// min |z - R x|^2 + |damping x|^2.
VectorXd damped_solution(const MatrixXd& R, const VectorXd& z, double damping) {
  const Index n = R.cols();
  MatrixXd rows(R.rows() + n, n);
  rows << R, MatrixXd(VectorXd::Constant(n, damping).asDiagonal());
  VectorXd right = VectorXd::Zero(rows.rows());
  right.head(z.size()) = z;
  return HouseholderQR<MatrixXd>(rows).solve(right);
}

// Poles outside the circle moved to their mirror images inside.
VectorXd reflected(const VectorXd& a) { return vector(minimum_phase(view(a)), a.size()); }

VectorXd with_poles_times(const VectorXd& a, double factor) {
  VectorXd scaled = a;
  double power = 1;
  for (double& value : scaled) value *= power *= factor;
  return scaled;
}

// Allowed with room to the circle: what is pressed against it would end at a pole that differs from 1 by rounding.
bool allows_with_room(const FitTarget& target, const VectorXd& a) {
  return target.allows(a) && target.allows(with_poles_times(a, 1 + 0x1p-20));
}

// All poles drawn towards zero until the target allows them.
VectorXd drawn_in(const FitTarget& target, const VectorXd& a) {
  for (double distance = 0x1p-10; distance < 1; distance *= 2) {
    VectorXd scaled = with_poles_times(a, 1 - distance);
    if (target.allows(scaled)) return scaled;
  }
  return VectorXd::Zero(a.size());
}

VectorXd characteristic(const MatrixXd& A, Index order) {
  const MatrixXd rows = A.transpose();  // eigenvalues() reads row by row
  const auto size = static_cast<std::size_t>(A.rows());
  const auto found = eigenvalues({rows.data(), rows.data() + rows.size()}, size, MatrixShape::dense, "fit");
  return vector(rounded(expand(paired_roots(found))), order);
}

// Where a step leads. One that leaves the circle is mirrored, or made shorter: poles that belong on the circle would
// only ever be thrown back by the mirror. Room to the circle is kept where the start has it. An error of infinity when
// neither helps.
FitPoint stepped(const FitTarget& target, const FitPoint& from, const VectorXd& step) {
  FitPoint none;
  none.error = std::numeric_limits<double>::infinity();
  if (!step.allFinite()) return none;
  const bool room = allows_with_room(target, from.a);
  const auto allows = [&](const VectorXd& a) { return room ? allows_with_room(target, a) : target.allows(a); };
  VectorXd a = from.a + step;
  if (allows(a)) return best_numerators(target, std::move(a));
  a = reflected(a);
  FitPoint mirrored = allows(a) ? best_numerators(target, std::move(a)) : std::move(none);
  if (mirrored.error < from.error) return mirrored;
  for (double part = 0.5; part > 0x1p-6; part *= 0.5) {
    a = from.a + part * step;
    if (allows(a)) return best_numerators(target, std::move(a));
  }
  return mirrored;
}

}  // namespace

FitPoint best_numerators(const FitTarget& target, VectorXd a) {
  LeastSquares best = target.numerators(a);
  const double error = best.residual.squaredNorm();
  return {std::move(a), std::move(best.solution), std::move(best.residual), error};
}

VectorXd prony_denominator(const FitTarget& target) {
  VectorXd a;
  if (const auto quick = target.quick_linear_solution()) {
    a = *quick;
  } else {
    StackedProblem problem(target.order);
    for (Index c = 0; c < target.data.cols(); ++c) problem.add(target.linear_equations(c));
    Eigen::CompleteOrthogonalDecomposition<MatrixXd> solver;
    solver.setThreshold(epsilon * static_cast<double>(target.data.rows()));
    a = solver.compute(problem.R()).solve(problem.z());
  }
  if (target.allows(a)) return a;
  const VectorXd inside = reflected(a);
  return target.allows(inside) ? inside : drawn_in(target, inside);
}

VectorXd hankel_denominator(const KernelTarget& target, VectorXd& values) {
  const Index n = target.order, rows = target.data.rows();
  const HankelSpectrum spectrum = hankel_spectrum(target.data, rows, n + 1);
  values = spectrum.values;
  VectorXd balanced = characteristic(balanced_system(spectrum, target.data, n).A, n);
  for (Index used = n / 2; !target.allows(balanced); used /= 2) {
    if (used == 0) {
      balanced.setZero();
      break;
    }
    const MatrixXd rest = target.data.bottomRows(rows - (n - used));
    balanced = characteristic(balanced_system(hankel_spectrum(rest, rest.rows(), used), rest, used).A, n);
  }
  if (has_died_out(target.data)) return balanced;
  // Past the samples ERA promises nothing, so it has to be much better on them.
  const VectorXd era = characteristic(era_system(target.data, n).A, n);
  const bool better =
      target.allows(era) && best_numerators(target, era).error < 0.25 * best_numerators(target, balanced).error;
  return better ? era : balanced;
}

FitPoint improve(const FitTarget& target, FitPoint point) {
  constexpr int most_steps = 50, most_trials = 10;
  constexpr double enough = 1e-4;         // relative decrease of the squared error that is still worth a step
  constexpr double little_damped = 1e-2;  // a step is small for want of something better, not for its damping
  double damping = 1e-3;
  const double exact = std::pow(epsilon, 2) * static_cast<double>(target.data.size());
  for (int step = 0, slow = 0; step < most_steps && slow < 2 && point.error > exact; ++step) {
    const StackedProblem problem = linearized(target, point);
    const MatrixXd R = problem.R();
    const VectorXd z = problem.z();
    const double scale = R.norm() / std::sqrt(static_cast<double>(target.order));
    bool better = false;
    for (int trial = 0; trial < most_trials && !better; ++trial) {
      FitPoint next = stepped(target, point, damped_solution(R, z, std::sqrt(damping) * scale));
      better = next.error < point.error;
      if (better) {
        const bool small = next.error > (1 - enough) * point.error;
        slow = !small ? 0 : damping <= little_damped ? slow + 1 : slow;
        point = std::move(next);
      }
      damping *= better ? (trial == 0 ? 0.2 : 1.0) : 5.0;
    }
    if (!better) break;
  }
  return point;
}

}  // namespace rtf
