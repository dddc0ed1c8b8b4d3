#include "rtf/conversion.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "core/arguments.h"
#include "core/eigenvalues.h"
#include "core/file_errors.h"
#include "core/form_kernel.h"
#include "core/form_response.h"
#include "core/form_scale.h"
#include "core/from_rational.h"
#include "core/idle_states.h"
#include "rtf/reduce.h"
#include "rtf/stability.h"

namespace rtf {
namespace {

using Wide = DoubleDouble;

// Past this size products of 106 bits overflow inside.
constexpr double largest_measured = 0x1p960;

// Of the largest value: an error from here on leaves no digit of the kernel.
constexpr double hopeless_error = 0.1;

// Of the condition: an error beyond it is not that of doubles but of the way that was taken.
constexpr double promised_share = 1e-8;

// How many samples of every row of kernels stay within what can be measured.
std::size_t measured_length(const std::vector<Wide>& kernels, std::size_t length) {
  std::size_t shortest = length;
  for (std::size_t i = 0; i < kernels.size(); ++i)
    if (!(std::abs(kernels[i].high) < largest_measured)) shortest = std::min(shortest, i % length);
  return shortest;
}

// Compares kernels of `length` samples each, row by row.
template <class Source, class Target>
void measure(const Source& source, const Target& target, std::size_t length, ConversionReport& report) {
  const std::vector<Wide> expected = wide_kernel(source, length), actual = wide_kernel(target, length);
  report.length = measured_length(expected, length);
  if (report.length == 0)
    fail(ErrorCode::unsupported, "convert", "the kernel overflows at its first sample: there is nothing to compare");
  double largest = 0, difference = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (i % length >= report.length) continue;
    largest = std::max(largest, std::abs(expected[i].high));
    const double change = std::abs((actual[i] - expected[i]).high);
    difference = std::max(difference, std::isfinite(change) ? change : HUGE_VAL);
  }
  report.error = largest > 0 ? difference / largest : difference;
  report.condition = std::max(sensitivity(source, report.length), sensitivity(target, report.length));
}

bool are_inside(const std::vector<std::complex<double>>& poles) {
  return std::all_of(poles.begin(), poles.end(), [](const std::complex<double> p) { return std::abs(p) < 1; });
}

// What coefficients lose of a stable system beyond the samples that are compared: slow poles, which move by far more
// than rounding, are hardly seen in them.
void measure_response(const System& source, const std::optional<Roots>& known, const System& target,
                      const std::vector<double>& a, ConversionReport& report) {
  const auto* system = std::get_if<StateSpace>(&source);
  if (!known && !system) return;  // coefficients themselves
  const std::vector<std::complex<double>> poles =
      known ? listed(*known) : eigenvalues(system->A, system->order, MatrixShape::dense, "convert");
  if (!are_inside(poles)) return;
  report.response_error = response_error(FormResponse(source), FormResponse(target), poles, report.length);
  // Coefficients that lose nothing are as stable as the source, whatever its eigenvalues in double say.
  if (report.response_error > std::numeric_limits<double>::epsilon() && !is_stable(std::span<const double>(a)))
    report.response_error = HUGE_VAL;
}

void check_options(const ConversionOptions& options, const char* operation) {
  if (options.report_length < 1) fail(ErrorCode::argument, operation, "report_length is 0; at least 1 is needed");
}

std::string joined(const std::string& first, const std::string& second) {
  return first.empty() || first == second ? second : second.empty() ? first : first + ", " + second;
}

// Makes the target by the routes there are: the second one where the first is off by more than the rounding of doubles.
template <class Make>
auto best_route(bool state_space, const ConversionOptions& options, const Make& make) {
  using enum StateSpaceMethod;
  if (!state_space || options.method != automatic) return make(options.method == eigenvalues ? eigenvalues : markov);
  std::optional<decltype(make(markov))> best;
  try {
    best = make(markov);
  } catch (const Error&) {  // coefficients that are refused: the other way needs none
  }
  if (!best) return make(eigenvalues);
  const ConversionReport& report = best->report;  // its figures are infinite where coefficients say nothing
  if (std::isfinite(report.worst()) && report.worst() <= std::numeric_limits<double>::epsilon() * report.condition)
    return std::move(*best);
  try {
    if (auto other = make(eigenvalues); other.report.worst() < best->report.worst()) best = std::move(other);
  } catch (const Error&) {
  }
  return std::move(*best);
}

// Zeros that are to be of something else than the file's are the one reason not to copy.
bool may_copy(const System& source, const ConversionOptions& options) {
  const auto* zpk = std::get_if<ZeroPoleGain>(&source);
  if (!zpk || options.feed_through == FeedThrough::automatic) return true;
  const bool feeds_through = zpk->gain != 0 && zpk->zeros.size() == zpk->poles.size();
  return options.feed_through == FeedThrough::inside ? zpk->h0 == 0 : !feeds_through;
}

[[noreturn]] void fail_overflow(const char* operation, const System& source) {
  const auto* ratio = std::get_if<PolynomialRatio>(&source);
  fail(ErrorCode::unsupported, operation, "numbers of the result are too large for doubles{}",
       ratio ? fmt::format(": a[0], which they are divided by, is {}", ratio->a[0]) : "");
}

// What the way from the source's poles and zeros, or else from its coefficients, is called.
struct Way {
  const char *from_factors, *from_coefficients;
};

template <class Make>
auto convert_as_given(const char* operation, const System& source, const ConversionOptions& options, const Way& way,
                      const Make& make) {
  using Target = decltype(make(Rational()));
  validate(source, operation);
  check_options(options, operation);
  const auto [near, exponent] = moderate(source);
  if (const auto* same = std::get_if<Target>(&source); same && may_copy(source, options)) {
    Converted<Target> copy{*same, {}};
    measure(near, near, options.report_length, copy.report);
    return copy;
  }
  auto best = best_route(
      std::holds_alternative<StateSpace>(source), options,
      [&, &near = near, exponent = exponent](StateSpaceMethod route) {
        const Rational rational = to_rational(near, route);
        const bool from_factors = rational.numerator && way.from_factors;
        if (!from_factors && !is_finite(rounded(rational))) fail_overflow(operation, source);
        Converted<Target> result{scaled(make(rational), exponent), {}};
        if (!is_finite(result.value)) fail_overflow(operation, source);
        try {
          validate(System(result.value), operation);
        } catch (const Error& error) {
          fail(ErrorCode::unsupported, operation, "the result is not a system: {}", without_operation(error));
        }
        const System target = scaled(result.value, -exponent);
        measure(near, target, options.report_length, result.report);
        if (!way.from_factors) {  // the target is made of coefficients
          const TransferFunction tf = rounded(rational);
          const bool companion = std::holds_alternative<StateSpace>(target);
          measure_response(near, rational.poles, companion ? System(tf) : target, tf.a, result.report);
        }
        // So are sections, of which slow poles that were given may have more digits than they.
        if (std::holds_alternative<SecondOrderSections>(target) && std::holds_alternative<ZeroPoleGain>(near))
          measure_response(near, rational.poles, target, {}, result.report);
        result.report.method = !from_factors    ? joined(rational.method, way.from_coefficients)
                               : rational.whole ? way.from_coefficients  // eigenvalues of a state space
                                                : way.from_factors;
        return result;
      });
  const ConversionReport& report = best.report;
  const bool may_be_subnormal = exponent < 0;  // numbers that are have fewer bits
  if (!may_be_subnormal && !(report.error <= promised_share * report.condition))
    fail(ErrorCode::unsupported, operation,
         "the result would be off by {:.1e} of the kernel's largest value, {:.0e} times what rounding of its numbers "
         "does: its coefficients, which poles or zeros close together make nearly cancel, need more than 106 bits",
         report.error, report.error / (std::numeric_limits<double>::epsilon() * report.condition));
  if (!(report.error < hopeless_error))
    fail(ErrorCode::unsupported, operation,
         "the result would be off by {:.1e} of the kernel's largest value: doubles of this form cannot hold it",
         report.error);
  if (std::isinf(report.response_error))
    fail(ErrorCode::unsupported, operation,
         "the result would not be stable, which the {} is: doubles of this form cannot hold it", form_name(source));
  if (!(report.response_error < hopeless_error))
    fail(ErrorCode::unsupported, operation,
         "the result would be off by {:.1e} of the largest |H| next to a pole, which the first {} samples do not show: "
         "doubles of this form cannot hold it",
         report.response_error, report.length);
  return best;
}

// States that nothing reaches, or that nothing shows, are poles to a polynomial, and outside the circle they drown the
// others: what is refused with them is tried without.
template <class Make>
auto convert(const char* operation, const System& source, const ConversionOptions& options, const Way& way,
             const Make& make) {
  try {
    return convert_as_given(operation, source, options, way, make);
  } catch (const Error& error) {
    const auto* system = std::get_if<StateSpace>(&source);
    if (!system || error.code() != ErrorCode::unsupported) throw;
    const StateSpace fewer = without_idle_states(*system);
    if (fewer.order == system->order) throw;
    return convert_as_given(operation, fewer, options, way, make);
  }
}

// Poles, zeros and residues as a state space that has no coefficients; nothing for the forms that are made of those.
std::optional<Converted<StateSpace>> without_coefficients(const System& source, const ConversionOptions& options) {
  const bool has_residues = std::holds_alternative<Modal>(source);
  if (!has_residues && !std::holds_alternative<ZeroPoleGain>(source) &&
      !std::holds_alternative<SecondOrderSections>(source))
    return {};
  const auto [near, exponent] = moderate(source);
  Converted<StateSpace> result{scaled(realization(near), exponent), {}};
  if (!is_finite(result.value)) fail_overflow("to_state_space", source);
  measure(near, System(scaled(result.value, -exponent)), options.report_length, result.report);
  result.report.method = has_residues ? "poles side by side" : "chain of sections";
  return result;
}

}  // namespace

