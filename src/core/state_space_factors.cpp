// Poles and zeros of a dense state space in 106 bits, without the coefficients of a polynomial.
#include <algorithm>
#include <cmath>
#include <memory>

#include "core/eigenvalues.h"
#include "core/from_rational.h"
#include "core/hessenberg.h"
#include "core/rational.h"

namespace rtf {
namespace {

using Wide = DoubleDouble;
using Row = std::vector<Wide>;

// The matrices in coordinates that make determinants cheap.
struct Realisation {
  Row A, B, C;

  // det(zI - A) (d + C (zI - A)^-1 B)
  WideComplex numerator(const Wide& d, const WideComplex& z) const {
    const Determinants at = determinants(A, B, C, d, z);
    return at.denominator * at.response;
  }
};

// The factors of this numerator from those that its coefficients have. Its first coefficient stays what it is.
Numerator refined(Numerator numerator, const Realisation& realisation, const Wide& d) {
  if (numerator.gain.high == 0) return numerator;
  const WideComplex inverse(reciprocal(numerator.gain));
  numerator.zeros =
      refined_roots(numerator.zeros, [&](const WideComplex& z) { return realisation.numerator(d, z) * inverse; });
  return numerator;
}

}  // namespace

Rational factors_of(const StateSpace& system, const MimoRational& coefficients) {
  Realisation realisation{
      {system.A.begin(), system.A.end()}, {system.B.begin(), system.B.end()}, {system.C.begin(), system.C.end()}};
  reduce_to_hessenberg(realisation.A, realisation.B, realisation.C);
  const Wide D = system.D[0];
  const Roots poles = refined_roots(
      paired_roots(eigenvalues(system.A, system.order, MatrixShape::dense, "convert")), [&](const WideComplex& z) {
        return determinants(realisation.A, realisation.B, realisation.C, D, z).denominator;
      });
  const Rational start{coefficients.a, coefficients.b, D, ""};
  Numerator separate = separate_factors(start, "convert");
  if (separate.gain.high != 0) ++separate.delay;  // B begins with w
  separate = refined(std::move(separate), realisation, 0.0);
  const Numerator whole = D.high == 0 ? separate : refined(whole_factors(start, "convert"), realisation, D);

  Row numerator(whole.delay, Wide(0.0));
  numerator.push_back(whole.gain);
  for (const Wide& x : expand(whole.zeros)) numerator.push_back(whole.gain * x);
  Rational result = with_numerator(expand(poles), std::move(numerator), "eigenvalues");
  result.poles = poles;
  result.numerator = separate;
  result.beside = D;
  result.whole = whole;
  const auto known = std::make_shared<const std::vector<Uncertain>>(uncertain_eigenvalues(system.A, system.order));
  result.uncertainty = [known](std::complex<double> pole) {
    const auto distance = [&](const Uncertain& x) { return std::abs(x.value - pole); };
    return std::min_element(known->begin(), known->end(),
                            [&](const Uncertain& x, const Uncertain& y) { return distance(x) < distance(y); })
        ->radius;
  };
  return result;
}

}  // namespace rtf
