// What a rational function is fitted to, as linear least squares sees it. Given a denominator, the numerators of all
// channels follow by one factorisation; what is left is a problem in the denominator alone.
#pragma once

#include <Eigen/Core>
#include <complex>
#include <optional>
#include <span>

#include "core/toeplitz.h"

namespace rtf {

inline std::span<const double> view(const Eigen::VectorXd& x) { return {x.data(), static_cast<std::size_t>(x.size())}; }

class FitTarget {
 public:
  virtual ~FitTarget() = default;

  Eigen::Index order = 0;
  Eigen::MatrixXd data;  // (rows, channels), each column divided by its norm
  Eigen::VectorXd norm;  // (channels)

  // The responses that numerators weight, one a column: at least `order` of them.
  virtual Eigen::MatrixXd numerator_columns(const Eigen::VectorXd& a) const = 0;
  // How a response of this denominator changes with a_1..a_order: -w^k / A times the response.
  virtual Eigen::MatrixXd denominator_columns(const Eigen::VectorXd& a, const Eigen::VectorXd& response) const = 0;
  // The equations A data = N of a channel with N eliminated, for linear least squares in a: |last column - others a|.
  virtual Eigen::MatrixXd linear_equations(Eigen::Index channel) const = 0;
  // The numerators that are best for a, (columns, channels), and what they leave of the data.
  virtual LeastSquares numerators(const Eigen::VectorXd& a) const;
  // The solution of the linear equations of all channels, where a quick way holds its digits.
  virtual std::optional<Eigen::VectorXd> quick_linear_solution() const { return std::nullopt; }
  // Stable, and a recurrence of this denominator keeps its digits.
  virtual bool allows(const Eigen::VectorXd& a) const = 0;

 protected:
  void set_data(Eigen::MatrixXd values);
};

// h_1..h_m of every channel (rows, channels); numerators are b_1..b_order.
class KernelTarget : public FitTarget {
 public:
  KernelTarget(const Eigen::MatrixXd& samples, Eigen::Index order);

  Eigen::MatrixXd numerator_columns(const Eigen::VectorXd& a) const override;
  Eigen::MatrixXd denominator_columns(const Eigen::VectorXd& a, const Eigen::VectorXd& response) const override;
  Eigen::MatrixXd linear_equations(Eigen::Index channel) const override;
  LeastSquares numerators(const Eigen::VectorXd& a) const override;
  std::optional<Eigen::VectorXd> quick_linear_solution() const override;
  bool allows(const Eigen::VectorXd& a) const override;
};

// Values at angles (angles, channels) times weights; rows are the real parts, then the imaginary parts. Numerators are
// b_1..b_order and h0.
class ResponseTarget : public FitTarget {
 public:
  ResponseTarget(std::span<const double> angles, const Eigen::MatrixXcd& values, const Eigen::VectorXd& weights,
                 Eigen::Index order);

  Eigen::MatrixXd numerator_columns(const Eigen::VectorXd& a) const override;
  Eigen::MatrixXd denominator_columns(const Eigen::VectorXd& a, const Eigen::VectorXd& response) const override;
  Eigen::MatrixXd linear_equations(Eigen::Index channel) const override;
  bool allows(const Eigen::VectorXd& a) const override;

 private:
  Eigen::VectorXcd inverse_denominator(const Eigen::VectorXd& a) const;
  Eigen::MatrixXd powers(Eigen::VectorXcd column) const;

  Eigen::VectorXcd w_;  // e^{-i angle}
  Eigen::VectorXd weights_;
};

}  // namespace rtf