Converted<TransferFunction> to_transfer_function(const System& source, const ConversionOptions& options) {
  return convert("to_transfer_function", source, options, {nullptr, ""}, [](const Rational& r) { return rounded(r); });
}

Converted<PolynomialRatio> to_polynomial_ratio(const System& source, const ConversionOptions& options) {
  return convert("to_polynomial_ratio", source, options, {nullptr, "coefficients"}, polynomial_ratio);
}

Converted<StateSpace> to_state_space(const System& source, const ConversionOptions& options) {
  constexpr double enough = 1e-12;  // up to which the companion form, from which a transfer function is read, is best
  std::optional<Converted<StateSpace>> best;
  std::optional<Error> refusal;
  try {
    best = convert("to_state_space", source, options, {nullptr, "companion form"},
                   [](const Rational& r) { return to_state_space(rounded(r), 0); });
    if (best->report.worst() <= enough) return *std::move(best);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) throw;
    refusal = error;
  }
  try {
    auto other = without_coefficients(source, options);
    if (other && other->report.worst() < (best ? best->report.worst() : hopeless_error)) best = std::move(other);
  } catch (const Error&) {  // not even sections: what was said of the companion form stands
  }
  if (!best) throw *refusal;
  return *std::move(best);
}

Converted<Modal> to_modal(const System& source, const ConversionOptions& options) {
  return convert("to_modal", source, options, {"residues", "eigenvalues, residues"}, modal);
}

