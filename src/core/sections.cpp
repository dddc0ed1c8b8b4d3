// Which poles and zeros share a section.
#include <algorithm>
#include <array>
#include <cmath>
#include <complex>

#include "core/conjugate_pairs.h"
#include "core/from_rational.h"
#include "core/leja_order.h"
#include "core/root_pairs.h"
#include "core/roots.h"

namespace rtf {
namespace {

using Wide = DoubleDouble;

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

// Sections as far from the circle as each other, a comb's for example, in Leja's order from the last to the first, as
// they will be run: neighbours on a circle one after the other would amplify without end and then cancel.
void spread(std::vector<SectionRoots>& sections) {
  constexpr double as_far = 1e-9;
  for (std::size_t begin = 0, end = 0; begin < sections.size(); begin = end) {
    const double nearest = distance_to_circle(sections[begin].place);
    std::vector<std::vector<std::complex<double>>> places;
    for (; end < sections.size() && distance_to_circle(sections[end].place) <= nearest + as_far; ++end)
      places.push_back({sections[end].place, std::conj(sections[end].place)});
    const std::vector<SectionRoots> group(sections.begin() + static_cast<std::ptrdiff_t>(begin),
                                          sections.begin() + static_cast<std::ptrdiff_t>(end));
    std::size_t last = end;
    for (const std::size_t i : leja_order(places)) sections[--last] = group[i];
  }
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
  spread(result);
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

struct WideSection {
  std::array<Wide, 3> b;
  Factor<Wide> a;
};

// Sections without poles, which come last here and are run first, in Leja's order of their zeros for the same reason.
void spread_finite(std::vector<WideSection>& sections) {
  const auto first = std::find_if(sections.begin(), sections.end(),
                                  [](const WideSection& s) { return s.a.first.high == 0 && s.a.second.high == 0; });
  std::vector<std::vector<std::complex<double>>> places;
  for (auto section = first; section != sections.end(); ++section) {
    const auto& b = section->b;
    Roots zeros;
    // A delay has zeros where nothing is near.
    if (b[0].high != 0) append_quadratic(-b[1], b[2], zeros);
    places.push_back(listed(zeros));
    if (places.back().empty()) places.back().push_back(0.0);
  }
  const std::vector<WideSection> finite(first, sections.end());
  auto last = sections.end();
  for (const std::size_t i : leja_order(places)) *--last = finite[i];
}

}  // namespace

SecondOrderSections sections(const Rational& rational) {
  const std::vector<SectionRoots> poles = pole_sections(poles_of(rational, "to_sections"));
  const Numerator numerator = whole_factors(rational, "to_sections");
  ZeroPool pool{numerator.zeros.real, numerator.zeros.upper, numerator.delay};
  std::vector<WideSection> wide;
  for (const SectionRoots& section : poles) wide.push_back({pool.take(section.place), section.factor});
  if (poles.empty()) wide.push_back({{1.0, 0.0, 0.0}, {}});
  spread_finite(wide);
  for (Wide& x : wide.back().b) x = x * numerator.gain;
  SecondOrderSections sos;
  for (const auto& [b, a] : wide)
    sos.sections.push_back({b[0].high, b[1].high, b[2].high, 1, a.first.high, a.second.high});
  std::reverse(sos.sections.begin(), sos.sections.end());
  return sos;
}

}  // namespace rtf
