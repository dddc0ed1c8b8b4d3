#include "core/form_scale.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <span>
#include <utility>

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
int size(const Modal& modal) { return std::max(largest_exponent(modal.residues), exponent_of(modal.h0)); }
int size(const ZeroPoleGain& zpk) { return std::max(exponent_of(zpk.gain), exponent_of(zpk.h0)); }

template <class... Rows>
bool are_finite(const Rows&... rows) {
  const auto finite = [](const auto& x) { return std::isfinite(std::abs(x)); };
  return (std::all_of(rows.begin(), rows.end(), finite) && ...);
}

struct Finite {
  bool operator()(const TransferFunction& tf) const { return are_finite(tf.a, tf.b, tf.h0); }
  bool operator()(const PolynomialRatio& ratio) const { return are_finite(ratio.b, ratio.a); }
  bool operator()(const StateSpace& s) const { return are_finite(s.A, s.B, s.C, s.D); }
  bool operator()(const Modal& m) const { return are_finite(m.poles, m.residues, std::array{m.h0}); }
  bool operator()(const ZeroPoleGain& zpk) const {
    return are_finite(zpk.zeros, zpk.poles, std::array{zpk.gain, zpk.h0});
  }
  bool operator()(const SecondOrderSections& sos) const {
    return std::all_of(sos.sections.begin(), sos.sections.end(), [](const auto& row) { return are_finite(row); });
  }
};

bool is_nothing(int exponent) { return exponent <= nothing / 2; }
bool is_moderate(int exponent) { return is_nothing(exponent) || std::abs(exponent) <= room; }
int or_zero(int exponent) { return is_nothing(exponent) ? 0 : exponent; }

template <class Values>
void scale(Values&& values, int exponent) {
  for (double& x : values) x = std::ldexp(x, exponent);
}

// `form` has numbers near 1; the exponent of its kernel goes back into them where they have room for it.
template <class Form>
Moderate<Form> with_exponent(Form form, int exponent) {
  if (is_moderate(exponent)) return {scaled(std::move(form), or_zero(exponent)), 0};
  return {std::move(form), exponent};
}

template <class Form>
Moderate<Form> made_moderate(const Form& form) {
  const int exponent = size(form);
  return is_moderate(exponent) ? Moderate<Form>{form, 0} : Moderate<Form>{scaled(form, -exponent), exponent};
}

Moderate<PolynomialRatio> made_moderate(const PolynomialRatio& ratio) {
  const int below = exponent_of(ratio.a[0]), above = or_zero(largest_exponent(ratio.b));
  if (is_moderate(below) && is_moderate(above) && is_moderate(above - below)) return {ratio, 0};
  PolynomialRatio near_one = ratio;
  scale(near_one.a, -below);
  scale(near_one.b, -above);
  return with_exponent(std::move(near_one), above - below);
}

// B and C may be far apart without the kernel being so.
Moderate<StateSpace> made_moderate(const StateSpace& system) {
  const int of_input = or_zero(largest_exponent(system.B)), of_output = largest_exponent(system.C);
  const int exponent = or_zero(std::max(of_input + of_output, largest_exponent(system.D)));
  if (is_moderate(of_input) && is_moderate(of_output) && is_moderate(exponent)) return {system, 0};
  StateSpace near_one = system;
  scale(near_one.B, -of_input);
  scale(near_one.C, of_input - exponent);
  scale(near_one.D, -exponent);
  return with_exponent(std::move(near_one), exponent);
}

Moderate<SecondOrderSections> made_moderate(const SecondOrderSections& sos) {
  SecondOrderSections near_one = sos;
  int exponent = 0;
  bool is_one = true;
  for (auto& section : near_one.sections) {
    const std::span<double> b = std::span(section).first(3), a = std::span(section).last(3);
    const int above = or_zero(largest_exponent(b)), below = exponent_of(a[0]);
    is_one = is_one && is_moderate(above) && is_moderate(below);
    scale(b, -above);
    scale(a, -below);
    exponent += above - below;
  }
  if (is_one && is_moderate(exponent)) return {sos, 0};
  return with_exponent(std::move(near_one), exponent);
}

}  // namespace

bool is_finite(const System& system) { return std::visit(Finite(), system); }

Moderate<System> moderate(const System& system) {
  return std::visit(
      [](const auto& form) -> Moderate<System> {
        auto [result, exponent] = made_moderate(form);
        return {std::move(result), exponent};
      },
      system);
}

Moderate<TransferFunction> moderate(const TransferFunction& tf) { return made_moderate(tf); }

Moderate<StateSpace> moderate(const StateSpace& system) { return made_moderate(system); }

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
