#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <numbers>
#include <utility>

#include "core/arguments.h"
#include "core/conjugate_pairs.h"
#include "core/form_scale.h"
#include "core/lattice.h"
#include "rtf/reduce.h"
#include "rtf/stability.h"

namespace rtf {
namespace {

using Section = std::array<double, 6>;

constexpr const char* operation = "realization";

StateSpace gain(double value) {
  StateSpace s;
  s.D = {value};
  return s;
}

StateSpace from_lattice(const TransferFunction& tf) {
  const auto lattice = to_lattice(tf.a, tf.b);
  if (!lattice)
    fail(ErrorCode::unstable, operation,
         "a pole of modulus {:.9g}; every pole has to be inside the circle: stabilize the filter first",
         pole_radius(tf.a));
  StateSpace s = gain(tf.h0[0]);
  s.order = tf.order;
  s.A = lattice->transition();
  s.B = lattice->input();
  s.C = lattice->output;
  return s;
}

// Room for `more` states behind those of s, all zero.
void grow(StateSpace& s, std::size_t more) {
  const std::size_t n = s.order, size = n + more;
  std::vector<double> A(size * size, 0.0);
  for (std::size_t i = 0; i < n; ++i) std::copy_n(s.A.data() + i * n, n, A.data() + i * size);
  s.A = std::move(A);
  s.B.resize(size, 0.0);
  s.C.resize(size, 0.0);
  s.order = size;
}

// A section in companion form behind what is there.
void append(StateSpace& s, const Section& section) {
  const double b0 = section[0] / section[3], b1 = section[1] / section[3], b2 = section[2] / section[3];
  const double a1 = section[4] / section[3], a2 = section[5] / section[3];
  const std::size_t n = s.order, more = a2 != 0 || b2 != 0 ? 2 : a1 != 0 || b1 != 0 ? 1 : 0, size = n + more;
  grow(s, more);
  if (more > 0) {
    std::copy_n(s.C.data(), n, s.A.data() + n * size);  // its input is the output so far
    s.B[n] = s.D[0];
    s.A[n * size + n] = -a1;
  }
  for (std::size_t i = 0; i < n; ++i) s.C[i] *= b0;
  s.D[0] *= b0;
  if (more > 0) s.C[n] = b1 - b0 * a1;
  if (more > 1) {
    s.A[n * size + n + 1] = -a2;
    s.A[(n + 1) * size + n] = 1;
    s.C[n + 1] = b2 - b0 * a2;
  }
}

double magnitude(const Section& section, double angle) {
  const std::complex<double> w = std::polar(1.0, -angle);
  return std::abs((section[0] + w * (section[1] + w * section[2])) / (section[3] + w * (section[4] + w * section[5])));
}

// Each section is divided by a power of two, so that |H| peaks near 1 after every one of them: sections whose gains
// differ by many decades would leave states that hardly move beside others. The powers go into the output.
StateSpace chain(const std::vector<Section>& sections) {
  constexpr std::size_t grid = 512;
  std::vector<double> angles;
  for (std::size_t i = 0; i <= grid; ++i)
    angles.push_back(std::numbers::pi * static_cast<double>(i) / static_cast<double>(grid));
  for (const Section& s : sections)
    if (const double discriminant = s[4] * s[4] - 4 * s[3] * s[5]; discriminant < 0)
      angles.push_back(std::atan2(std::sqrt(-discriminant), -s[4] * (s[3] < 0 ? -1 : 1)));
  std::vector<double> magnitudes(angles.size(), 1.0);
  StateSpace result = gain(1);
  int exponent = 0;
  for (Section section : sections) {
    double peak = 0;
    for (std::size_t i = 0; i < angles.size(); ++i)
      if (const double value = magnitudes[i] *= magnitude(section, angles[i]); std::isfinite(value))
        peak = std::max(peak, value);
    const int excess = peak > 0 ? std::ilogb(peak) : 0;
    for (std::size_t k = 0; k < 3; ++k) section[k] = std::ldexp(section[k], -excess);
    for (double& value : magnitudes) value = std::ldexp(value, -excess);
    exponent += excess;
    append(result, section);
  }
  for (double& value : result.C) value = std::ldexp(value, exponent);
  result.D[0] = std::ldexp(result.D[0], exponent);
  return result;
}

// A pair of poles as the two parts of one complex state.
StateSpace side_by_side(const Modal& modal) {
  StateSpace s = gain(modal.h0);
  for (const PairedValue& pole : conjugate_pairs(operation, "poles", modal.poles)) {
    const std::complex<double> residue = modal.residues[pole.index];
    const std::size_t n = s.order, more = pole.real() ? 1 : 2, size = n + more;
    grow(s, more);
    s.A[n * size + n] = pole.value.real();
    s.B[n] = 1;
    s.C[n] = (pole.real() ? 1 : 2) * residue.real();
    if (pole.real()) continue;
    s.A[n * size + n + 1] = -pole.value.imag();
    s.A[(n + 1) * size + n] = pole.value.imag();
    s.A[(n + 1) * size + n + 1] = pole.value.real();
    s.C[n + 1] = -2 * residue.imag();
  }
  return s;
}

struct Realize {
  StateSpace operator()(const TransferFunction& tf) const { return from_lattice(tf); }
  StateSpace operator()(const PolynomialRatio& ratio) const { return from_lattice(to_transfer_function(ratio).value); }
  StateSpace operator()(const StateSpace& system) const { return system; }
  StateSpace operator()(const Modal& modal) const { return side_by_side(modal); }
  StateSpace operator()(ZeroPoleGain zpk) const {
    const double beside = std::exchange(zpk.h0, 0);
    StateSpace s = chain(to_sections(zpk).value.sections);
    s.D[0] += beside;
    return s;
  }
  StateSpace operator()(const SecondOrderSections& sos) const { return chain(sos.sections); }
};

}  // namespace

StateSpace realization(const System& channel) {
  validate(channel, operation);
  if (const auto* system = std::get_if<StateSpace>(&channel)) return *system;
  const auto [near, exponent] = moderate(channel);
  return scaled(std::visit(Realize(), near), exponent);
}

}  // namespace rtf
