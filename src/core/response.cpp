#include "rtf/response.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <optional>
#include <type_traits>

#include "core/arguments.h"
#include "core/circle_point.h"
#include "core/complex_number.h"
#include "core/double_double.h"
#include "core/file_errors.h"
#include "core/wide_angle.h"
#include "rtf/kernel.h"

namespace rtf {
namespace {

constexpr double epsilon = std::numeric_limits<double>::epsilon();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double tolerance = 1e-12;

template <class T>
std::complex<double> narrowed(const Complex<T>& x) {
  return {static_cast<double>(x.re), static_cast<double>(x.im)};
}

// sum_k c_k w^k over k = 1..n, sum_k k c_k w^k, and the sizes of what was rounded on the way to the first, all of them
// times a factor.
template <class T>
struct Sums {
  Complex<T> value, slope;
  double rounded = 0;
};

template <class T>
Sums<T> horner(const double* c, std::size_t order, Complex<T> w, double factor = 1) {
  Complex<T> value, derivative;
  double rounded = 0;
  for (std::size_t k = order; k-- > 0;) {
    derivative = derivative * w + value;
    value = value * w;
    value.re = value.re + T(factor * c[k]);
    rounded += std::abs(static_cast<double>(value.re)) + std::abs(static_cast<double>(value.im));
  }
  // value = sum c_k w^(k-1): one factor w more.
  return {value * w, (derivative * w + value) * w, rounded};
}

template <class T>
Complex<T> point_of(double angle);

template <>
WideComplex point_of(double angle) {
  return wide_point(angle);
}

template <>
Complex<double> point_of(double angle) {
  // As wide_point() has it.
  const auto on_axis = [&](double x) { return std::abs(x) <= angle_rounding(angle) ? 0.0 : x; };
  return {on_axis(std::cos(angle)), on_axis(std::sin(angle))};
}

struct Evaluation {
  CirclePoint point;
  double A_rounded, N_rounded;
};

template <class T>
Evaluation evaluate(const CoefficientsView& tf, std::size_t channel, double angle, int exponent = 0) {
  const Complex<T> w = point_of<T>(-angle);
  const double factor = std::ldexp(1.0, -exponent), h0 = factor * tf.h0[channel];
  const Sums<T> a = horner(tf.denominator(channel), tf.order, w);
  const Sums<T> b = horner(tf.numerator(channel), tf.order, w, factor);
  const Complex<T> gain{T(h0)}, A = a.value + Complex<T>{T(1.0)};
  const double A_rounded = 1 + a.rounded, N_rounded = std::abs(h0) * A_rounded + b.rounded;
  const Complex<T> N = gain * A + b.value, N_slope = gain * a.slope + b.slope;
  CirclePoint point{narrowed(A), narrowed(N), narrowed(a.slope), narrowed(N_slope), exponent, std::nullopt};
  if constexpr (std::is_same_v<T, DoubleDouble>)
    point.wide = {A, N, a.slope, N_slope, epsilon * N_rounded, epsilon * (2 + std::abs(angle))};
  return {point, A_rounded, N_rounded};
}

// The real part of slope / value, nan where rounding of the angle may meet a zero of the value.
double delay_of(const WideComplex& slope, const WideComplex& value, double angle_rounding) {
  const double size = std::max(std::abs(value.re.high), std::abs(value.im.high));
  if (!(size > 0) || !std::isfinite(size)) return nan;
  const auto scaled = [excess = std::ilogb(size)](const WideComplex& x) -> WideComplex {
    return {scale_by_power_of_two(x.re, -excess), scale_by_power_of_two(x.im, -excess)};
  };
  const std::complex<double> quotient = narrowed(scaled(slope) * reciprocal(scaled(value)));
  return std::abs(quotient) * angle_rounding < 0.25 ? quotient.real() : nan;
}

}  // namespace

double CirclePoint::delay() const {
  if (A == 0.0 || N == 0.0) return nan;
  if (!wide) return log_slope().real();
  const double of_zeros = delay_of(wide->N_slope, wide->N, wide->angle_rounding);
  // A zero of a design lies on the circle and delays by half a sample; rounding of b moves it to either side of it.
  constexpr double absurd = 1e6;
  if (std::abs(N) <= wide->N_rounding && std::abs(of_zeros) > absurd) return nan;
  return of_zeros - delay_of(wide->A_slope, wide->A, wide->angle_rounding);
}

CirclePoint circle_point(const CoefficientsView& tf, std::size_t channel, double angle) {
  const auto [point, A_rounded, N_rounded] = evaluate<double>(tf, channel, angle);
  // Every step of Horner's rule, by a factor of modulus 1, rounds by less than 4 units of its result.
  const bool holds = 2 * epsilon * A_rounded <= tolerance * std::abs(point.A) &&
                     2 * epsilon * N_rounded <= tolerance * std::abs(point.N);
  if (holds && std::isfinite(N_rounded)) return point;
  const CirclePoint wide = evaluate<DoubleDouble>(tf, channel, angle).point;
  if (std::isfinite(std::abs(wide.N))) return wide;
  constexpr int excess = 128;  // of gains next to the largest double, for 27 bits of Dekker's product and for sums
  return evaluate<DoubleDouble>(tf, channel, angle, excess).point;
}

std::vector<double> angle_grid(std::size_t points, bool whole) {
  // And for the response there.
  part_of("angle_grid",
          [&] { require_memory(3 * static_cast<double>(points), fmt::format("a circle of {} points", points)); });
  std::vector<double> angles(points);
  const double step = (whole ? 2 : 1) * std::numbers::pi / static_cast<double>(points);
  for (std::size_t k = 0; k < points; ++k) angles[k] = step * static_cast<double>(k);
  return angles;
}

std::vector<std::complex<double>> frequency_response(const TransferFunction& tf, std::span<const double> angles) {
  validate(tf, "frequency_response");
  const CoefficientsView view(tf);
  return at_every_angle<std::complex<double>>(
      tf.channels, angles, "frequency_response",
      [&](std::size_t channel, double angle) { return circle_point(view, channel, angle).response(); });
}

std::vector<double> group_delay(const TransferFunction& tf, std::span<const double> angles) {
  validate(tf, "group_delay");
  const CoefficientsView view(tf);
  return at_every_angle<double>(tf.channels, angles, "group_delay", [&](std::size_t channel, double angle) {
    return circle_point(view, channel, angle).delay();
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
