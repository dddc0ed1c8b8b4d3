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

namespace rtf {
namespace {

constexpr const char* operation = "realize";
constexpr double infinity = std::numeric_limits<double>::infinity();

// --- The forms ------------------------------------------------------------------------------------------------------

void round(Realization& realization) {
  const auto narrow = [](double& value) { value = rounded_to_float32(value); };
  if (auto* tf = std::get_if<TransferFunction>(&realization)) {
    for (auto* values : {&tf->a, &tf->b, &tf->h0}) std::for_each(values->begin(), values->end(), narrow);
  } else if (auto* sos = std::get_if<std::vector<SecondOrderSections>>(&realization)) {
    for (auto& channel : *sos)
      for (auto& section : channel.sections) std::for_each(section.begin(), section.end(), narrow);
  } else {
    for (Modal& channel : std::get<std::vector<Modal>>(realization)) {
      narrow(channel.h0);
      for (auto* values : {&channel.poles, &channel.residues})
        for (auto& value : *values) value = {rounded_to_float32(value.real()), rounded_to_float32(value.imag())};
    }
  }
}

// Of the numbers as they are: rounding may have moved a pole out.
bool poles_inside(const Realization& realization) {
  if (const auto* tf = std::get_if<TransferFunction>(&realization)) {
    for (std::size_t g = 0; g < tf->groups; ++g)
      if (!is_stable(std::span(tf->a).subspan(g * tf->order, tf->order))) return false;
    return true;
  }
  if (const auto* sos = std::get_if<std::vector<SecondOrderSections>>(&realization)) {
    for (const auto& channel : *sos)
      for (const auto& section : channel.sections)
        if (!is_stable(std::span(section).subspan(4, 2))) return false;
    return true;
  }
  for (const Modal& channel : std::get<std::vector<Modal>>(realization))
    for (const auto& pole : channel.poles)
      if (std::abs(pole) >= 1) return false;
  return true;
}

// convert(channel) for all channels; nothing when one of them has no such form.
template <class Form, class Convert>
std::optional<std::vector<Form>> convert_channels(const TransferFunction& tf, Executor& executor, Convert&& convert) {
  std::vector<std::optional<Form>> found(tf.channels);
  parallel_for(executor, tf.channels, [&](std::size_t c, std::size_t) {
    try {
      found[c] = convert(select_channel(tf, c));
    } catch (const Error&) {  // poles too close for the form, or beyond a double
    }
  });
  std::vector<Form> all;
  for (auto& one : found) {
    if (!one) return std::nullopt;
    all.push_back(std::move(*one));
  }
  return all;
}

// The layer in the form of this name; nothing where it has none.
std::optional<Realization> in_form(const TransferFunction& tf, const std::string& form, Executor& executor) {
  if (form == "companion") return tf;
  ConversionOptions options;
  options.report_length = 64;  // what counts is measured with the layer's own arithmetic
  if (form == "sos") {
    auto all = convert_channels<SecondOrderSections>(
        tf, executor, [&](const TransferFunction& one) { return to_sections(one, options).value; });
    if (!all) return std::nullopt;
    std::size_t most = 1;
    for (const auto& channel : *all) most = std::max(most, channel.sections.size());
    for (auto& channel : *all) {
      for (auto& section : channel.sections)
        for (std::size_t i : {0, 1, 2, 5, 4, 3}) section[i] /= section[3];
      channel.sections.resize(most, {1, 0, 0, 1, 0, 0});
    }
    return *std::move(all);
  }
  auto all =
      convert_channels<Modal>(tf, executor, [&](const TransferFunction& one) { return to_modal(one, options).value; });
  if (!all) return std::nullopt;
  std::size_t most = 0;
  for (const auto& channel : *all) most = std::max(most, channel.poles.size());
  for (auto& channel : *all) {
    channel.poles.resize(most);
    channel.residues.resize(most);
  }
  return *std::move(all);
}

// --- Measuring ------------------------------------------------------------------------------------------------------

// A model that is this layer alone: its one input goes to every channel, and every channel comes out.
ModelFile alone(const LayerRealization& layer, std::size_t channels, DataType precision) {
  ModelFile file;
  Architecture& a = file.architecture;
  a.channels = a.outputs = channels;
  a.layers = 1;
  a.norm = Architecture::Norm::none;
  a.residual = a.glu = false;
  a.activation = Architecture::Activation::identity;
  a.decoder = Architecture::Decoder::position;
  file.precision = precision;
  file.encoder = {std::vector<double>(channels, 1.0), std::vector<double>(channels, 0.0)};
  file.blocks.resize(1);
  file.blocks[0].layer = layer;
  Linear& identity = file.decoder.emplace_back();
  identity.weight.assign(channels * channels, 0.0);
  for (std::size_t c = 0; c < channels; ++c) identity.weight[c * (channels + 1)] = 1;
  identity.bias.assign(channels, 0.0);
  return file;
}

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
  const stream::Model<T> model(alone(layer, reference.channels, precision));
  stream::Streams<T> streams(model, 1);
  std::vector<double> impulse(reference.length, 0.0);
  impulse[0] = 1;
  const double of_impulse = error_of(streams, impulse, reference.kernel, reference.channels);
  return std::max(of_impulse, error_of(streams, reference.noise, reference.response, reference.channels));
}

// --- The choice -----------------------------------------------------------------------------------------------------

double default_bound(DataType precision) { return precision == DataType::f32 ? 1e-5 : 1e-10; }
const char* text(DataType precision) { return precision == DataType::f32 ? "float32" : "float64"; }

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
           "denominator {} has a pole of modulus {:.6g}; streamed, its rounding errors would grow: stabilize it, by "
           "refit or reflect",
           g, pole_radius(a));
    auto stable = stabilize_it(*options.stabilize);
    value = std::move(stable.value);
    return *std::max_element(stable.error.begin(), stable.error.end());
  }
  return std::nullopt;
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
  Realized best;
  best.layer.error = infinity;
  std::vector<RealizationTrial> trials;
  std::optional<Realization> forms[std::size(by_cost)];
  bool made[std::size(by_cost)] = {};
  for (const DataType precision : {DataType::f32, DataType::f64}) {
    if (precision == DataType::f32 && options.precision == DataType::f64) continue;
    for (std::size_t i = 0; i < std::size(by_cost); ++i) {
      if (options.realization != RealizationChoice::automatic && options.realization != by_cost[i].choice) continue;
      if (!std::exchange(made[i], true)) forms[i] = in_form(tf, by_cost[i].name, executor);
      double error = infinity;
      if (forms[i]) {
        LayerRealization layer{*forms[i], precision};
        if (precision == DataType::f32) round(layer.realization);
        if (poles_inside(layer.realization)) {
          error =
              options.precision == DataType::f32 ? measure<float>(layer, reference) : measure<double>(layer, reference);
          if (error < best.layer.error) {
            layer.error = error;
            best.layer = std::move(layer);
          }
        }
      }
      trials.push_back({by_cost[i].name, precision, error});
      if (error <= bound) {
        best.trials = std::move(trials);
        return best;
      }
    }
  }
  // What rounding of the coefficients themselves does in double is not the form's fault.
  const double allowed = bound * std::max(1.0, condition(tf, reference.length) / 1e6);
  if (!(best.layer.error <= allowed))
    fail(ErrorCode::unsupported, operation,
         "no realization holds the layer: the best is off by {:.2e} of the kernel's largest value in {}, the bound is "
         "{:.0e}",
         best.layer.error, text(best.layer.precision), allowed);
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

}  // namespace rtf
