#include "core/fit_group.h"

#include <cmath>
#include <limits>

#include "core/eigenvalues.h"
#include "core/fit_denominator.h"
#include "core/fit_rounding.h"
#include "core/hankel_system.h"
#include "core/polynomial.h"
#include "core/row_matrix.h"

namespace rtf {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

// Keeps the best of several denominators, judged by the filters that they make.
class Best {
 public:
  Best(const FitTarget& target, const MatrixXd& samples) : target_(target), samples_(samples) {}

  void consider(FitPoint candidate) {
    MatrixXd b = candidate.numerators * target_.norm.asDiagonal();
    const VectorXd errors = kernel_errors(candidate.a, b, samples_);
    double sum = 0;
    for (Index c = 0; c < errors.size(); ++c)
      if (target_.norm[c] > 0) sum += std::pow(errors[c] / target_.norm[c], 2);
    if (!(sum < error_)) return;
    error_ = sum;
    numerators = std::move(b);
    point = std::move(candidate);
  }

  FitPoint point;
  MatrixXd numerators;

 private:
  const FitTarget& target_;
  const MatrixXd& samples_;
  double error_ = std::numeric_limits<double>::infinity();
};

double radius(const MatrixXd& A) {
  const auto found = eigenvalues(values(A), static_cast<std::size_t>(A.rows()), MatrixShape::dense, "fit");
  return found.empty() ? 0 : std::abs(found.front());
}

VectorXd column_norms(const MatrixXd& x) {
  VectorXd norms(x.cols());
  for (Index c = 0; c < x.cols(); ++c) norms[c] = x.col(c).stableNorm();
  return norms;
}

}  // namespace

GroupSystem fit_group_system(const MatrixXd& samples, Index order) {
  GroupSystem result{MatrixXd(0, 0), VectorXd(0), MatrixXd(samples.cols(), 0), VectorXd(), column_norms(samples), 0};
  if (order == 0 || (samples.array() == 0).all()) return result;
  const KernelTarget target(samples, order);
  const Index rows = samples.rows();
  const HankelSpectrum spectrum = hankel_spectrum(target.data, rows, order + 1);
  HankelSystem best = balanced_system(spectrum, target.data, order);
  MatrixXd residual = target.data - best.kernels(rows);
  result.radius = radius(best.A);
  if (!has_died_out(target.data)) {
    // As for denominators: stable, and half the error.
    HankelSystem era = era_system(target.data, order);
    const double era_radius = radius(era.A);
    const MatrixXd left = target.data - era.kernels(rows);
    if (era_radius < 1 && left.squaredNorm() < 0.25 * residual.squaredNorm()) {
      best = std::move(era);
      residual = left;
      result.radius = era_radius;
    }
  }
  const VectorXd root = best.values.cwiseSqrt();
  result.A = root.asDiagonal() * best.A * root.cwiseInverse().asDiagonal();
  result.B = root.cwiseProduct(best.B);
  result.C = target.norm.asDiagonal() * best.C * root.cwiseInverse().asDiagonal();
  result.hankel = spectrum.values;
  if (samples.cols() == 1) result.hankel *= target.norm[0];
  result.errors = column_norms(residual).cwiseProduct(target.norm);
  return result;
}

GroupFit fit_group(const MatrixXd& samples, Index order, FitMethod method, std::span<const VectorXd> starts) {
  GroupFit result{VectorXd::Zero(order), MatrixXd::Zero(order, samples.cols()), VectorXd()};
  if (order >= samples.rows()) {  // numerators alone are enough
    result.b.topRows(samples.rows()) = samples;
    return result;
  }
  if (order == 0 || (samples.array() == 0).all()) return result;

  const KernelTarget target(samples, order);
  Best best(target, samples);
  if (method != FitMethod::prony) {
    best.consider(best_numerators(target, hankel_denominator(target, result.hankel)));
    if (samples.cols() == 1) result.hankel *= target.norm[0];
  }
  if (method != FitMethod::hankel) best.consider(best_numerators(target, prony_denominator(target)));
  for (const VectorXd& start : starts)
    if (target.allows(start)) best.consider(best_numerators(target, start));
  if (method == FitMethod::iterative) {
    best.consider(improve(target, best.point));
    if (auto rounded = rounded_together(target, best.point)) best.consider(*std::move(rounded));
  }
  result.a = std::move(best.point.a);
  result.b = std::move(best.numerators);
  return result;
}

MatrixXd fit_numerators(const MatrixXd& samples, const VectorXd& a) {
  const Index order = a.size(), rows = samples.rows();
  if (order < rows) {
    if (order == 0) return MatrixXd::Zero(0, samples.cols());
    const KernelTarget target(samples, order);
    return target.numerators(a).solution * target.norm.asDiagonal();
  }
  // As many numbers as samples: B = A h.
  MatrixXd b = MatrixXd::Zero(order, samples.cols());
  for (Index c = 0; c < samples.cols(); ++c) {
    const auto product = multiply(with_leading_one(view(a)), view(samples.col(c)), static_cast<std::size_t>(rows));
    b.col(c).head(rows) = Eigen::Map<const VectorXd>(product.data(), rows);
  }
  return b;
}

VectorXd kernel_errors(const VectorXd& a, const MatrixXd& b, const MatrixXd& samples) {
  VectorXd errors(samples.cols());
  for (Index c = 0; c < samples.cols(); ++c) {
    const auto response = divide_series(view(b.col(c)), view(a), static_cast<std::size_t>(samples.rows()) + 1);
    errors[c] = (Eigen::Map<const VectorXd>(response.data() + 1, samples.rows()) - samples.col(c)).stableNorm();
  }
  return errors;
}

}  // namespace rtf
