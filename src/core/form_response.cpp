#include "core/form_response.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "core/hessenberg.h"

namespace rtf {
namespace {

using Wide = DoubleDouble;

template <class... Cases>
struct Overload : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overload(Cases...) -> Overload<Cases...>;  // clang 14 does not deduce it by itself

WideComplex horner(const std::vector<double>& c, const WideComplex& w) {
  WideComplex value(0.0);
  for (std::size_t k = c.size(); k-- > 0;) {
    value = value * w;
    value.re = value.re + Wide(c[k]);
  }
  return value;
}

// (z - x) (z - x~), factor by factor: their coefficients would not hold what is left of them next to x.
WideComplex distance(const PairedValue& x, const WideComplex& z) {
  const WideComplex upper = z - widened(x.value);
  return x.real() ? upper : upper * (z - conj(widened(x.value)));
}

WideComplex finished(const ScaledProduct& product, double beside) {
  const WideComplex& value = product.value;
  return {scale_by_power_of_two(value.re, product.exponent) + Wide(beside),
          scale_by_power_of_two(value.im, product.exponent)};
}

std::vector<double> with_leading(double first, std::vector<double> rest) {
  rest.insert(rest.begin(), first);
  return rest;
}

double modulus(const WideComplex& x) { return std::hypot(x.re.high, x.im.high); }

}  // namespace

FormResponse::FormResponse(const System& system) : source_(source_of(system)) {}

FormResponse::Source FormResponse::source_of(const System& system) {
  constexpr const char* operation = "response";
  return std::visit(
      Overload{
          [](const TransferFunction& tf) -> Source {
            return Ratio{{with_leading(0, tf.b)}, {with_leading(1, tf.a)}, tf.h0[0]};
          },
          [](const PolynomialRatio& ratio) -> Source {
            return Ratio{{ratio.b}, {ratio.a}, 0};
          },
          [](const StateSpace& s) -> Source {
            Hessenberg h{{s.A.begin(), s.A.end()}, {s.B.begin(), s.B.end()}, {s.C.begin(), s.C.end()}, s.D[0]};
            reduce_to_hessenberg(h.A, h.B, h.C);
            return h;
          },
          [](const Modal& modal) -> Source {
            Sum sum{conjugate_pairs(operation, "poles", modal.poles), {}, modal.h0};
            for (const PairedValue& x : sum.poles)
              sum.residues.push_back(0.5 * modal.residues[x.index] + 0.5 * std::conj(modal.residues[x.partner]));
            return sum;
          },
          [](const ZeroPoleGain& zpk) -> Source {
            return Product{conjugate_pairs(operation, "zeros", zpk.zeros),
                           conjugate_pairs(operation, "poles", zpk.poles), zpk.gain, zpk.h0};
          },
          [](const SecondOrderSections& sos) -> Source {
            Ratio ratio{{}, {}, 0};
            for (const auto& s : sos.sections) {
              ratio.numerators.push_back({s[0], s[1], s[2]});
              ratio.denominators.push_back({s[3], s[4], s[5]});
            }
            return ratio;
          },
      },
      system);
}

WideComplex FormResponse::operator()(const WideComplex& z) const {
  return std::visit(Overload{
                        [&](const Hessenberg& s) { return determinants(s.A, s.B, s.C, s.D, z).response; },
                        [&](const Product& x) {
                          ScaledProduct product;
                          product.multiply(WideComplex(Wide(x.gain)));
                          // In turn, so that neither side outgrows a double.
                          for (std::size_t i = 0; i < std::max(x.zeros.size(), x.poles.size()); ++i) {
                            if (i < x.zeros.size()) product.multiply(distance(x.zeros[i], z));
                            if (i < x.poles.size()) product.multiply(reciprocal(distance(x.poles[i], z)));
                          }
                          return finished(product, x.beside);
                        },
                        [&](const Sum& x) {
                          WideComplex sum(Wide(x.beside));
                          for (std::size_t i = 0; i < x.poles.size(); ++i) {
                            const WideComplex p = widened(x.poles[i].value), r = widened(x.residues[i]);
                            sum = sum + r * reciprocal(z - p);
                            if (!x.poles[i].real()) sum = sum + conj(r) * reciprocal(z - conj(p));
                          }
                          return sum;
                        },
                        [&](const Ratio& x) {
                          const WideComplex w = reciprocal(z);
                          ScaledProduct product;
                          for (std::size_t i = 0; i < x.numerators.size(); ++i) {
                            product.multiply(horner(x.numerators[i], w));
                            product.multiply(reciprocal(horner(x.denominators[i], w)));
                          }
                          return finished(product, x.beside);
                        },
                    },
                    source_);
}

double response_error(const FormResponse& expected, const FormResponse& actual,
                      std::span<const std::complex<double>> poles, std::size_t length) {
  const double dies = std::pow(std::numeric_limits<double>::epsilon(), 1 / static_cast<double>(length));
  std::vector<double> angles;
  std::size_t left = 32;  // the slowest tell
  for (const std::complex<double> pole : poles) {
    if (std::abs(pole) <= dies || left == 0) break;
    if (pole.imag() < 0) continue;
    --left;
    // A resonance is as wide as its pole is far from the circle; sixteen such widths away little is left of it.
    const double angle = std::arg(pole), width = 1 - std::abs(pole);
    for (const double offset : {-16.0, -4.0, -1.0, 0.0, 1.0, 4.0, 16.0})
      angles.push_back(std::clamp(angle + offset * width, 0.0, std::numbers::pi));
  }
  if (angles.empty()) return 0;
  constexpr int grid = 16;  // for a largest |H| that is elsewhere
  for (int i = 0; i <= grid; ++i) angles.push_back(std::numbers::pi * i / grid);
  std::sort(angles.begin(), angles.end());
  angles.erase(std::unique(angles.begin(), angles.end()), angles.end());
  double largest = 0, difference = 0;
  for (const double angle : angles) {
    const WideComplex z(std::cos(angle), std::sin(angle)), value = expected(z);
    largest = std::max(largest, modulus(value));
    const double change = modulus(actual(z) - value);
    difference = std::max(difference, std::isfinite(change) ? change : HUGE_VAL);
  }
  return largest > 0 ? difference / largest : difference;
}

}  // namespace rtf
