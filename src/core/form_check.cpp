// What makes the numbers of a form a system.
#include <cmath>
#include <limits>

#include "core/arguments.h"
#include "core/check_finite.h"
#include "core/conjugate_pairs.h"
#include "rtf/conversion.h"

namespace rtf {
namespace {

void check(const TransferFunction& tf, const char* operation) {
  rtf::validate(tf, operation);
  if (tf.channels != 1)
    fail(ErrorCode::argument, operation, "a transfer function of {} channels; select_channel() takes one of them",
         tf.channels);
}

void check(const PolynomialRatio& ratio, const char* operation) {
  check_finite(operation, "b", ratio.b);
  check_finite(operation, "a", ratio.a);
  if (ratio.b.empty() || ratio.a.empty())
    fail(ErrorCode::argument, operation, "{} has no values; at least one is needed", ratio.b.empty() ? "b" : "a");
  if (ratio.a[0] == 0)
    fail(ErrorCode::argument, operation,
         "a[0] is 0; it must not be, or the system would answer before its input: drop leading zeros of both");
}

void check(const StateSpace& system, const char* operation) {
  rtf::validate(system, operation);
  if (system.inputs != 1 || system.outputs != 1)
    fail(ErrorCode::argument, operation, "a state space of {} inputs and {} outputs; one of each is needed",
         system.inputs, system.outputs);
}

void check(const Modal& modal, const char* operation) {
  check_count(operation, "residues", modal.residues.size(), modal.poles.size());
  check_finite(operation, "h0", {&modal.h0, 1});
  for (std::size_t i = 0; i < modal.poles.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (std::abs(modal.poles[i] - modal.poles[j]) <=
          4 * std::numeric_limits<double>::epsilon() * std::abs(modal.poles[i]))
        fail(ErrorCode::argument, operation, "poles[{}] is {}, and so is poles[{}]; modal needs distinct poles", i,
             complex_text(modal.poles[i]), j);
  for (const PairedValue& x : conjugate_pairs(operation, "poles", modal.poles)) {
    const std::complex<double> upper = modal.residues[x.index], lower = modal.residues[x.partner];
    if (!std::isfinite(std::abs(upper)) || !(std::abs(upper - std::conj(lower)) <= 1e-8 * std::abs(upper)))
      fail(ErrorCode::argument, operation, "residues[{}] is {}, that of the conjugate pole {}; they must be conjugate",
           x.index, complex_text(upper), complex_text(lower));
  }
}

void check(const ZeroPoleGain& zpk, const char* operation) {
  check_finite(operation, "gain", {&zpk.gain, 1});
  check_finite(operation, "h0", {&zpk.h0, 1});
  conjugate_pairs(operation, "zeros", zpk.zeros);
  conjugate_pairs(operation, "poles", zpk.poles);
  if (zpk.zeros.size() > zpk.poles.size())
    fail(ErrorCode::argument, operation, "{} zeros and {} poles; more zeros than poles would answer before the input",
         zpk.zeros.size(), zpk.poles.size());
}

void check(const SecondOrderSections& sos, const char* operation) {
  if (sos.sections.empty()) fail(ErrorCode::argument, operation, "no sections; at least one is needed");
  for (std::size_t i = 0; i < sos.sections.size(); ++i) {
    const auto& section = sos.sections[i];
    for (const double x : section)
      if (!std::isfinite(x)) fail(ErrorCode::argument, operation, "section {} holds {}; numbers must be finite", i, x);
    if (section[3] == 0) fail(ErrorCode::argument, operation, "section {} has a0 = 0; it must not be 0", i);
  }
}

}  // namespace

const char* form_name(const System& system) {
  static constexpr const char* names[] = {"tf", "ba", "ss", "modal", "zpk", "sos"};
  return names[system.index()];
}

void validate(const System& system, const char* operation) {
  std::visit([&](const auto& form) { check(form, operation); }, system);
}

}  // namespace rtf
