#include "rtf/stabilize.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <span>

#include "core/arguments.h"
#include "core/fit_group.h"
#include "core/magnitude_change.h"
#include "core/polynomial.h"
#include "core/roots.h"
#include "rtf/correction.h"
#include "rtf/kernel.h"
#include "rtf/response.h"
#include "rtf/stability.h"

namespace rtf {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double infinity = std::numeric_limits<double>::infinity();

std::span<const double> denominator(const Coefficients& c, std::size_t group) {
  return std::span(c.a).subspan(group * c.order, c.order);
}

bool needs_change(const Coefficients& c, std::size_t group, StabilizeMethod method) {
  const auto a = denominator(c, group);
  return method == StabilizeMethod::montel ? l1_norm(a) > montel_norm : !is_stable(a);
}

enum class Reflection { done, on_circle, not_held };

// Whether A vanishes beside the root, on the circle. What is left of an exact zero is far below what rounding leaves of
// any other, also when the root is repeated and so known to half the digits.
bool is_on_circle(std::span<const DoubleDouble> a, const WideComplex& root) {
  const DoubleDouble square = norm(root);
  if (!(std::abs(square.high - 1) < 0x1p-20)) return false;
  DoubleDouble inverse = 1 / std::sqrt(square.high);
  inverse = inverse + inverse * (DoubleDouble(1.0) - square * inverse * inverse) * DoubleDouble(0.5);
  const WideComplex point = root * WideComplex(inverse);
  WideComplex value(1.0);
  double sum = 1;
  for (const DoubleDouble& coefficient : a) {
    value = value * point + WideComplex(coefficient);
    sum += std::abs(coefficient.high);
  }
  return std::abs(rounded(value)) < 0x1p-64 * sum;
}

// Mirrors the poles outside the circle. |1 - p w| = |p| |1 - w / conj(p)| there, so the whole numerator h0 A + B is
// divided by their product. In 106 bits, because roots of many coefficients in double would change |H|.
Reflection reflect_group(Coefficients& c, std::size_t group) {
  const std::size_t n = c.order, members = c.channels / c.groups;
  const auto given = denominator(c, group);
  const std::vector<DoubleDouble> a(given.begin(), given.end());
  Roots roots = find_roots(a, "stabilize");
  DoubleDouble product = 1.0;
  for (DoubleDouble& pole : roots.real) {
    if (is_on_circle(a, pole)) return Reflection::on_circle;
    if (!(DoubleDouble(1.0) < abs(pole))) continue;
    product = product * abs(pole);
    pole = reciprocal(pole);
  }
  for (WideComplex& pole : roots.upper) {
    if (is_on_circle(a, pole)) return Reflection::on_circle;
    if (!(DoubleDouble(1.0) < norm(pole))) continue;
    product = product * norm(pole);
    pole = reciprocal(conj(pole));
  }
  const std::vector<double> mirrored = rounded(expand(roots));
  const DoubleDouble inverse = reciprocal(product);
  if (!std::isfinite(product.high) || !std::isfinite(inverse.high) || !is_stable(mirrored)) return Reflection::not_held;
  std::copy(mirrored.begin(), mirrored.end(), c.a.begin() + static_cast<std::ptrdiff_t>(group * n));
  for (std::size_t channel = group * members; channel < (group + 1) * members; ++channel) {
    const std::span<double> b(c.b.data() + channel * n, n);
    double& h0 = c.h0[channel];
    const int exponent = std::max(binary_exponent(b), binary_exponent({&h0, 1}));  // products of 106 bits need room
    const DoubleDouble old_h0 = std::ldexp(h0, -exponent), new_h0 = (old_h0 * inverse).high;
    for (std::size_t k = 0; k < n; ++k) {
      const DoubleDouble whole = old_h0 * a[k] + DoubleDouble(std::ldexp(b[k], -exponent));
      b[k] = std::ldexp((whole * inverse - new_h0 * DoubleDouble(mirrored[k])).high, exponent);
    }
    h0 = std::ldexp(new_h0.high, exponent);
  }
  return Reflection::done;
}

// Kernels as columns, (length, channels).
MatrixXd columns(const std::vector<double>& kernels, std::size_t channels) {
  const auto length = static_cast<Index>(kernels.size() / channels);
  return Eigen::Map<const MatrixXd>(kernels.data(), length, static_cast<Index>(channels));
}

std::vector<double> relative_errors(const MatrixXd& kernels, const MatrixXd& wanted) {
  std::vector<double> errors;
  for (Index c = 0; c < wanted.cols(); ++c) {
    const double error = (kernels.col(c) - wanted.col(c)).stableNorm(), whole = wanted.col(c).stableNorm();
    errors.push_back(whole > 0 ? error / whole : error);
  }
  return errors;
}

void check_kernel(const MatrixXd& kernels) {
  if (!kernels.allFinite())
    fail(ErrorCode::unstable, "stabilize", "the kernel overflows within {} samples; choose a shorter length",
         kernels.rows());
}

// The denominator of a group fitted or projected, and its numerators, for kernels whose first samples are the h0.
void fit_to_kernels(TransferFunction& tf, std::size_t group, StabilizeMethod method, const MatrixXd& kernels,
                    const std::optional<VectorXd>& reflected) {
  const std::size_t n = tf.order, members = tf.channels / tf.groups;
  const auto first = static_cast<Index>(group * members), count = static_cast<Index>(members);
  const MatrixXd samples = kernels.middleCols(first, count).bottomRows(kernels.rows() - 1);
  const auto old = denominator(tf, group);
  const VectorXd montel = Eigen::Map<const VectorXd>(old.data(), static_cast<Index>(n)) * (montel_norm / l1_norm(old));
  VectorXd a;
  MatrixXd b;
  if (method == StabilizeMethod::refit) {
    std::vector<VectorXd> starts{montel};
    if (reflected) starts.push_back(*reflected);
    GroupFit fitted = fit_group(samples, static_cast<Index>(n), FitMethod::iterative, starts);
    a = std::move(fitted.a);
    b = std::move(fitted.b);
    // A shared denominator may be better for the group and worse for a channel; mirrored poles with numerators of their
    // own are no worse than reflect for any.
    if (reflected && count > 1) {
      MatrixXd refitted = fit_numerators(samples, *reflected);
      if ((kernel_errors(a, b, samples).array() > kernel_errors(*reflected, refitted, samples).array()).any()) {
        a = *reflected;
        b = std::move(refitted);
      }
    }
  } else {
    a = montel;
    b = fit_numerators(samples, a);
  }
  std::copy(a.begin(), a.end(), tf.a.begin() + static_cast<std::ptrdiff_t>(group * n));
  std::copy_n(b.data(), b.size(), tf.b.begin() + static_cast<std::ptrdiff_t>(group * members * n));
  for (Index c = 0; c < count; ++c) tf.h0[static_cast<std::size_t>(first + c)] = kernels(0, first + c);
}

// Group by group into `to`, from another filter of the same sizes.
void copy_group(const Coefficients& from, Coefficients& to, std::size_t group) {
  const std::size_t n = to.order, members = to.channels / to.groups;
  const auto part = [](const std::vector<double>& x, std::vector<double>& y, std::size_t first, std::size_t count) {
    std::copy_n(x.begin() + static_cast<std::ptrdiff_t>(first), count, y.begin() + static_cast<std::ptrdiff_t>(first));
  };
  part(from.a, to.a, group * n, n);
  part(from.b, to.b, group * members * n, members * n);
  part(from.h0, to.h0, group * members, members);
}

std::vector<double> kernel_of(const TransferFunction& tf, std::size_t length) { return exact_kernel(tf, length); }
std::vector<double> kernel_of(const TrainedTransferFunction& trained, std::size_t) { return wrapped_kernel(trained); }

TransferFunction in_the_form_of(const TransferFunction&, TransferFunction plain) { return plain; }
TrainedTransferFunction in_the_form_of(const TrainedTransferFunction& trained, const TransferFunction& plain) {
  return wrap(plain, trained.length);
}

template <class Value>
Stabilized<Value> stabilize_any(const Value& given, StabilizeMethod method, std::size_t length, Executor& executor) {
  validate(given, "stabilize");
  if (length < 1) fail(ErrorCode::argument, "stabilize", "length is 0; at least 1 is needed");
  const std::size_t groups = given.groups, members = given.channels / groups;
  const MatrixXd wanted = columns(kernel_of(given, length), given.channels);
  check_kernel(wanted);

  Value mirrored = given;
  std::vector<char> changed(groups);
  std::vector<Reflection> reflections(groups, Reflection::done);
  parallel_for(executor, groups, [&](std::size_t g, std::size_t) {
    changed[g] = needs_change(given, g, method);
    if (!is_stable(denominator(given, g))) reflections[g] = reflect_group(mirrored, g);
  });
  Stabilized<Value> result;
  result.reflect_error = relative_errors(columns(kernel_of(mirrored, length), given.channels), wanted);
  for (std::size_t c = 0; c < given.channels; ++c)
    if (reflections[c / members] != Reflection::done) result.reflect_error[c] = infinity;

  if (method == StabilizeMethod::reflect) {
    for (std::size_t g = 0; g < groups; ++g) {
      if (!changed[g]) continue;
      if (reflections[g] == Reflection::on_circle)
        fail(ErrorCode::unstable, "stabilize",
             "denominator {} has a pole on the unit circle, where |H| has no finite value to keep; use refit or montel",
             g);
      if (reflections[g] == Reflection::not_held)
        fail(ErrorCode::unstable, "stabilize",
             "denominator {} is not stable once its mirrored poles are rounded to coefficients; use refit or montel",
             g);
    }
    const std::vector<double> angles = magnitude_angles();
    result.magnitude_change = magnitude_changes(frequency_response(TransferFunction{given}, angles),
                                                frequency_response(TransferFunction{mirrored}, angles));
    result.value = std::move(mirrored);
    result.error = result.reflect_error;
    return result;
  }

  // Groups that stay are left out of the fits, and keep their bits.
  TransferFunction plain = make_coefficients(given.channels, groups, given.order);
  parallel_for(executor, groups, [&](std::size_t g, std::size_t) {
    if (!changed[g]) return;
    const auto a = denominator(mirrored, g);
    std::optional<VectorXd> start;
    if (reflections[g] == Reflection::done) start = Eigen::Map<const VectorXd>(a.data(), static_cast<Index>(a.size()));
    copy_group(given, plain, g);
    fit_to_kernels(plain, g, method, wanted, start);
  });
  const Value fitted = in_the_form_of(given, plain);
  result.value = given;
  for (std::size_t g = 0; g < groups; ++g)
    if (changed[g]) copy_group(fitted, result.value, g);
  result.error = relative_errors(columns(kernel_of(result.value, length), given.channels), wanted);

  if (method == StabilizeMethod::refit)
    for (std::size_t g = 0; g < groups; ++g) {
      bool worse = false;
      for (std::size_t c = g * members; c < (g + 1) * members; ++c) worse |= result.error[c] > result.reflect_error[c];
      if (!worse) continue;
      copy_group(mirrored, result.value, g);
      std::copy_n(result.reflect_error.begin() + static_cast<std::ptrdiff_t>(g * members), members,
                  result.error.begin() + static_cast<std::ptrdiff_t>(g * members));
    }
  return result;
}

}  // namespace

Stabilized<TransferFunction> stabilize(const TransferFunction& tf, StabilizeMethod method, std::size_t length,
                                       Executor& executor) {
  return stabilize_any(tf, method, length, executor);
}

Stabilized<TrainedTransferFunction> stabilize(const TrainedTransferFunction& trained, StabilizeMethod method,
                                              Executor& executor) {
  return stabilize_any(trained, method, trained.length, executor);
}

}  // namespace rtf
