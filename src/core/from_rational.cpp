#include "core/from_rational.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "core/arguments.h"
#include "core/conjugate_pairs.h"
#include "core/roots.h"

namespace rtf {
namespace {

using Wide = DoubleDouble;
using Row = std::vector<Wide>;

// sum_k c_k x^{size-1-k}
WideComplex evaluate(const Row& c, const WideComplex& x) {
  WideComplex value;
  for (const Wide& coefficient : c) value = value * x + WideComplex(coefficient);
  return value;
}

// What rounding of the coefficients alone may move a root by, with |D'(x)| the product of its distances.
double uncertainty(const Row& a, std::complex<double> x, double slope) {
  double size = 0;
  for (const Wide& coefficient : a) size = size * std::abs(x) + std::abs(coefficient.high);
  return size == 0 ? 0 : 0.5 * std::numeric_limits<double>::epsilon() * size / slope;
}

// Throws for poles that may come from a repeated one, and names the closest two. Rounding that moves each of m equal
// poles by rho leaves neighbours 2 rho sin(pi/m) apart with an uncertainty of rho / m: a ratio below pi for any m.
void check_distinct(const std::vector<std::complex<double>>& poles, const std::vector<double>& radii) {
  std::size_t first = 0, second = 0;
  double closest = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < poles.size(); ++i)
    for (std::size_t j = i + 1; j < poles.size(); ++j) {
      const double distance = std::abs(poles[i] - poles[j]);
      if (!(distance <= std::numbers::pi * (radii[i] + radii[j])) || distance >= closest) continue;
      first = i;
      second = j;
      closest = distance;
    }
  if (first != second)
    fail(ErrorCode::argument, "to_modal",
         "poles {} and {} are {:.1e} apart, which rounding of the denominator cannot tell from a repeated pole; modal "
         "needs distinct ones: use zpk, sos or ss",
         complex_text(poles[first]), complex_text(poles[second]), closest);
}

Numerator factored(Row numerator, const char* operation) {
  Numerator result;
  while (!numerator.empty() && numerator.front().high == 0) {
    numerator.erase(numerator.begin());
    ++result.delay;
  }
  if (numerator.empty()) {
    result.delay = 0;
    return result;
  }
  result.gain = numerator.front();
  const Wide inverse = reciprocal(result.gain);
  numerator.erase(numerator.begin());
  for (Wide& x : numerator) x = x * inverse;
  result.zeros = find_roots(numerator, operation);
  return result;
}

// prod (x - x_i) over all roots.
WideComplex product_at(const Roots& roots, const WideComplex& x) {
  WideComplex value(1.0);
  for (const Wide& root : roots.real) value = value * (x - WideComplex(root));
  for (const WideComplex& root : roots.upper) value = value * (x - root) * (x - conj(root));
  return value;
}

// z^n B at a pole, which is rounded: there the denominator, with the feed-through, is not nothing.
WideComplex numerator_at(const Rational& rational, const WideComplex& pole) {
  if (!rational.numerator) return evaluate(rational.b, pole);
  const Numerator& factors = *rational.numerator;
  const WideComplex whole = WideComplex(factors.gain) * product_at(factors.zeros, pole);
  if (factors.delay > 0 || factors.gain.high == 0) return whole;
  return whole - WideComplex(factors.gain) * product_at(*rational.poles, pole);
}

}  // namespace

Roots poles_of(const Rational& rational, const char* operation) {
  return rational.poles ? *rational.poles : find_roots(rational.a, operation);
}

Numerator whole_factors(const Rational& rational, const char* operation) {
  if (rational.whole) return *rational.whole;
  if (rational.numerator && rational.beside.high == 0) return *rational.numerator;
  return factored(whole_numerator(rational), operation);
}

Numerator separate_factors(const Rational& rational, const char* operation) {
  if (!rational.numerator || (rational.numerator->delay == 0 && rational.numerator->gain.high != 0))
    return factored(rational.b, operation);
  Numerator factors = *rational.numerator;
  if (factors.delay > 0) --factors.delay;  // B has no term in w^0
  return factors;
}

TransferFunction rounded(const Rational& rational) {
  auto tf = make_coefficients(1, 1, rational.a.size());
  tf.a = rounded(rational.a);
  tf.b = rounded(rational.b);
  tf.h0 = {rational.h0.high};
  return tf;
}

PolynomialRatio polynomial_ratio(const Rational& rational) {
  PolynomialRatio ratio{rounded(whole_numerator(rational)), rounded(rational.a)};
  ratio.a.insert(ratio.a.begin(), 1.0);
  return ratio;
}

Modal modal(const Rational& rational) {
  Modal result;
  result.h0 = rational.h0.high;
  result.poles = listed(poles_of(rational, "to_modal"));
  Row denominator = rational.a;
  denominator.insert(denominator.begin(), Wide(1.0));
  // The slopes are those of the rounded poles: then the residues make up the numerator exactly, whatever the rounding.
  const auto& poles = result.poles;
  std::vector<WideComplex> slopes;
  std::vector<double> radii;
  for (std::size_t i = 0; i < poles.size(); ++i) {
    WideComplex slope(1.0);
    for (std::size_t j = 0; j < poles.size(); ++j)
      if (j != i) slope = slope * (widened(poles[i]) - widened(poles[j]));
    slopes.push_back(slope);
    // Poles that were given are what they are, but for their own rounding.
    radii.push_back(rational.uncertainty ? rational.uncertainty(poles[i])
                    : rational.poles     ? 0.5 * std::numeric_limits<double>::epsilon() * std::abs(poles[i])
                                         : uncertainty(denominator, poles[i], std::abs(rounded(slope))));
  }
  check_distinct(poles, radii);
  for (std::size_t i = 0; i < poles.size(); ++i) {
    const bool lower = i > 0 && poles[i].imag() < 0;  // listed after its conjugate
    result.residues.push_back(lower ? std::conj(result.residues[i - 1])
                                    : rounded(numerator_at(rational, widened(poles[i])) * reciprocal(slopes[i])));
    if (poles[i].imag() == 0) result.residues.back().imag(0);
  }
  return result;
}

ZeroPoleGain zero_pole_gain(const Rational& rational, FeedThrough feed_through) {
  ZeroPoleGain zpk;
  constexpr const char* operation = "to_zero_pole_gain";
  zpk.poles = listed(poles_of(rational, operation));
  const bool kept = feed_through == FeedThrough::automatic && rational.numerator;
  const bool inside = feed_through == FeedThrough::inside;
  const Numerator numerator = kept     ? *rational.numerator
                              : inside ? whole_factors(rational, operation)
                                       : separate_factors(rational, operation);
  zpk.zeros = listed(numerator.zeros);
  zpk.gain = numerator.gain.high;
  zpk.h0 = kept ? rational.beside.high : inside ? 0 : rational.h0.high;
  return zpk;
}

}  // namespace rtf
