#include "rtf/realize.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "core/arguments.h"
#include "core/float32.h"
#include "rtf/conversion.h"
#include "rtf/convolution.h"
#include "rtf/correction.h"
#include "rtf/kernel.h"
#include "rtf/random.h"
#include "rtf/stability.h"
#include "rtf/stream.h"
#include "stream/drift.h"
#include "stream/layer_form.h"

namespace rtf {
namespace {

constexpr const char* operation = "realize";
constexpr double infinity = std::numeric_limits<double>::infinity();

// --- Measuring ------------------------------------------------------------------------------------------------------

// What the layer is measured by: an impulse, and noise, whose rounding errors come anew with every sample.
struct Reference {
  std::size_t channels = 0, length = 0;
  std::vector<double> noise;             // (length)
  std::vector<double> kernel, response;  // (channels, length): of an impulse and of the noise, in double

  Reference(std::vector<double> kernel_, std::size_t channels_, std::size_t length_)
      : channels(channels_), length(length_), noise(length_), kernel(std::move(kernel_)), response(kernel.size()) {
    const Random random(0);
    for (std::size_t t = 0; t < length; ++t) noise[t] = rounded_to_float32(random.normal(t));
    std::vector<double> u(channels * length);
    for (std::size_t c = 0; c < channels; ++c)
      std::copy(noise.begin(), noise.end(), u.begin() + static_cast<std::ptrdiff_t>(c * length));
    convolve<double>(length_last<const double>(u.data(), 1, channels, length), std::span<const double>(kernel),
                     length_last(response.data(), 1, channels, length));
  }
};

// Largest difference over the largest value, of the worst channel; `signal` is the one input of all channels.
template <class T>
double error_of(stream::Streams<T>& streams, std::span<const double> signal, const std::vector<double>& wanted,
                std::size_t channels) {
  constexpr std::size_t block = 64;
  const std::size_t length = signal.size(), one = streams.join();
  std::vector<T> in(block), out(block * channels);
  std::vector<double> error(channels, 0.0), largest(channels, 0.0);
  for (std::size_t first = 0; first < length; first += block) {
    const std::size_t count = std::min(block, length - first);
    for (std::size_t t = 0; t < count; ++t) in[t] = static_cast<T>(signal[first + t]);
    streams.process({&one, 1}, channels_last<const T>(in.data(), 1, count, 1),
                    channels_last(out.data(), 1, count, channels));
    for (std::size_t t = 0; t < count; ++t)
      for (std::size_t c = 0; c < channels; ++c) {
        const double value = wanted[c * length + first + t];
        const double difference = std::abs(static_cast<double>(out[t * channels + c]) - value);
        error[c] = std::isfinite(difference) ? std::max(error[c], difference) : infinity;
        largest[c] = std::max(largest[c], std::abs(value));
      }
  }
  streams.leave(one);
  double worst = 0;
  for (std::size_t c = 0; c < channels; ++c) worst = std::max(worst, largest[c] > 0 ? error[c] / largest[c] : error[c]);
  return worst;
}

template <class T>
double measure(const LayerRealization& layer, const Reference& reference) {
  const DataType precision = std::is_same_v<T, float> ? DataType::f32 : DataType::f64;
  const stream::Model<T> model(filter_model(layer, 1, reference.channels, precision));
  stream::Streams<T> streams(model, 1);
  std::vector<double> impulse(reference.length, 0.0);
  impulse[0] = 1;
  const double of_impulse = error_of(streams, impulse, reference.kernel, reference.channels);
  return std::max(of_impulse, error_of(streams, reference.noise, reference.response, reference.channels));
}

// --- The choice -----------------------------------------------------------------------------------------------------

// What may be lost over any number of samples. A run of one loudness has half the rounding errors that another has,
// and one that lasts longer meets errors twice as large: a fourth of it may show when it is measured.
constexpr double longest_drift = 1e-3, drift_margin = 4;

double default_bound(DataType precision) { return precision == DataType::f32 ? 1e-5 : 1e-10; }

double radius_of(const Coefficients& coefficients) {
  double radius = 0;
  for (std::size_t g = 0; g < coefficients.groups; ++g)
    radius =
        std::max(radius, pole_radius(std::span(coefficients.a).subspan(g * coefficients.order, coefficients.order)));
  return radius;
}

// A stable filter in place of `value`, or the error that says what to ask for.
template <class Value, class Stabilize>
std::optional<double> make_stable(Value& value, const RealizeOptions& options, Stabilize&& stabilize_it) {
  for (std::size_t g = 0; g < value.groups; ++g) {
    const auto a = std::span<const double>(value.a).subspan(g * value.order, value.order);
    if (is_stable(a)) continue;
    if (!options.stabilize)
      fail(ErrorCode::unstable, operation,
           "denominator {} has a pole of modulus {:.6g}; streamed, its rounding errors would grow", g, pole_radius(a));
    auto stable = stabilize_it(*options.stabilize);
    value = std::move(stable.value);
    return *std::max_element(stable.error.begin(), stable.error.end());
  }
  return std::nullopt;
}

// A layer in the precision that a trial asks for.
struct Attempt {
  LayerRealization layer;
  RealizationTrial trial;
};

// Nothing where the form does not exist, or rounding moved a pole out or a number past the largest.
Attempt attempt(const std::optional<Realization>& form, const char* name, DataType precision,
                const RealizeOptions& options, const Reference& reference) {
  Attempt made{{}, {name, precision, infinity, {}}};
  if (!form) return made;
  made.layer = {*form, precision};
  if (precision == DataType::f32 && !round_to_float32(made.layer.realization)) return made;
  if (!poles_inside(made.layer.realization)) return made;
  made.trial.error = made.layer.error = options.precision == DataType::f32 ? measure<float>(made.layer, reference)
                                                                           : measure<double>(made.layer, reference);
  return made;
}

// Why none of the trials will do.
[[noreturn]] void refuse(const std::vector<RealizationTrial>& trials, const Realized& best, bool formless,
                         double allowed) {
  if (formless)
    fail(ErrorCode::unsupported, operation,
         "the layer has no {} form: some of its poles are too close to each other; another realization is needed",
         trials[0].name);
  if (!std::isfinite(best.layer.error))
    fail(
        ErrorCode::unsupported, operation,
        "no realization holds the layer: rounding its numbers moves a pole out of the circle, or they are too large or "
        "too small for it");
  fail(ErrorCode::unsupported, operation,
       "no realization holds the layer: the best is off by {:.2e} of the kernel's largest value in {}, the bound is "
       "{:.0e}",
       best.layer.error, name(best.layer.precision), allowed);
}

Realized choose(const TransferFunction& tf, const Reference& reference, const RealizeOptions& options,
                Executor& executor) {
  struct Candidate {
    RealizationChoice choice;
    const char* name;
  };
  // By multiplications a sample: 2, 2.5 and 3 times the order.
  constexpr Candidate by_cost[] = {{RealizationChoice::companion, "companion"},
                                   {RealizationChoice::sos, "sos"},
                                   {RealizationChoice::modal, "modal"}};
  const double bound = options.bound > 0 ? options.bound : default_bound(options.precision);
  const double drift_bound = std::max(longest_drift, bound);
  Realized best;
  best.layer.error = infinity;
  std::vector<RealizationTrial> trials;
  std::optional<Realization> forms[std::size(by_cost)];
  bool made[std::size(by_cost)] = {};
  bool formless = true;
  std::optional<DriftProbe> probe;
  // Double is what drift is measured against.
  const auto holds_on = [&](Attempt& one) {
    if (one.trial.precision == DataType::f64) return true;
    if (!probe) probe.emplace(tf, executor);
    const double least = probe->of_one_rounding();
    one.trial.drift = least > drift_bound ? least : probe->measure(one.layer.realization, executor);
    return *one.trial.drift <= drift_bound / drift_margin;
  };
  for (const DataType precision : {DataType::f32, DataType::f64}) {
    if (precision == DataType::f32 && options.precision == DataType::f64) continue;
    for (std::size_t i = 0; i < std::size(by_cost); ++i) {
      if (options.realization != RealizationChoice::automatic && options.realization != by_cost[i].choice) continue;
      if (!std::exchange(made[i], true)) forms[i] = in_form(tf, by_cost[i].name, executor);
      formless = formless && !forms[i];
      Attempt one = attempt(forms[i], by_cost[i].name, precision, options, reference);
      // A form that is already off by more than it may drift need not run on.
      const bool holds = one.trial.error <= drift_bound && holds_on(one);
      trials.push_back(one.trial);
      if (holds && one.trial.error < best.layer.error) {
        best.layer = std::move(one.layer);
        best.drift = one.trial.drift;
      }
      if (holds && one.trial.error <= bound) {
        best.trials = std::move(trials);
        return best;
      }
    }
  }
  // What rounding of the coefficients themselves does in double is not the form's fault.
  const double allowed = bound * std::max(1.0, condition(tf, reference.length) / 1e6);
  if (!(best.layer.error <= allowed)) refuse(trials, best, formless, allowed);
  best.trials = std::move(trials);
  return best;
}

}  // namespace

Realized realize(const TransferFunction& tf, std::size_t length, const RealizeOptions& options, Executor& executor) {
  validate(tf, operation);
  if (length == 0) fail(ErrorCode::argument, operation, "length is 0; at least 1 is needed");
  TransferFunction stable = tf;
  const auto moved =
      make_stable(stable, options, [&](StabilizeMethod method) { return stabilize(stable, method, length, executor); });
  Realized result = choose(stable, Reference(exact_kernel(stable, length), tf.channels, length), options, executor);
  result.layer.pole_radius = radius_of(stable);
  result.stabilize_error = moved;
  return result;
}

Realized realize(const TrainedTransferFunction& trained, const RealizeOptions& options, Executor& executor) {
  validate(trained, operation);
  TrainedTransferFunction stable = trained;
  const auto moved =
      make_stable(stable, options, [&](StabilizeMethod method) { return stabilize(stable, method, executor); });
  Realized result =
      choose(correct(stable), Reference(wrapped_kernel(stable), stable.channels, stable.length), options, executor);
  result.layer.pole_radius = radius_of(stable);
  result.stabilize_error = moved;
  return result;
}

namespace {

Reference reference_of(std::span<const System> channels, std::size_t length, Executor& executor) {
  std::vector<double> kernels(channels.size() * length);
  parallel_for(executor, channels.size(), [&](std::size_t c, std::size_t) {
    const std::vector<double> one = kernel(channels[c], length);
    std::copy(one.begin(), one.end(), kernels.begin() + static_cast<std::ptrdiff_t>(c * length));
  });
  return Reference(std::move(kernels), channels.size(), length);
}

// Nothing where they do not hold the channels, or no recurrence holds them.
std::optional<Realized> realize_coefficients(std::span<const System> channels, std::size_t length, DataType precision,
                                             Executor& executor) {
  constexpr double share = 0.1;  // of the bound
  const double bound = default_bound(precision);
  std::vector<TransferFunction> coefficients;
  try {
    for (const System& channel : channels) {
      auto [value, report] = to_transfer_function(channel);
      if (!(report.worst() <= share * bound)) return std::nullopt;
      coefficients.push_back(std::move(value));
    }
    RealizeOptions options;
    options.precision = precision;
    options.bound = (1 - share) * bound;
    return realize(join_channels(coefficients), length, options, executor);
  } catch (const Error&) {
    return std::nullopt;
  }
}

Realized realize_sections(std::span<const System> channels, std::size_t length, DataType precision,
                          Executor& executor) {
  std::vector<SecondOrderSections> sections(channels.size());
  ConversionOptions short_report;
  short_report.report_length = 64;  // what counts is measured with the layer's own arithmetic
  parallel_for(executor, channels.size(),
               [&](std::size_t c, std::size_t) { sections[c] = to_sections(channels[c], short_report).value; });
  RealizeOptions options;
  options.precision = precision;
  Attempt one =
      attempt(alike(std::move(sections)), "sos", DataType::f64, options, reference_of(channels, length, executor));
  Realized result{std::move(one.layer), {}, {one.trial}, {}};
  if (!(one.trial.error <= default_bound(precision)))
    refuse(result.trials, result, /*formless=*/false, default_bound(precision));
  return result;
}

// Factors in double may be off by more than `length` samples show: they are run until the slowest pole's answer to an
// impulse is a thousandth of what it was, or for as long as takes a moment.
void check_long_run(const LayerRealization& layer, std::span<const System> channels, double radius, std::size_t length,
                    DataType precision, Executor& executor) {
  constexpr double longest = 1 << 16, longest_together = 1 << 20;
  const double rings = radius < 1 ? std::ceil(std::log(1e-3) / std::log(std::max(radius, 0.5))) : longest;
  const auto samples =
      static_cast<std::size_t>(std::min({rings, longest, longest_together / static_cast<double>(channels.size())}));
  if (samples <= length) return;
  const Reference reference = reference_of(channels, samples, executor);
  const double error =
      precision == DataType::f32 ? measure<float>(layer, reference) : measure<double>(layer, reference);
  if (!(error <= longest_drift / drift_margin))
    fail(
        ErrorCode::unsupported, operation,
        "no realization holds the layer: over {} samples, as long as its slowest pole rings, the best is off by {:.2e} "
        "of the largest value, the bound is {:.1e}",
        samples, error, longest_drift / drift_margin);
}

}  // namespace

Realized realize(std::span<const System> channels, std::size_t length, DataType precision, Executor& executor) {
  if (length == 0) fail(ErrorCode::argument, operation, "length is 0; at least 1 is needed");
  if (channels.empty()) fail(ErrorCode::argument, operation, "no channels; at least one is needed");
  double radius = 0;
  for (std::size_t c = 0; c < channels.size(); ++c) {
    if (!has_factors(channels[c]))
      fail(ErrorCode::argument, operation, "channel {} of form {} has no factors; zpk or sos is needed", c,
           form_name(channels[c]));
    if (!is_stable(channels[c]))
      fail(ErrorCode::unstable, operation,
           "channel {} has a pole of modulus {:.6g}; streamed, its rounding errors would grow", c,
           pole_radius(channels[c]));
    radius = std::max(radius, pole_radius(channels[c]));
  }
  std::optional<Realized> found = realize_coefficients(channels, length, precision, executor);
  Realized result = found ? *std::move(found) : realize_sections(channels, length, precision, executor);
  check_long_run(result.layer, channels, radius, length, precision, executor);
  result.layer.pole_radius = radius;
  return result;
}

}  // namespace rtf
