#include "rtf/fit.h"

#include <algorithm>
#include <cmath>

#include "core/arguments.h"
#include "core/fit_denominator.h"
#include "core/fit_group.h"
#include "core/row_matrix.h"
#include "rtf/stability.h"

namespace rtf {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

// Zero when both are.
double relative(double error, double whole) { return whole > 0 ? error / whole : error; }

std::size_t check_groups(const char* operation, std::size_t channels, const FitOptions& options) {
  if (channels < 1) fail(ErrorCode::argument, operation, "channels is 0; at least 1 is needed");
  const std::size_t groups = options.groups == 0 ? channels : options.groups;
  if (channels % groups != 0)
    fail(ErrorCode::argument, operation, "{} groups do not divide {} channels", groups, channels);
  return groups;
}

std::size_t check_kernel(const char* operation, std::span<const double> kernel, std::size_t channels,
                         std::size_t length, const FitOptions& options) {
  const std::size_t groups = check_groups(operation, channels, options);
  if (length < 1) fail(ErrorCode::argument, operation, "length is 0; at least 1 is needed");
  if (kernel.size() % channels != 0 || kernel.size() / channels != length)
    fail(ErrorCode::argument, operation, "kernel has {} values, expected ({}, {})", kernel.size(), channels, length);
  for (std::size_t i = 0; i < kernel.size(); ++i)
    if (!std::isfinite(kernel[i]))
      fail(ErrorCode::argument, operation, "kernel[{}][{}] is {}; samples must be finite", i / length, i % length,
           kernel[i]);
  return groups;
}

Fit empty_fit(std::size_t channels, std::size_t groups, std::size_t order) {
  Fit result;
  result.tf = make_coefficients(channels, groups, order);
  result.error.assign(channels, 0.0);
  result.radius.assign(groups, 0.0);
  result.hankel.resize(groups);
  return result;
}

}  // namespace

Fit fit(std::span<const double> kernel, std::size_t channels, std::size_t length, const FitOptions& options,
        Executor& executor) {
  const std::size_t groups = check_kernel("fit", kernel, channels, length, options), n = options.order;
  Fit result = empty_fit(channels, groups, n);
  const std::size_t members = channels / groups;
  const Eigen::Map<const MatrixXd> columns(kernel.data(), static_cast<Index>(length), static_cast<Index>(channels));
  parallel_for(executor, groups, [&](std::size_t g, std::size_t) {
    const auto first = static_cast<Index>(g * members), count = static_cast<Index>(members);
    const MatrixXd samples = columns.middleCols(first, count).bottomRows(static_cast<Index>(length) - 1);
    const GroupFit one = fit_group(samples, static_cast<Index>(n), options.method);
    std::copy(one.a.begin(), one.a.end(), result.tf.a.begin() + static_cast<std::ptrdiff_t>(g * n));
    std::copy_n(one.b.data(), one.b.size(), result.tf.b.begin() + first * static_cast<Index>(n));
    result.radius[g] = pole_radius({one.a.data(), n});
    result.hankel[g].assign(one.hankel.begin(), one.hankel.end());
    const VectorXd errors = kernel_errors(one.a, one.b, samples);
    for (Index c = 0; c < count; ++c) {
      const auto channel = static_cast<std::size_t>(first + c);
      result.tf.h0[channel] = columns(0, first + c);
      result.error[channel] = relative(errors[c], columns.col(first + c).stableNorm());
    }
  });
  return result;
}

