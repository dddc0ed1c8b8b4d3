#include "rtf/reduce.h"

#include <Eigen/Core>
#include <Eigen/SVD>
#include <algorithm>
#include <cmath>
#include <complex>
#include <functional>
#include <limits>

#include "core/arguments.h"
#include "core/circle_point.h"
#include "core/circle_search.h"
#include "core/eigenvalues.h"
#include "core/form_response.h"
#include "core/form_scale.h"
#include "core/lattice.h"
#include "core/lyapunov.h"
#include "core/polynomial.h"
#include "core/rational.h"
#include "core/row_matrix.h"
#include "core/state_space_response.h"
#include "rtf/stability.h"

namespace rtf {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

// Times 2^exponent.
std::vector<double> scaled(std::span<const double> values, int exponent) {
  std::vector<double> result;
  for (const double value : values) result.push_back(std::ldexp(value, exponent));
  return result;
}

struct Truncated {
  MatrixXd A, B, C;
  VectorXd hankel;
  double bound;
};

// The square-root method: reachability is L L^T, observability R^T R, and R L = U S V^T holds all that is needed.
Truncated truncate(const MatrixXd& A, const MatrixXd& B, const MatrixXd& C, const MatrixXd& L, const MatrixXd& R,
                   Index order) {
  // Eigen 3.4's faster BDCSVD was seen to return values that are off and out of order.
  const Eigen::JacobiSVD<MatrixXd> svd(R * L, Eigen::ComputeThinU | Eigen::ComputeThinV);
  Truncated result;
  result.hankel = VectorXd::Zero(A.rows());
  result.hankel.head(svd.singularValues().size()) = svd.singularValues();
  const double none = std::numeric_limits<double>::epsilon() * static_cast<double>(A.rows()) * result.hankel[0];
  const Index rank = std::count_if(result.hankel.begin(), result.hankel.end(), [&](double s) { return s > none; });
  const Index kept = std::min(order, rank);
  const VectorXd root = result.hankel.head(kept).cwiseSqrt().cwiseInverse();
  const MatrixXd left = root.asDiagonal() * svd.matrixU().leftCols(kept).transpose() * R;
  const MatrixXd right = L * svd.matrixV().leftCols(kept) * root.asDiagonal();
  result.A = left * A * right;
  result.B = left * B;
  result.C = C * right;
  result.bound = 2 * result.hankel.tail(A.rows() - kept).sum();
  return result;
}

void check_order(std::size_t order, std::size_t present) {
  if (order > present)
    fail(ErrorCode::argument, "reduce", "order {} is above the order {} of the system; at most that is possible", order,
         present);
}

// One group of a transfer function as one input and an output for each channel, in the coordinates of its lattice:
// there L is the identity. Numerators are divided by 2^exponent, and with them all that is proportional to them.
Truncated truncate_group(const TransferFunction& tf, std::size_t group, std::size_t order, int exponent) {
  const std::size_t n = tf.order, members = tf.channels / tf.groups;
  const std::span<const double> a(tf.a.data() + group * n, n);
  MatrixXd A, B, C(static_cast<Index>(members), static_cast<Index>(n));
  for (std::size_t c = 0; c < members; ++c) {
    const std::vector<double> b = scaled(std::span(tf.b).subspan((group * members + c) * n, n), -exponent);
    const auto lattice = to_lattice(a, b);
    if (!lattice)
      fail(ErrorCode::unstable, "reduce",
           "denominator {} has a pole of modulus {:.9g}; balanced truncation needs every pole inside the circle: "
           "stabilize the filter first",
           group, pole_radius(a));
    if (c == 0) A = matrix(lattice->transition(), n, n), B = matrix(lattice->input(), n, 1);
    C.row(static_cast<Index>(c)) = Eigen::Map<const Eigen::RowVectorXd>(lattice->output.data(), static_cast<Index>(n));
  }
  const MatrixXd identity = MatrixXd::Identity(A.rows(), A.cols());
  return truncate(A, B, C, identity, gramian_factor(A, C, "reduce"), static_cast<Index>(order));
}

// Without eigenvalues and in 106 bits: of clustered poles, doubles on the way would lose more than what was cut.
void write_group(const Truncated& system, TransferFunction& tf, std::size_t group, int exponent) {
  StateSpace s;
  s.order = static_cast<std::size_t>(system.A.rows());
  s.inputs = 1;
  s.outputs = tf.channels / tf.groups;
  s.A = values(system.A);
  s.B = values(system.B);
  s.C = values(system.C);
  const MimoRational rational = to_rational(s, StateSpaceMethod::markov);
  for (std::size_t k = 0; k < s.order; ++k) tf.a[group * tf.order + k] = rational.a[k].high;
  for (std::size_t c = 0; c < s.outputs; ++c)
    for (std::size_t k = 0; k < s.order; ++k)
      tf.b[(group * s.outputs + c) * tf.order + k] = std::ldexp(rational.b[c * s.order + k].high, exponent);
}

}  // namespace

