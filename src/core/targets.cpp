#include "core/targets.h"

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

std::vector<double> rounded(const Row& row) {
  std::vector<double> values;
  for (const Wide& x : row) values.push_back(x.high);
  return values;
}

WideComplex widened(std::complex<double> x) { return {x.real(), x.imag()}; }

// sum_k c_k x^{size-1-k}
WideComplex evaluate(const Row& c, const WideComplex& x) {
  WideComplex value;
  for (const Wide& coefficient : c) value = value * x + WideComplex(coefficient);
  return value;
}

// A numerator as w^delay gain (1 - z_1 w) (1 - z_2 w) ...; gain 0 without zeros for nothing at all.
struct Numerator {
  std::size_t delay = 0;
  Wide gain = 0.0;
  Roots zeros;
};

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
      if (distance > std::numbers::pi * (radii[i] + radii[j]) || distance >= closest) continue;
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

// --- second-order sections ----------------------------------------------------------------------------------------

// Roots of one section: a conjugate pair, or up to two real numbers.
struct SectionRoots {
  std::complex<double> place;  // the one nearest to the circle
  Factor<Wide> factor;
};

Factor<Wide> product(const Wide& x, const Wide& y) { return {-(x + y), x * y}; }

double distance_to_circle(std::complex<double> x) { return std::abs(1 - std::abs(x)); }

// Index of the element that `cost` makes smallest.
template <class Values, class Cost>
std::size_t cheapest(const Values& values, Cost cost) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < values.size(); ++i)
    if (cost(values[i]) < cost(values[best])) best = i;
  return best;
}

template <class T>
T taken(std::vector<T>& values, std::size_t index) {
  const T value = values[index];
  values.erase(values.begin() + static_cast<std::ptrdiff_t>(index));
  return value;
}

// Nearest to the circle first. Real poles are paired in this order, the last with a pole at 0 when their number is odd.
std::vector<SectionRoots> pole_sections(Roots poles) {
  if (poles.real.size() % 2 == 1) poles.real.push_back(0.0);
  std::stable_sort(poles.real.begin(), poles.real.end(), [](const Wide& x, const Wide& y) {
    return distance_to_circle(x.high) < distance_to_circle(y.high);
  });
  std::vector<SectionRoots> result;
  for (std::size_t i = 0; i + 1 < poles.real.size(); i += 2)
    result.push_back({poles.real[i].high, product(poles.real[i], poles.real[i + 1])});
  for (const WideComplex& x : poles.upper) result.push_back({rounded(x), pair_factor(x)});
  std::stable_sort(result.begin(), result.end(), [](const SectionRoots& x, const SectionRoots& y) {
    return distance_to_circle(x.place) < distance_to_circle(y.place);
  });
  return result;
}

// The zeros not yet in a section; delays count as real zeros that nothing is near to.
struct ZeroPool {
  std::vector<Wide> real;
  std::vector<WideComplex> upper;
  std::size_t delays = 0;

  // b_0..b_2 of the section whose poles are at `place`: the nearest pair, or the two nearest real zeros. Taking real
  // ones by twos always leaves room for the rest.
  std::array<Wide, 3> take(std::complex<double> place) {
    const auto from_real = [&](const Wide& x) { return std::abs(x.high - place); };
    const auto from_pair = [&](const WideComplex& x) {
      return std::abs(std::complex(x.re.high, x.im.high) - std::complex(place.real(), std::abs(place.imag())));
    };
    if (!upper.empty()) {
      const std::size_t pair = cheapest(upper, from_pair);
      if (real.empty() || from_pair(upper[pair]) <= from_real(real[cheapest(real, from_real)])) {
        const auto [first, second] = pair_factor(taken(upper, pair));
        return {1.0, first, second};
      }
    }
    Factor<Wide> factor{};
    std::size_t slots = 2, delay = 0;
    for (; slots > 0 && !real.empty(); --slots) {
      const Wide x = taken(real, cheapest(real, from_real));
      factor = {factor.first - x, -(factor.first * x)};
    }
    for (; slots > 0 && delays > 0; --slots, --delays) ++delay;
    if (delay == 2) return {0.0, 0.0, 1.0};
    if (delay == 1) return {0.0, 1.0, factor.first};
    return {1.0, factor.first, factor.second};
  }
};

}  // namespace

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
  result.poles = listed(find_roots(rational.a, "to_modal"));
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
    radii.push_back(uncertainty(denominator, poles[i], std::abs(rounded(slope))));
  }
  check_distinct(poles, radii);
  for (std::size_t i = 0; i < poles.size(); ++i) {
    const bool lower = i > 0 && poles[i].imag() < 0;  // listed after its conjugate
    result.residues.push_back(lower ? std::conj(result.residues[i - 1])
                                    : rounded(evaluate(rational.b, widened(poles[i])) * reciprocal(slopes[i])));
    if (poles[i].imag() == 0) result.residues.back().imag(0);
  }
  return result;
}

ZeroPoleGain zero_pole_gain(const Rational& rational, FeedThrough feed_through) {
  ZeroPoleGain zpk;
  zpk.poles = listed(find_roots(rational.a, "to_zero_pole_gain"));
  const bool separate = feed_through == FeedThrough::separate;
  const Numerator numerator = factored(separate ? rational.b : whole_numerator(rational), "to_zero_pole_gain");
  zpk.zeros = listed(numerator.zeros);
  zpk.gain = numerator.gain.high;
  zpk.h0 = separate ? rational.h0.high : 0;
  return zpk;
}

SecondOrderSections sections(const Rational& rational) {
  const std::vector<SectionRoots> poles = pole_sections(find_roots(rational.a, "to_sections"));
  const Numerator numerator = factored(whole_numerator(rational), "to_sections");
  ZeroPool pool{numerator.zeros.real, numerator.zeros.upper, numerator.delay};
  SecondOrderSections sos;
  for (std::size_t i = 0; i < poles.size(); ++i) {
    std::array<Wide, 3> b = pool.take(poles[i].place);
    if (i + 1 == poles.size())
      for (Wide& x : b) x = x * numerator.gain;
    const auto& [first, second] = poles[i].factor;
    sos.sections.push_back({b[0].high, b[1].high, b[2].high, 1, first.high, second.high});
  }
  if (poles.empty()) sos.sections.push_back({numerator.gain.high, 0, 0, 1, 0, 0});
  std::reverse(sos.sections.begin(), sos.sections.end());
  return sos;
}

}  // namespace rtf
