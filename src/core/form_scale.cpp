#include "core/form_scale.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <initializer_list>

namespace rtf {
namespace {

constexpr int room = 400;         // exponents up to this leave squares and their rounding errors inside a double
constexpr int nothing = -100000;  // the exponent of 0

int exponent_of(double x) { return x == 0 ? nothing : std::ilogb(x); }
int exponent_of(std::complex<double> x) { return std::max(exponent_of(x.real()), exponent_of(x.imag())); }

template <class Values>
int largest_exponent(const Values& values) {
  int largest = nothing;
  for (const auto& x : values) largest = std::max(largest, exponent_of(x));
  return largest;
}

int size(const TransferFunction& tf) { return std::max(largest_exponent(tf.b), exponent_of(tf.h0[0])); }
int size(const PolynomialRatio& ratio) { return largest_exponent(ratio.b) - exponent_of(ratio.a[0]); }
int size(const StateSpace& s) { return std::max(largest_exponent(s.B) + largest_exponent(s.C), largest_exponent(s.D)); }
int size(const Modal& modal) { return std::max(largest_exponent(modal.residues), exponent_of(modal.h0)); }
int size(const ZeroPoleGain& zpk) { return std::max(exponent_of(zpk.gain), exponent_of(zpk.h0)); }
int size(const SecondOrderSections& sos) {
  int total = 0;
  for (const auto& s : sos.sections)
    total += std::max({nothing / 10, exponent_of(s[0]), exponent_of(s[1]), exponent_of(s[2])}) - exponent_of(s[3]);
  return total;
}

template <class Values>
void scale(Values& values, int exponent) {
  for (double& x : values) x = std::ldexp(x, exponent);
}

}  // namespace

int excess_exponent(const System& system) {
  const int exponent = std::visit([](const auto& form) { return size(form); }, system);
  const bool is_nothing = exponent < nothing / 20;
  return is_nothing || std::abs(exponent) <= room ? 0 : exponent;
}

TransferFunction scaled(TransferFunction tf, int exponent) {
  scale(tf.b, exponent);
  scale(tf.h0, exponent);
  return tf;
}

PolynomialRatio scaled(PolynomialRatio ratio, int exponent) {
  scale(ratio.b, exponent);
  return ratio;
}

StateSpace scaled(StateSpace system, int exponent) {
  scale(system.C, exponent);
  scale(system.D, exponent);
  return system;
}

Modal scaled(Modal modal, int exponent) {
  for (auto& x : modal.residues) x = {std::ldexp(x.real(), exponent), std::ldexp(x.imag(), exponent)};
  modal.h0 = std::ldexp(modal.h0, exponent);
  return modal;
}

ZeroPoleGain scaled(ZeroPoleGain zpk, int exponent) {
  zpk.gain = std::ldexp(zpk.gain, exponent);
  zpk.h0 = std::ldexp(zpk.h0, exponent);
  return zpk;
}

SecondOrderSections scaled(SecondOrderSections sos, int exponent) {
  for (std::size_t k = 0; k < 3; ++k) sos.sections[0][k] = std::ldexp(sos.sections[0][k], exponent);
  return sos;
}

System scaled(const System& system, int exponent) {
  return std::visit([&](const auto& form) -> System { return scaled(form, exponent); }, system);
}

}  // namespace rtf
