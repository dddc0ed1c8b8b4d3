// Poles from the numbers of a form itself: factors hold those of narrow filters, coefficients do not.
#include <algorithm>
#include <cmath>

#include "core/form_scale.h"
#include "core/from_rational.h"
#include "core/rational.h"
#include "core/roots.h"
#include "rtf/conversion.h"
#include "rtf/error.h"
#include "rtf/stability.h"

namespace rtf {
namespace {

// a_1.. of each polynomial that the form has for a denominator; none for forms that have none.
std::vector<std::vector<double>> denominators(const System& system) {
  if (const auto* tf = std::get_if<TransferFunction>(&system)) return {tf->a};
  std::vector<std::vector<double>> result;
  const auto append = [&](std::span<const double> a) {
    result.emplace_back();
    for (const double value : a.subspan(1)) result.back().push_back(value / a[0]);
  };
  if (const auto* ratio = std::get_if<PolynomialRatio>(&system)) append(ratio->a);
  if (const auto* sos = std::get_if<SecondOrderSections>(&system))
    for (const auto& section : sos->sections) append(std::span(section).subspan(3));
  return result;
}

}  // namespace

std::vector<std::complex<double>> poles(const System& system) {
  constexpr const char* operation = "poles";
  validate(system, operation);
  if (std::holds_alternative<PolynomialRatio>(system)) return poles(System(to_transfer_function(system).value));
  if (const auto* tf = std::get_if<TransferFunction>(&system)) {
    // The roots that a zpk would have; beyond this order, where 106 bits take long, and where they do not settle, those
    // in double.
    constexpr std::size_t largest_order = 256;
    std::vector<double> a = tf->a;
    while (!a.empty() && a.back() == 0) a.pop_back();  // exact poles at zero, appended below
    if (a.size() > largest_order) return poles(tf->a);
    try {
      auto result = listed(find_roots(std::vector<DoubleDouble>(a.begin(), a.end()), operation));
      result.resize(tf->order, 0.0);
      return result;
    } catch (const Error&) {
      return poles(tf->a);
    }
  }
  return listed(poles_of(to_rational(moderate(system).form, StateSpaceMethod::eigenvalues), operation));
}

double pole_radius(const System& system) {
  validate(system, "pole_radius");
  double radius = 0;
  const auto polynomials = denominators(system);
  for (const auto& a : polynomials) radius = std::max(radius, pole_radius(std::span<const double>(a)));
  if (polynomials.empty())
    for (const std::complex<double> pole : poles(system)) radius = std::max(radius, std::abs(pole));
  return radius;
}

bool is_stable(const System& system) {
  validate(system, "is_stable");
  const auto polynomials = denominators(system);
  if (polynomials.empty()) return pole_radius(system) < 1;
  return std::all_of(polynomials.begin(), polynomials.end(),
                     [](const auto& a) { return is_stable(std::span<const double>(a)); });
}

}  // namespace rtf