StateSpaceFit fit_state_space(std::span<const double> kernel, std::size_t channels, std::size_t length,
                              const FitOptions& options, Executor& executor) {
  constexpr const char* operation = "fit_state_space";
  const std::size_t groups = check_kernel(operation, kernel, channels, length, options), members = channels / groups;
  if (options.method != FitMethod::hankel)
    fail(ErrorCode::unsupported, operation, "only method hankel has a state space; the others fit coefficients");
  StateSpaceFit result;
  result.systems.resize(channels);
  result.error.assign(channels, 0.0);
  result.radius.assign(channels, 0.0);
  result.hankel.resize(groups);
  const Eigen::Map<const MatrixXd> columns(kernel.data(), static_cast<Index>(length), static_cast<Index>(channels));
  parallel_for(executor, groups, [&](std::size_t g, std::size_t) {
    const auto first = static_cast<Index>(g * members), count = static_cast<Index>(members);
    const MatrixXd samples = columns.middleCols(first, count).bottomRows(static_cast<Index>(length) - 1);
    const GroupSystem one = fit_group_system(samples, static_cast<Index>(options.order));
    result.hankel[g].assign(one.hankel.begin(), one.hankel.end());
    for (Index c = 0; c < count; ++c) {
      const auto channel = static_cast<std::size_t>(first + c);
      StateSpace& s = result.systems[channel];
      s.order = static_cast<std::size_t>(one.A.rows());
      s.A = values(one.A);
      s.B = values(one.B);
      s.C = values(one.C.row(c));
      s.D = {columns(0, first + c)};
      result.radius[channel] = one.radius;
      result.error[channel] = relative(one.errors[c], columns.col(first + c).stableNorm());
    }
  });
  return result;
}

Fit fit_response(std::span<const double> angles, std::span<const std::complex<double>> values, std::size_t channels,
                 std::span<const double> weights, const FitOptions& options, Executor& executor) {
  const std::size_t groups = check_groups("fit_response", channels, options), n = options.order, count = angles.size();
  if (options.method == FitMethod::hankel)
    fail(ErrorCode::unsupported, "fit_response",
         "method hankel needs a kernel; use prony or iterative, or fit the inverse transform of the values");
  if (values.size() % channels != 0 || values.size() / channels != count)
    fail(ErrorCode::argument, "fit_response", "{} values, expected ({}, {})", values.size(), channels, count);
  if (!weights.empty()) check_count("fit_response", "weights", weights.size(), count);
  for (std::size_t i = 0; i < count; ++i) {
    if (!std::isfinite(angles[i]))
      fail(ErrorCode::argument, "fit_response", "angle {} is {}; angles must be finite", i, angles[i]);
    if (!weights.empty() && !(std::isfinite(weights[i]) && weights[i] >= 0))
      fail(ErrorCode::argument, "fit_response", "weight {} is {}; weights must be finite, and not negative", i,
           weights[i]);
  }
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values[i].real()) || !std::isfinite(values[i].imag()))
      fail(ErrorCode::argument, "fit_response", "value {} of channel {} is not finite", i % count, i / count);
  // Two numbers an angle; for each unknown one number is needed at least.
  const std::size_t unknown = 2 * n + 1;
  if (2 * count < unknown)
    fail(ErrorCode::argument, "fit_response", "{} angles; order {} has {} unknown numbers and needs at least {}", count,
         n, unknown, (unknown + 1) / 2);

  Fit result = empty_fit(channels, groups, n);
  const std::size_t members = channels / groups;
  const Eigen::Map<const Eigen::MatrixXcd> columns(values.data(), static_cast<Index>(count),
                                                   static_cast<Index>(channels));
  const VectorXd weight = weights.empty()
                              ? VectorXd(VectorXd::Ones(static_cast<Index>(count)))
                              : VectorXd(Eigen::Map<const VectorXd>(weights.data(), static_cast<Index>(count)));
  parallel_for(executor, groups, [&](std::size_t g, std::size_t) {
    const auto first = static_cast<Index>(g * members), size = static_cast<Index>(members);
    const ResponseTarget target(angles, columns.middleCols(first, size), weight, static_cast<Index>(n));
    FitPoint point = best_numerators(target, n == 0 ? VectorXd() : prony_denominator(target));
    if (options.method == FitMethod::iterative && n > 0) point = improve(target, std::move(point));
    const MatrixXd numerators = point.numerators * target.norm.asDiagonal();
    std::copy(point.a.begin(), point.a.end(), result.tf.a.begin() + static_cast<std::ptrdiff_t>(g * n));
    result.radius[g] = pole_radius({point.a.data(), n});
    for (Index c = 0; c < size; ++c) {
      const auto channel = static_cast<std::size_t>(first + c);
      std::copy_n(numerators.col(c).data(), n, result.tf.b.begin() + static_cast<std::ptrdiff_t>(channel * n));
      result.tf.h0[channel] = numerators(static_cast<Index>(n), c);
      result.error[channel] = point.residual.col(c).norm();
    }
  });
  return result;
}

}  // namespace rtf
