#include "core/factor_response.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/circle_point.h"
#include "core/form_scale.h"
#include "core/wide_angle.h"
#include "rtf/cascade.h"

namespace rtf {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

Cascade cascade_of(const System& channel) {
  if (const auto* tf = std::get_if<TransferFunction>(&channel)) return to_cascade(*tf);
  const System factors = has_factors(channel) ? channel : System(to_sections(channel).value);
  return to_cascade({&factors, 1});
}

}  // namespace

FactorResponse::FactorResponse(const ZeroPoleGain& zpk, const char* operation)
    : zeros_(conjugate_pairs(operation, "zeros", zpk.zeros)),
      poles_(conjugate_pairs(operation, "poles", zpk.poles)),
      gain_(zpk.gain),
      beside_(zpk.h0) {}

// Differences are of 106 bits, of which nothing but the digits of a double is needed from there on, but for the delay.
FactorResponse::Point FactorResponse::at(double angle, bool with_delay) const {
  const WideComplex wide_z = wide_point(angle);
  const std::complex<double> z = rounded(wide_z);
  std::complex<double> product = gain_;
  double delay = 0;
  int exponent = 0;
  bool on_zero = gain_ == 0, on_pole = false;
  const double rounding = std::numeric_limits<double>::epsilon() * (2 + std::abs(angle));  // of root and angle
  const auto take = [&](const WideComplex& root, bool pole) {
    const WideComplex wide = wide_z - root;
    const std::complex<double> distance = rounded(wide);
    if (distance == 0.0) {
      (pole ? on_pole : on_zero) = true;
      return;
    }
    pole ? product /= distance : product *= distance;
    if (with_delay) {
      // Re z / (z - root): a half for a root on the circle, however large the quotient.
      const double size = std::abs(distance);
      double part = (size < 1e-3 ? rounded(wide_z * reciprocal(wide)) : z / distance).real();
      if (size <= rounding) part = not_a_number;
      pole ? delay += part : delay -= part;
    }
    if (const double size = std::abs(product); size > 0 && !(size > 0x1p-300 && size < 0x1p300)) {
      const int excess = std::ilogb(size);
      product = {std::ldexp(product.real(), -excess), std::ldexp(product.imag(), -excess)};
      exponent += excess;
    }
  };
  const auto take_pair = [&](const PairedValue& x, bool pole) {
    take(widened(x.value), pole);
    if (!x.real()) take(conj(widened(x.value)), pole);
  };
  for (std::size_t i = 0; i < std::max(zeros_.size(), poles_.size()); ++i) {
    if (i < zeros_.size()) take_pair(zeros_[i], false);
    if (i < poles_.size()) take_pair(poles_[i], true);
  }
  if (on_pole) return {on_zero ? not_a_number : infinity, not_a_number};
  if (on_zero) return {0.0, not_a_number};
  return {{std::ldexp(product.real(), exponent), std::ldexp(product.imag(), exponent)}, delay};
}

std::vector<std::complex<double>> frequency_response(const System& channel, std::span<const double> angles) {
  constexpr const char* operation = "frequency_response";
  validate(channel, operation);
  const auto [near, exponent] = moderate(channel);
  const auto* zpk = std::get_if<ZeroPoleGain>(&near);
  if (!zpk) return frequency_response(cascade_of(channel), angles);
  const FactorResponse response(*zpk, operation);
  return at_every_angle<std::complex<double>>(1, angles, operation, [&, scale = exponent](std::size_t, double angle) {
    const std::complex<double> value = response(angle);
    return std::complex<double>(std::ldexp(value.real(), scale), std::ldexp(value.imag(), scale));
  });
}

std::vector<double> group_delay(const System& channel, std::span<const double> angles) {
  constexpr const char* operation = "group_delay";
  validate(channel, operation);
  const System near = moderate(channel).form;
  const auto* zpk = std::get_if<ZeroPoleGain>(&near);
  // With something beside it H has a phase where the factors vanish, which their logarithm does not know.
  if (!zpk || zpk->h0 != 0) return group_delay(cascade_of(channel), angles);
  const FactorResponse response(*zpk, operation);
  return at_every_angle<double>(1, angles, operation, [&](std::size_t, double angle) {
    const double delay = response.at(angle, true).delay;
    return std::isfinite(delay) ? delay : not_a_number;
  });
}

}  // namespace rtf
