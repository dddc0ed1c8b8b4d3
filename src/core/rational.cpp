#include "core/rational.h"

#include <algorithm>
#include <type_traits>

#include "core/conjugate_pairs.h"
#include "core/root_pairs.h"
#include "core/roots.h"

namespace rtf {
namespace {

using Wide = DoubleDouble;
using Row = std::vector<Wide>;

Row wide(const std::vector<double>& values) { return {values.begin(), values.end()}; }

Row product(const Row& x, const Row& y) {
  Row result(x.size() + y.size() - 1, Wide(0.0));
  for (std::size_t i = 0; i < x.size(); ++i)
    for (std::size_t j = 0; j < y.size(); ++j) result[i + j] = result[i + j] + x[i] * y[j];
  return result;
}

Row without_first(Row x) {
  x.erase(x.begin());
  return x;
}

Roots rounded_pairs(const char* name, const std::vector<std::complex<double>>& values) {
  Roots roots;
  for (const PairedValue& x : conjugate_pairs("convert", name, values)) {
    if (x.real()) {
      roots.real.push_back(x.value.real());
    } else {
      roots.upper.push_back(widened(x.value));
    }
  }
  return roots;
}

Rational from(const TransferFunction& tf) { return {wide(tf.a), wide(tf.b), tf.h0[0], ""}; }

Rational from(const PolynomialRatio& ratio) {
  const Wide inverse = reciprocal(Wide(ratio.a[0]));
  Row a = wide(ratio.a), b = wide(ratio.b);
  if (ratio.a[0] != 1) {
    for (Wide& x : a) x = x * inverse;
    for (Wide& x : b) x = x * inverse;
  }
  return with_numerator(without_first(std::move(a)), std::move(b), "coefficients");
}

Rational from(const ZeroPoleGain& zpk) {
  const Row zeros = expand(rounded_pairs("zeros", zpk.zeros));
  Row numerator(zpk.poles.size() - zpk.zeros.size(), Wide(0.0));
  numerator.push_back(zpk.gain);
  for (const Wide& x : zeros) numerator.push_back(Wide(zpk.gain) * x);
  Rational result =
      with_numerator(expand(rounded_pairs("poles", zpk.poles)), std::move(numerator), "product of factors");
  result.h0 = result.h0 + Wide(zpk.h0);
  result.beside = zpk.h0;
  result.poles = rounded_pairs("poles", zpk.poles);
  result.numerator.emplace();
  if (zpk.gain != 0)
    result.numerator = {zpk.poles.size() - zpk.zeros.size(), zpk.gain, rounded_pairs("zeros", zpk.zeros)};
  return result;
}

// sum_i r_i w / (1 - p_i w), one term after the other brought onto the common denominator.
Rational from(const Modal& modal) {
  Row numerator{0.0}, denominator{1.0};
  for (const PairedValue& x : conjugate_pairs("convert", "poles", modal.poles)) {
    const std::complex<double> residue = 0.5 * modal.residues[x.index] + 0.5 * std::conj(modal.residues[x.partner]);
    const WideComplex p = widened(x.value), r = widened(residue);
    // 2 Re (r w / (1 - p w)) = 2 (Re r - Re(r conj p) w) w / (1 - 2 Re(p) w + |p|^2 w^2)
    const Row term_numerator = x.real() ? Row{0.0, r.re} : Row{0.0, r.re + r.re, (r * conj(p)).re * Wide(-2.0)};
    const Factor<Wide> factor = x.real() ? real_factor(p.re) : pair_factor(p);
    const Row term_denominator = x.real() ? Row{1.0, factor.first} : Row{1.0, factor.first, factor.second};
    Row sum = product(numerator, term_denominator);
    const Row other = product(denominator, term_numerator);
    sum.resize(std::max(sum.size(), other.size()), Wide(0.0));
    for (std::size_t k = 0; k < other.size(); ++k) sum[k] = sum[k] + other[k];
    numerator = std::move(sum);
    denominator = product(denominator, term_denominator);
  }
  numerator.resize(denominator.size(), Wide(0.0));
  return {without_first(std::move(denominator)), without_first(std::move(numerator)), modal.h0,
          "sum of partial fractions", rounded_pairs("poles", modal.poles)};
}

// Adds the zeros of b_0 + b_1 w + b_2 w^2 to those of the sections before.
void append_zeros(const Row& b, Numerator& numerator) {
  std::size_t delay = 0;
  while (delay < 3 && b[delay].high == 0) ++delay;
  if (delay == 3 || numerator.gain.high == 0) {
    numerator = {};
    return;
  }
  const Wide inverse = reciprocal(b[delay]);
  numerator.delay += delay;
  numerator.gain = numerator.gain * b[delay];
  if (delay == 0) append_quadratic(-(b[1] * inverse), b[2] * inverse, numerator.zeros);
  if (delay == 1) numerator.zeros.real.push_back(-(b[2] * inverse));
}

// Sections of the first order have a pole and a zero at 0 too many.
void cancel_at_zero(Roots& poles, Numerator& numerator) {
  const auto at_zero = [](Roots& roots) {
    return std::find_if(roots.real.begin(), roots.real.end(), [](const Wide& x) { return x.high == 0; });
  };
  while (true) {
    const auto pole = at_zero(poles), zero = at_zero(numerator.zeros);
    if (pole == poles.real.end() || (zero == numerator.zeros.real.end() && numerator.gain.high != 0)) return;
    poles.real.erase(pole);
    if (numerator.gain.high != 0) numerator.zeros.real.erase(zero);
  }
}

Rational from(const SecondOrderSections& sos) {
  Row numerator{1.0}, denominator{1.0};
  Roots poles;
  Numerator factors{0, 1.0, {}};
  for (const auto& section : sos.sections) {
    Row b{section[0], section[1], section[2]}, a{1.0, section[4], section[5]};
    if (section[3] != 1) {
      const Wide inverse = reciprocal(Wide(section[3]));
      for (Row* row : {&b, &a})
        for (std::size_t k = row == &a; k < 3; ++k) (*row)[k] = (*row)[k] * inverse;
    }
    numerator = product(numerator, b);
    denominator = product(denominator, a);
    append_quadratic(-a[1], a[2], poles);
    append_zeros(b, factors);
  }
  cancel_at_zero(poles, factors);
  while (denominator.size() > 1 && denominator.back().high == 0 && numerator.back().high == 0) {
    denominator.pop_back();
    numerator.pop_back();
  }
  Rational result = with_numerator(without_first(std::move(denominator)), std::move(numerator), "product of sections");
  result.poles = std::move(poles);
  result.numerator = std::move(factors);
  return result;
}

}  // namespace

Rational with_numerator(Row a, Row numerator, std::string method) {
  const std::size_t order = std::max(a.size(), numerator.size() - 1);
  a.resize(order, Wide(0.0));
  numerator.resize(order + 1, Wide(0.0));
  Rational result{std::move(a), without_first(numerator), numerator[0], std::move(method)};
  bool leading = true;
  for (std::size_t k = 0; k < order; ++k) {
    const Wide taken = numerator[0] * result.a[k];
    result.b[k] = result.b[k] - taken;
    // What is left of leading terms that cancel is rounding of 106 bits: a delay stays a delay.
    leading = leading && abs(result.b[k]).high <= 0x1p-90 * abs(taken).high;
    if (leading) result.b[k] = 0.0;
  }
  return result;
}

Row whole_numerator(const Rational& rational) {
  Row numerator{rational.h0};
  for (std::size_t k = 0; k < rational.a.size(); ++k) numerator.push_back(rational.h0 * rational.a[k] + rational.b[k]);
  return numerator;
}

Rational to_rational(const System& system, StateSpaceMethod route) {
  return std::visit(
      [&](const auto& form) -> Rational {
        if constexpr (std::is_same_v<std::decay_t<decltype(form)>, StateSpace>) {
          MimoRational rational = to_rational(form, StateSpaceMethod::markov);
          if (route == StateSpaceMethod::eigenvalues) return factors_of(form, rational);
          return {std::move(rational.a), std::move(rational.b), form.D[0], "markov"};
        } else {
          return from(form);
        }
      },
      system);
}

}  // namespace rtf
