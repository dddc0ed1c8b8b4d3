// Poles outside the circle reflected where they are given, in zpk and sos: no coefficients are in between.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/arguments.h"
#include "core/complex_number.h"
#include "core/double_double.h"
#include "core/file_errors.h"
#include "core/magnitude_change.h"
#include "core/rational.h"
#include "rtf/cascade.h"
#include "rtf/stabilize.h"

namespace rtf {
namespace {

using Wide = DoubleDouble;

constexpr const char* operation = "stabilize";

[[noreturn]] void refuse_pole_on_circle() {
  fail(ErrorCode::unstable, operation, "a pole on the unit circle, where |H| has no finite value to keep");
}

ZeroPoleGain reflected(ZeroPoleGain zpk) {
  Wide product = 1.0;
  for (std::complex<double>& pole : zpk.poles) {
    const WideComplex wide = widened(pole);
    const Wide square = norm(wide);
    if (square < Wide(1.0)) continue;
    if (!std::isfinite(square.high))
      fail(ErrorCode::unsupported, operation, "a pole of modulus {:.3g}: the product of the poles overflows",
           std::abs(pole));
    pole = rounded(reciprocal(conj(wide)));
    if (!(norm(widened(pole)) < Wide(1.0))) refuse_pole_on_circle();
    product = product * square;
  }
  if (!std::isfinite(product.high)) fail(ErrorCode::unsupported, operation, "the product of the poles overflows");
  zpk.gain /= std::sqrt(product.high);
  return zpk;
}

// a0 (1 - p w)(1 - q w) with every pole outside replaced, and the numerator divided by its modulus: a0 stays, which
// SciPy wants to be 1.
std::array<double, 6> reflected(std::array<double, 6> section) {
  SecondOrderSections one{{section}};
  if (is_stable(System(one))) return section;
  Roots poles = *to_rational(System(one), StateSpaceMethod::markov).poles;
  Wide product = 1.0;
  for (Wide& pole : poles.real) {
    if (abs(pole) < Wide(1.0)) continue;
    product = product * abs(pole);
    pole = reciprocal(pole);
  }
  for (WideComplex& pole : poles.upper) {
    if (norm(pole) < Wide(1.0)) continue;
    product = product * norm(pole);
    pole = reciprocal(conj(pole));
  }
  const std::vector<Wide> monic = expand(poles);
  for (std::size_t k = 0; k < 3; ++k) section[k] /= product.high;
  for (std::size_t k = 0; k < 2; ++k) section[4 + k] = k < monic.size() ? (monic[k] * Wide(section[3])).high : 0.0;
  one.sections = {section};
  if (!is_stable(System(one))) refuse_pole_on_circle();
  return section;
}

System reflected(const System& channel) {
  validate(channel, operation);
  if (const auto* zpk = std::get_if<ZeroPoleGain>(&channel); zpk && zpk->h0 == 0) return reflected(*zpk);
  const auto* given = std::get_if<SecondOrderSections>(&channel);
  if (!given)
    fail(ErrorCode::argument, operation, "form {} is no product of factors; zpk with h0 = 0 or sos is needed",
         form_name(channel));
  SecondOrderSections sos = *given;
  for (auto& section : sos.sections) section = reflected(section);
  return sos;
}

double relative_error(const std::vector<double>& kernel, const std::vector<double>& wanted) {
  double whole = 0, error = 0;
  for (std::size_t t = 0; t < wanted.size(); ++t) {
    whole = std::hypot(whole, wanted[t]);
    error = std::hypot(error, kernel[t] - wanted[t]);
  }
  return whole > 0 ? error / whole : error;
}

}  // namespace

std::vector<double> magnitude_angles() {
  std::vector<double> angles;
  for (std::size_t i = 0; i < magnitude_points; ++i)
    angles.push_back(std::numbers::pi * (static_cast<double>(i) + 0.5) / static_cast<double>(magnitude_points));
  return angles;
}

std::vector<double> magnitude_changes(const std::vector<std::complex<double>>& before,
                                      const std::vector<std::complex<double>>& after) {
  constexpr std::size_t points = magnitude_points;
  std::vector<double> changes;
  for (std::size_t first = 0; first < before.size(); first += points) {
    double peak = 0, change = 0;
    for (std::size_t i = first; i < first + points; ++i) peak = std::max(peak, std::abs(before[i]));
    for (std::size_t i = first; i < first + points; ++i)
      if (std::abs(before[i]) > magnitude_floor * peak)
        change = std::max(change, std::abs(std::abs(after[i]) / std::abs(before[i]) - 1));
    changes.push_back(change);
  }
  return changes;
}

bool has_own_poles(const System& channel) {
  const auto* zpk = std::get_if<ZeroPoleGain>(&channel);
  return zpk ? zpk->h0 == 0 : std::holds_alternative<SecondOrderSections>(channel);
}

Stabilized<std::vector<System>> reflect(std::span<const System> channels, std::size_t length) {
  Stabilized<std::vector<System>> result;
  for (std::size_t c = 0; c < channels.size(); ++c) {
    try {
      result.value.push_back(reflected(channels[c]));
      result.error.push_back(relative_error(kernel(result.value[c], length), kernel(channels[c], length)));
    } catch (const Error& error) {
      throw Error(error.code(), operation, fmt::format("channel {}: {}", c, without_operation(error)));
    }
  }
  result.reflect_error = result.error;
  const std::vector<double> angles = magnitude_angles();
  result.magnitude_change = magnitude_changes(frequency_response(to_cascade(channels), angles),
                                              frequency_response(to_cascade(result.value), angles));
  return result;
}

}  // namespace rtf
