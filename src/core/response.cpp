#include "rtf/response.h"

#include <cmath>
#include <limits>

#include "core/arguments.h"
#include "core/circle_point.h"
#include "core/double_double.h"
#include "rtf/executor.h"
#include "rtf/kernel.h"

namespace rtf {
namespace {

constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
constexpr double kTolerance = 1e-12;

template <class T>
struct Plane {
  T real = 0.0, imaginary = 0.0;

  explicit operator std::complex<double>() const { return {static_cast<double>(real), static_cast<double>(imaginary)}; }
};

template <class T>
Plane<T> multiply_add(Plane<T> x, Plane<T> y, T z) {
  return {x.real * y.real - x.imaginary * y.imaginary + z, x.real * y.imaginary + x.imaginary * y.real};
}

template <class T>
Plane<T> add(Plane<T> x, Plane<T> y) {
  return {x.real + y.real, x.imaginary + y.imaginary};
}

template <class T>
Plane<T> multiply(Plane<T> x, Plane<T> y) {
  return multiply_add(x, y, T(0.0));
}

// sum_k c_k w^k over k = 1..n, sum_k k c_k w^k, and the sizes of what was rounded on the way to the first.
template <class T>
struct Sums {
  Plane<T> value, slope;
  double rounded = 0;
};

template <class T>
Sums<T> horner(const double* c, std::size_t order, Plane<T> w) {
  Plane<T> value, derivative;
  double rounded = 0;
  for (std::size_t k = order; k-- > 0;) {
    derivative = add(multiply(derivative, w), value);
    value = multiply_add(value, w, T(c[k]));
    rounded += std::abs(static_cast<double>(value.real)) + std::abs(static_cast<double>(value.imaginary));
  }
  // value = sum c_k w^(k-1): one factor w more.
  return {multiply(value, w), multiply(add(multiply(derivative, w), value), w), rounded};
}

struct Evaluation {
  CirclePoint point;
  double A_rounded, N_rounded;
};

template <class T>
Evaluation evaluate(const CoefficientsView& tf, std::size_t channel, double angle) {
  const Plane<T> w{T(std::cos(angle)), T(-std::sin(angle))};
  const double h0 = tf.h0[channel];
  const Sums<T> a = horner(tf.denominator(channel), tf.order, w), b = horner(tf.numerator(channel), tf.order, w);
  const Plane<T> gain{T(h0)}, A = add(a.value, Plane<T>{T(1.0)});
  return {{static_cast<std::complex<double>>(A), static_cast<std::complex<double>>(add(multiply(gain, A), b.value)),
           static_cast<std::complex<double>>(a.slope),
           static_cast<std::complex<double>>(add(multiply(gain, a.slope), b.slope))},
          1 + a.rounded,
          std::abs(h0) * (1 + a.rounded) + b.rounded};
}

template <class T, class F>
std::vector<T> at_every_angle(const TransferFunction& tf, std::span<const double> angles, const char* operation,
                              F&& compute) {
  validate(tf, operation);
  for (std::size_t i = 0; i < angles.size(); ++i)
    if (!std::isfinite(angles[i]))
      fail(ErrorCode::argument, operation, "angle {} is {}; angles must be finite", i, angles[i]);
  const CoefficientsView view(tf);
  constexpr std::size_t kTile = 64;
  const std::size_t tiles = (angles.size() + kTile - 1) / kTile;
  std::vector<T> result(tf.channels * angles.size());
  parallel_for(default_executor(), tf.channels * tiles, [&](std::size_t task, std::size_t) {
    const std::size_t channel = task / tiles, begin = task % tiles * kTile;
    for (std::size_t i = begin; i < std::min(begin + kTile, angles.size()); ++i)
      result[channel * angles.size() + i] = compute(circle_point(view, channel, angles[i]));
  });
  return result;
}

}  // namespace

CirclePoint circle_point(const CoefficientsView& tf, std::size_t channel, double angle) {
  const auto [point, A_rounded, N_rounded] = evaluate<double>(tf, channel, angle);
  // Every step of Horner's rule, by a factor of modulus 1, rounds by less than 4 units of its result.
  const bool holds = 2 * kEpsilon * A_rounded <= kTolerance * std::abs(point.A) &&
                     2 * kEpsilon * N_rounded <= kTolerance * std::abs(point.N);
  return holds ? point : evaluate<DoubleDouble>(tf, channel, angle).point;
}

std::vector<std::complex<double>> frequency_response(const TransferFunction& tf, std::span<const double> angles) {
  return at_every_angle<std::complex<double>>(tf, angles, "frequency_response",
                                              [](const CirclePoint& point) { return point.response(); });
}

std::vector<double> group_delay(const TransferFunction& tf, std::span<const double> angles) {
  return at_every_angle<double>(tf, angles, "group_delay", [](const CirclePoint& point) {
    if (point.A == 0.0 || point.N == 0.0) return std::numeric_limits<double>::quiet_NaN();
    return point.log_slope().real();
  });
}

std::vector<double> step_response(const TransferFunction& tf, std::size_t length) {
  validate(tf, "step_response");
  if (length < 1) fail(ErrorCode::argument, "step_response", "length is 0; it must be at least 1");
  return step_response(exact_kernel(tf, length), length);
}

std::vector<double> step_response(std::vector<double> kernels, std::size_t length) {
  if (length < 1 || kernels.size() % length != 0)
    fail(ErrorCode::argument, "step_response", "{} values are not kernels of length {}", kernels.size(), length);
  for (std::size_t begin = 0; begin < kernels.size(); begin += length) {
    // Neumaier's sum: a long step response does not collect the rounding of every term.
    double sum = 0, lost = 0;
    for (double& value : std::span(kernels).subspan(begin, length)) {
      const double next = sum + value;
      lost += std::abs(sum) >= std::abs(value) ? (sum - next) + value : (value - next) + sum;
      sum = next;
      value = sum + lost;
    }
  }
  return kernels;
}

}  // namespace rtf