StateSpaceReduction reduce(const StateSpace& system, std::size_t order) {
  validate(system, "reduce");
  check_order(order, system.order);
  StateSpaceReduction result;
  result.system.inputs = system.inputs;
  result.system.outputs = system.outputs;
  result.system.D = system.D;
  if (system.order == 0) return result;
  // Of gains near the ends of the range of doubles the squares leave it. An even sum splits into two equal halves.
  const int reach_exponent = binary_exponent(system.B);
  const int exponent = reach_exponent + binary_exponent(system.C), both = exponent + exponent % 2;
  const MatrixXd A = matrix(system.A, system.order, system.order);
  const MatrixXd B = matrix(scaled(system.B, -reach_exponent), system.order, system.inputs);
  const MatrixXd C = matrix(scaled(system.C, reach_exponent - both), system.outputs, system.order);
  const MatrixXd reach = gramian_factor(A.transpose(), B.transpose(), "reduce");
  const Truncated truncated =
      truncate(A, B, C, reach.transpose(), gramian_factor(A, C, "reduce"), static_cast<Index>(order));
  result.system.order = static_cast<std::size_t>(truncated.A.rows());
  result.system.A = values(truncated.A);
  result.system.B = scaled(values(truncated.B), both / 2);
  result.system.C = scaled(values(truncated.C), both / 2);
  result.hankel = scaled({truncated.hankel.data(), system.order}, both);
  result.bound = std::ldexp(truncated.bound, both);
  return result;
}

double largest_difference(const StateSpace& one, const StateSpace& other, Executor& executor) {
  constexpr const char* operation = "largest_difference";
  validate(one, operation);
  validate(other, operation);
  if (one.inputs != other.inputs || one.outputs != other.outputs)
    fail(ErrorCode::argument, operation, "{} x {} inputs and outputs beside {} x {}", one.inputs, one.outputs,
         other.inputs, other.outputs);
  std::vector<std::complex<double>> poles;
  for (const StateSpace* system : {&one, &other})
    for (const auto& pole : eigenvalues(system->A, system->order, MatrixShape::dense, operation)) poles.push_back(pole);
  // Sums of gains next to the largest double overflow.
  const auto [near_one, exponent] = moderate(one);
  const auto [near_other, other_exponent] = moderate(other);
  const StateSpaceResponse x(near_one), y(rtf::scaled(near_other, other_exponent - exponent));
  const auto difference = [&](double angle) -> double {
    const Eigen::MatrixXcd d = x(angle) - y(angle);
    return d.size() == 1 ? std::abs(d(0, 0)) : Eigen::JacobiSVD<Eigen::MatrixXcd>(d).singularValues()[0];
  };
  return std::ldexp(largest_on_circle(difference, search_angles(poles), executor), exponent);
}

double largest_difference(const System& one, const System& other, Executor& executor) {
  constexpr const char* operation = "largest_difference";
  std::vector<std::complex<double>> of_both;
  for (const System* system : {&one, &other}) {
    validate(*system, operation);
    const auto* matrices = std::get_if<StateSpace>(system);
    for (const auto& pole :
         matrices ? eigenvalues(matrices->A, matrices->order, MatrixShape::dense, operation) : poles(*system))
      of_both.push_back(pole);
  }
  const auto response_of = [](const System& system) -> std::function<WideComplex(double)> {
    if (const auto* matrices = std::get_if<StateSpace>(&system))  // whose determinants in 106 bits would take long
      return [of = StateSpaceResponse(*matrices)](double angle) { return widened(of(angle)(0, 0)); };
    return [of = FormResponse(system)](double angle) { return of({std::cos(angle), std::sin(angle)}); };
  };
  const auto [near_one, exponent] = moderate(one);
  const auto [near_other, other_exponent] = moderate(other);
  const auto x = response_of(near_one), y = response_of(rtf::scaled(near_other, other_exponent - exponent));
  const auto difference = [&](double angle) { return std::abs(rounded(x(angle) - y(angle))); };
  return std::ldexp(largest_on_circle(difference, search_angles(of_both), executor), exponent);
}

Reduction reduce(const TransferFunction& tf, std::size_t order, Executor& executor) {
  validate(tf, "reduce");
  check_order(order, tf.order);
  Reduction result;
  result.tf = make_coefficients(tf.channels, tf.groups, order);
  result.tf.h0 = tf.h0;
  result.hankel.resize(tf.groups);
  result.bound.assign(tf.groups, 0.0);
  result.error.assign(tf.channels, 0.0);
  if (tf.order == 0) return result;
  if (order == tf.order) result.tf = tf;
  std::vector<std::vector<double>> angles(tf.groups);
  parallel_for(executor, tf.groups, [&](std::size_t g, std::size_t) {
    const std::size_t count = tf.b.size() / tf.groups;
    const int exponent = binary_exponent(std::span(tf.b).subspan(g * count, count));
    const Truncated truncated = truncate_group(tf, g, order, exponent);
    result.hankel[g] = scaled({truncated.hankel.data(), tf.order}, exponent);
    if (order == tf.order) return;  // the filter itself
    write_group(truncated, result.tf, g, exponent);
    result.bound[g] = std::ldexp(truncated.bound, exponent);
    std::vector<std::complex<double>> of_both = poles(std::span(tf.a).subspan(g * tf.order, tf.order));
    for (const auto& pole : poles(std::span(result.tf.a).subspan(g * order, order))) of_both.push_back(pole);
    angles[g] = search_angles(of_both);
  });
  if (order == tf.order) return result;
  const CoefficientsView full(tf), reduced(result.tf);
  for (std::size_t c = 0; c < tf.channels; ++c) {
    const auto difference = [&](double angle) {
      return std::abs(circle_point(full, c, angle).response() - circle_point(reduced, c, angle).response());
    };
    result.error[c] = largest_on_circle(difference, angles[tf.group_of(c)], executor);
  }
  return result;
}

}  // namespace rtf
