#include "core/wide_angle.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace rtf {

double angle_rounding(double angle) {
  return std::min(0.5 * std::numeric_limits<double>::epsilon() * std::abs(angle), 1e-8);
}

WideComplex wide_point(double angle) {
  const double rounding = angle_rounding(angle);
  const double cosine = std::cos(angle), sine = std::sin(angle);
  if (std::abs(sine) <= rounding) return {cosine, 0.0};
  if (std::abs(cosine) <= rounding) return {0.0, sine};
  if (!(std::abs(angle) <= 8)) return {cosine, sine};
  // The series of an angle below 2^-7, whose sixteenth term is below 2^-106, squared ten times, which costs ten bits.
  constexpr int halvings = 10, terms = 16;
  static const std::array<DoubleDouble, terms> inverses = [] {
    std::array<DoubleDouble, terms> result;
    for (int k = 0; k < terms; ++k) result[static_cast<std::size_t>(k)] = reciprocal(DoubleDouble(k + 1.0));
    return result;
  }();
  const DoubleDouble small = std::ldexp(angle, -halvings);
  WideComplex point(DoubleDouble(1.0));
  for (std::size_t k = terms; k-- > 0;) {
    const DoubleDouble factor = small * inverses[k];  // 1 + i small / (k + 1) times what follows
    point = {DoubleDouble(1.0) - factor * point.im, factor * point.re};
  }
  for (int k = 0; k < halvings; ++k) point = point * point;
  return point;
}

}  // namespace rtf