Converted<ZeroPoleGain> to_zero_pole_gain(const System& source, const ConversionOptions& options) {
  return convert("to_zero_pole_gain", source, options, {"factors", "eigenvalues"},
                 [&](const Rational& r) { return zero_pole_gain(r, options.feed_through); });
}

Converted<SecondOrderSections> to_sections(const System& source, const ConversionOptions& options) {
  return convert("to_sections", source, options, {"nearest pairs", "eigenvalues, nearest pairs"}, sections);
}

Converted<MimoTransferFunction> to_mimo_transfer_function(const StateSpace& source, const ConversionOptions& options) {
  constexpr const char* operation = "to_mimo_transfer_function";
  validate(source, operation);
  check_options(options, operation);
  // From its own numbers, of which a characteristic polynomial would make a system of as many states.
  if (options.method == StateSpaceMethod::automatic && is_block_companion(source))
    return {from_block_companion(source), {0, 1, options.report_length, "block companion", 0}};
  const auto [near, exponent] = moderate(source);
  return best_route(true, options, [&, &near = near, exponent = exponent](StateSpaceMethod route) {
    const MimoRational rational = to_rational(near, route);
    Converted<MimoTransferFunction> result;
    MimoTransferFunction& tf = result.value;
    tf.inputs = source.inputs;
    tf.outputs = source.outputs;
    tf.order = source.order;
    tf.a = rounded(rational.a);
    tf.b = rounded(rational.b);
    tf.h0 = near.D;
    measure(System(near), tf, options.report_length, result.report);
    for (auto* row : {&tf.b, &tf.h0})
      for (double& x : *row) x = std::ldexp(x, exponent);
    result.report.method = route == StateSpaceMethod::markov ? "markov" : "eigenvalues";
    return result;
  });
}

std::vector<double> kernel(const System& system, std::size_t length) {
  validate(system, "kernel");
  const auto [near, exponent] = moderate(system);
  std::vector<double> values = rounded(wide_kernel(near, length));
  for (double& x : values) x = std::ldexp(x, exponent);
  if (!std::all_of(values.begin(), values.end(), [](double x) { return std::isfinite(x); }))
    fail(ErrorCode::unstable, "kernel", "the response overflows within {} samples", length);
  return values;
}

}  // namespace rtf
