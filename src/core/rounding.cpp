#include "core/rounding.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "core/arguments.h"
#include "core/conditioning.h"
#include "core/double_double.h"
#include "core/polynomial.h"
#include "rtf/stability.h"
#include "rtf/workspace.h"

namespace rtf {
namespace {

using Wide = DoubleDouble;

// The recurrence of one channel of a stage, in place.
void pass(const TransferFunction& stage, std::size_t channel, std::vector<Wide>& samples) {
  const CoefficientsView view(stage);
  const std::size_t n = stage.order;
  const double *a = view.denominator(channel), *b = view.numerator(channel);
  std::vector<Wide> v(n + samples.size());  // the state before the first sample is nothing
  for (std::size_t t = 0; t < samples.size(); ++t) {
    Wide next = samples[t], y = Wide(stage.h0[channel]) * samples[t];
    const Wide* past = v.data() + n + t;
    for (std::size_t k = 1; k <= n; ++k) {
      next = next - Wide(a[k - 1]) * past[-static_cast<std::ptrdiff_t>(k)];
      y = y + Wide(b[k - 1]) * past[-static_cast<std::ptrdiff_t>(k)];
    }
    v[n + t] = next;
    samples[t] = y;
  }
}

std::vector<Wide> exact_output(const Cascade& cascade, std::size_t channel, const std::vector<Wide>& input) {
  std::vector<Wide> output = input;
  for (const TransferFunction& stage : cascade.stages) pass(stage, channel, output);
  for (std::size_t t = 0; t < input.size(); ++t) output[t] = output[t] + Wide(cascade.beside[channel]) * input[t];
  return output;
}

// An error of epsilon |a|_1 |v| a sample comes out of 1/A within epsilon kappa of the largest v, and b . v over the
// largest of the kernel is at most order kappa: |b| = |A h| <= |a|_1 max |h|. Sections in a row amplify each other's.
bool may_reach(const Cascade& cascade, std::size_t length, double tolerance) {
  if (cascade.stages.size() > 1) return true;
  const TransferFunction& tf = cascade.stages[0];
  return !(recurrence_bound(condition(tf, length)) * static_cast<double>(std::max<std::size_t>(tf.order, 1)) <=
           tolerance);
}

// How much more rounding may grow to over the whole length than over that of the probes.
double growth(const Cascade& cascade, std::size_t length) {
  double largest = 1;
  for (const TransferFunction& stage : cascade.stages)
    if (length > probe_length) largest = std::max(largest, condition(stage, length) / condition(stage, probe_length));
  return largest;
}

// The largest error of actual(t) over the largest exact value.
template <class F>
double relative_error(const std::vector<Wide>& exact, const F& actual) {
  double error = 0, largest = 0;
  for (std::size_t t = 0; t < exact.size(); ++t) {
    const double difference = std::abs((Wide(actual(t)) - exact[t]).high);
    error = std::max(error, std::isfinite(difference) ? difference : HUGE_VAL);
    largest = std::max(largest, std::abs(exact[t].high));
  }
  return largest > 0 ? error / largest : error;
}

// The probes of one channel: an impulse, noise, and, where `driven`, the samples that drive v furthest by the end.
std::vector<std::vector<Wide>> probes_of(const Cascade& cascade, std::size_t channel, std::size_t length, bool driven) {
  std::vector<std::vector<Wide>> probes(driven ? 3 : 2, std::vector<Wide>(length));
  std::mt19937 random(1);
  for (std::size_t t = 0; t < length; ++t) {
    probes[0][t] = t == 0 ? 1.0 : 0.0;
    probes[1][t] = static_cast<float>(std::ldexp(static_cast<double>(random()), -31) - 1);  // a value of either type
  }
  if (driven) {
    const TransferFunction& stage = cascade.stages[0];
    const auto g = inverse_series_recurrence({CoefficientsView(stage).denominator(channel), stage.order}, length);
    for (std::size_t t = 0; t < length; ++t) probes[2][t] = g[length - 1 - t] < 0 ? -1.0 : 1.0;
  }
  return probes;
}

// What `run` makes of the probes in place, (probes, length, channels): the error of the worst channel.
template <class T, class F>
double probe_error(const Cascade& cascade, std::size_t length, bool driven, const F& run) {
  const std::size_t channels = cascade.channels();
  std::vector<std::vector<std::vector<Wide>>> inputs;
  for (std::size_t c = 0; c < channels; ++c) inputs.push_back(probes_of(cascade, c, length, driven));
  const std::size_t probes = inputs[0].size();
  std::vector<T> samples(probes * length * channels);
  const Signal<T> signal = channels_last(samples.data(), probes, length, channels);
  for (std::size_t p = 0; p < probes; ++p)
    for (std::size_t t = 0; t < length; ++t)
      for (std::size_t c = 0; c < channels; ++c) *signal.at(p, t, c) = static_cast<T>(inputs[c][p][t].high);
  run(signal);

  std::vector<double> errors(probes * channels);
  parallel_for(default_executor(), errors.size(), [&](std::size_t row, std::size_t) {
    const std::size_t p = row / channels, c = row % channels;
    errors[row] = relative_error(exact_output(cascade, c, inputs[c][p]),
                                 [&](std::size_t t) { return static_cast<double>(*signal.at(p, t, c)); });
  });
  return *std::max_element(errors.begin(), errors.end());
}

}  // namespace

template <class T>
double estimated_rounding(const CascadePlan<T>& plan, const Cascade& cascade) {
  if (!may_reach(cascade, plan.length, tolerance<T>)) return 0;
  const std::size_t length = std::min(plan.length, probe_length);
  const auto run = [&](Signal<T> samples) {
    FilterOptions options = plan.stages[0].options;
    options.method = plan.stages[0].method();
    const CascadePlan<T> probe(cascade, samples.batch, length, options);
    const Workspace workspace(probe.workspace_bytes(default_executor()));
    const std::size_t states = samples.batch * probe.channels * probe.order;
    std::vector<double> before(options.initial_state ? states : 0), after(options.final_state ? states : 0);
    filter(probe, samples, before, after, workspace, default_executor());
  };
  return probe_error<T>(cascade, length, /*driven=*/false, run) * growth(cascade, plan.length);
}

double estimated_rounding(const TransferFunction& tf, std::size_t length,
                          const std::function<void(Signal<double>)>& run) {
  const Cascade cascade = to_cascade(tf);
  return probe_error<double>(cascade, std::min(length, probe_length), /*driven=*/true, run) * growth(cascade, length);
}

double estimated_rounding(const TransferFunction& tf, std::span<const double> kernels, std::size_t length,
                          double tolerance) {
  const Cascade cascade = to_cascade(tf);
  if (!may_reach(cascade, length, tolerance)) return 0;
  std::vector<Wide> impulse(std::min(length, probe_length));
  if (!impulse.empty()) impulse[0] = 1.0;
  std::vector<double> errors(tf.channels);
  parallel_for(default_executor(), tf.channels, [&](std::size_t c, std::size_t) {
    const auto row = kernels.subspan(c * length, impulse.size());
    errors[c] = relative_error(exact_output(cascade, c, impulse), [&](std::size_t t) { return row[t]; });
  });
  return *std::max_element(errors.begin(), errors.end()) * growth(cascade, length);
}

std::string rounding_text(double estimate, double tolerance, const std::string& method) {
  if (estimate <= tolerance) return "";
  return fmt::format("rounding is estimated at {:.1e} of the largest value, past the tolerance {:.0e} of method {}",
                     estimate, tolerance, method);
}

template double estimated_rounding(const CascadePlan<float>&, const Cascade&);
template double estimated_rounding(const CascadePlan<double>&, const Cascade&);

}  // namespace rtf
