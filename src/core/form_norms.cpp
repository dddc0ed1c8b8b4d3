// Norms of one channel from the numbers of its form: narrow filters have them, whatever doubles hold of coefficients.
#include <Eigen/Core>
#include <array>
#include <cmath>
#include <limits>
#include <mutex>
#include <numbers>
#include <optional>
#include <utility>

#include "core/circle_point.h"
#include "core/circle_search.h"
#include "core/factor_response.h"
#include "core/form_scale.h"
#include "core/lyapunov.h"
#include "core/row_matrix.h"
#include "rtf/cascade.h"
#include "rtf/reduce.h"
#include "rtf/response.h"

namespace rtf {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// tf and ba have norms of their own.
std::optional<TransferFunction> coefficients(const System& channel) {
  if (const auto* tf = std::get_if<TransferFunction>(&channel)) return *tf;
  if (std::holds_alternative<PolynomialRatio>(channel)) return to_transfer_function(channel).value;
  return {};
}

// The root of the mean of |H|^2 on the circle. Between the angles of a search no pole is nearer than twice their
// distance, so that what eight nodes of Gauss and Legendre miss there is below 8^-16. Powers of matrices, of which a
// Gramian is made, would lose poles next to the circle that are close together.
double integrated_norm(const System& factors) {
  constexpr std::array<std::pair<double, double>, 4> nodes = {{{0.18343464249564980494, 0.36268378337836198297},
                                                               {0.52553240991632898582, 0.31370664587788728734},
                                                               {0.79666647741362673959, 0.22238103445337447054},
                                                               {0.96028985649753623168, 0.10122853629037625915}}};
  const std::vector<double> ends = search_angles(poles(factors));
  std::vector<double> angles, weights;
  for (std::size_t i = 1; i < ends.size(); ++i) {
    const double half = 0.5 * (ends[i] - ends[i - 1]), middle = ends[i - 1] + half;
    for (const auto& [node, weight] : nodes)
      for (const double side : {-1.0, 1.0}) {
        angles.push_back(middle + side * half * node);
        weights.push_back(half * weight);
      }
  }
  const std::vector<std::complex<double>> values = frequency_response(factors, angles);
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) sum += weights[i] * std::norm(values[i]);
  return std::sqrt(sum / std::numbers::pi);
}

}  // namespace

double h2_norm(const System& channel) {
  validate(channel, "h2_norm");
  if (const auto tf = coefficients(channel)) return h2_norm(*tf)[0];
  if (!is_stable(channel)) return infinity;
  const auto [near, exponent] = moderate(channel);
  if (has_factors(near)) return std::ldexp(integrated_norm(near), exponent);
  const StateSpace s = realization(near);
  if (s.order == 0) return std::abs(std::ldexp(s.D[0], exponent));
  const Eigen::MatrixXd R = gramian_factor(matrix(s.A, s.order, s.order), matrix(s.C, 1, s.order), "h2_norm");
  return std::ldexp(std::hypot(s.D[0], (R * matrix(s.B, s.order, 1)).norm()), exponent);
}

std::vector<double> hankel_singular_values(const System& channel) {
  constexpr const char* operation = "hankel_singular_values";
  validate(channel, operation);
  if (const auto tf = coefficients(channel)) return hankel_singular_values(*tf);
  return reduce(realization(channel), 0).hankel;
}

Peak h_infinity_norm(const System& channel) {
  validate(channel, "h_infinity_norm");
  if (const auto tf = coefficients(channel)) return h_infinity_norm(*tf)[0];
  if (!is_stable(channel)) return {infinity, std::numeric_limits<double>::quiet_NaN()};
  const auto [near, exponent] = moderate(channel);
  const System factors = has_factors(near) ? near : System(to_sections(near).value);
  const auto* zpk = std::get_if<ZeroPoleGain>(&factors);
  const std::optional<FactorResponse> direct =
      zpk ? std::optional<FactorResponse>(std::in_place, *zpk, "h_infinity_norm") : std::nullopt;
  const Cascade cascade = zpk ? Cascade() : to_cascade({&factors, 1});
  const std::vector<CoefficientsView> stages(cascade.stages.begin(), cascade.stages.end());
  Peak best{-1, 0};
  std::mutex guard;
  const auto value = [&](double angle) {
    std::complex<double> product = direct ? (*direct)(angle) : 1.0;
    for (const CoefficientsView& stage : stages) product *= circle_point(stage, 0, angle).response();
    const double found = std::abs(product);
    const std::lock_guard lock(guard);
    // Of equal values the first angle, in whatever order they come.
    if (found > best.value || (found == best.value && angle < best.angle)) best = {found, angle};
    return found;
  };
  largest_on_circle(value, search_angles(poles(factors)), default_executor());
  best.value = std::ldexp(best.value, exponent);
  return best;
}

}  // namespace rtf
