#include "core/fit_target.h"

#include <Eigen/QR>
#include <algorithm>
#include <cmath>

#include "core/conditioning.h"
#include "core/polynomial.h"
#include "rtf/stability.h"

namespace rtf {

using Eigen::Index;
using Eigen::MatrixXcd;
using Eigen::MatrixXd;
using Eigen::VectorXcd;
using Eigen::VectorXd;

namespace {

// Ten times below what a recurrence is refused at: direct form then gives the fitted kernel to three digits and more.
constexpr double allowed_bound = refused_bound / 10;

// Samples over which the condition of a fit to a frequency response is judged.
constexpr std::size_t response_length = 4096;

bool holds(const VectorXd& a, std::size_t length) {
  return a.allFinite() && recurrence_bound(condition(view(a), length)) <= allowed_bound && is_stable(view(a));
}

// x / A as series, as long as x.
VectorXd divide(const VectorXd& x, const VectorXd& a) {
  const Index n = a.size();
  VectorXd padded = VectorXd::Zero(n + x.size());  // y behind n zeros, so that every sum has n terms
  const VectorXd reversed = a.reverse();
  for (Index t = 0; t < x.size(); ++t) padded[n + t] = x[t] - reversed.dot(padded.segment(t, n));
  return padded.tail(x.size());
}

// Column k is x delayed by first + k.
MatrixXd delays(const VectorXd& x, Index first, Index count) {
  MatrixXd columns = MatrixXd::Zero(x.size(), count);
  for (Index k = 0; k < count; ++k) columns.col(k).tail(x.size() - first - k) = x.head(x.size() - first - k);
  return columns;
}

}  // namespace

void FitTarget::set_data(MatrixXd values) {
  data = std::move(values);
  norm.resize(data.cols());
  for (Index c = 0; c < data.cols(); ++c) {
    norm[c] = data.col(c).stableNorm();
    if (norm[c] > 0) data.col(c) /= norm[c];
  }
}

LeastSquares FitTarget::numerators(const VectorXd& a) const {
  const Eigen::HouseholderQR<MatrixXd> factors(numerator_columns(a));
  const Index columns = factors.matrixQR().cols();
  LeastSquares result{MatrixXd(), factors.householderQ().adjoint() * data};
  result.solution = result.residual.topRows(columns);
  factors.matrixQR().topRows(columns).triangularView<Eigen::Upper>().solveInPlace(result.solution);
  result.residual.topRows(columns).setZero();
  result.residual.applyOnTheLeft(factors.householderQ());
  return result;
}

KernelTarget::KernelTarget(const MatrixXd& samples, Index order_) {
  order = order_;
  set_data(samples);
}

MatrixXd KernelTarget::numerator_columns(const VectorXd& a) const {
  return delays(divide(VectorXd::Unit(data.rows(), 0), a), 0, order);
}

MatrixXd KernelTarget::denominator_columns(const VectorXd& a, const VectorXd& response) const {
  return delays(-divide(response, a), 1, order);
}

// N reaches no further than sample `order`: linear prediction of those that follow.
MatrixXd KernelTarget::linear_equations(Index channel) const {
  const Index rows = data.rows() - order;
  MatrixXd equations(rows, order + 1);
  for (Index k = 1; k <= order; ++k) equations.col(k - 1) = -data.col(channel).segment(order - k, rows);
  equations.col(order) = data.col(channel).tail(rows);
  return equations;
}

LeastSquares KernelTarget::numerators(const VectorXd& a) const {
  VectorXd series = VectorXd::Zero(order - 1 + data.rows());
  series.tail(data.rows()) = divide(VectorXd::Unit(data.rows(), 0), a);
  auto quick = Toeplitz(std::move(series), order).solve(data);
  return quick ? *std::move(quick) : FitTarget::numerators(a);
}

std::optional<VectorXd> KernelTarget::quick_linear_solution() const {
  const Index rows = data.rows() - order;
  if (rows < order) return std::nullopt;
  const MatrixXd right = -data.bottomRows(rows).reshaped();
  const auto quick = Toeplitz(data.topRows(data.rows() - 1), order).solve(right);
  return quick ? std::optional<VectorXd>(quick->solution) : std::nullopt;
}

bool KernelTarget::allows(const VectorXd& a) const { return holds(a, static_cast<std::size_t>(data.rows()) + 1); }

ResponseTarget::ResponseTarget(std::span<const double> angles, const MatrixXcd& values, const VectorXd& weights,
                               Index order_)
    : w_(static_cast<Index>(angles.size())), weights_(weights) {
  order = order_;
  for (Index i = 0; i < w_.size(); ++i) w_[i] = std::polar(1.0, -angles[static_cast<std::size_t>(i)]);
  MatrixXd rows(2 * w_.size(), values.cols());
  rows << weights_.asDiagonal() * values.real(), weights_.asDiagonal() * values.imag();
  set_data(std::move(rows));
}

VectorXcd ResponseTarget::inverse_denominator(const VectorXd& a) const {
  VectorXcd value = VectorXcd::Zero(w_.size());
  for (Index k = a.size(); k-- > 0;) value = (value.array() + a[k]) * w_.array();
  return (value.array() + 1.0).inverse();
}

// w^k times the column for k = 1..order, real parts above imaginary parts.
MatrixXd ResponseTarget::powers(VectorXcd column) const {
  MatrixXd columns(2 * w_.size(), order);
  for (Index k = 0; k < order; ++k) {
    column.array() *= w_.array();
    columns.col(k) << column.real(), column.imag();
  }
  return columns;
}

MatrixXd ResponseTarget::numerator_columns(const VectorXd& a) const {
  MatrixXd columns(data.rows(), order + 1);
  columns << powers(inverse_denominator(a).cwiseProduct(weights_)), MatrixXd::Zero(data.rows(), 1);
  columns.col(order).head(w_.size()) = weights_;
  return columns;
}

// The weights are in the response.
MatrixXd ResponseTarget::denominator_columns(const VectorXd& a, const VectorXd& response) const {
  VectorXcd column(w_.size());
  column.real() = response.head(w_.size());
  column.imag() = response.tail(w_.size());
  return powers(-column.cwiseProduct(inverse_denominator(a)));
}

MatrixXd ResponseTarget::linear_equations(Index channel) const {
  const VectorXd none = VectorXd::Zero(order);
  MatrixXd equations(data.rows(), order + 1);
  equations << denominator_columns(none, data.col(channel)), data.col(channel);
  const Eigen::HouseholderQR<MatrixXd> numerators(numerator_columns(none));
  equations.applyOnTheLeft(numerators.householderQ().adjoint());
  return equations.bottomRows(data.rows() - (order + 1));
}

bool ResponseTarget::allows(const VectorXd& a) const { return holds(a, response_length); }

}  // namespace rtf
