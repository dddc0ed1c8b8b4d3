#include "rtf/cascade.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/arguments.h"
#include "core/circle_point.h"
#include "core/conditioning.h"
#include "core/rounding.h"
#include "rtf/stability.h"

namespace rtf {
namespace {

// The sections of one channel and what is beside them.
struct Factors {
  std::vector<TransferFunction> sections;
  double beside = 0;
};

Factors factors_of(const System& system) {
  constexpr const char* operation = "to_cascade";
  Factors factors;
  SecondOrderSections sos;
  if (const auto* given = std::get_if<SecondOrderSections>(&system)) {
    sos = *given;
  } else if (const auto* zpk = std::get_if<ZeroPoleGain>(&system)) {
    ZeroPoleGain product = *zpk;
    factors.beside = product.h0;
    product.h0 = 0;
    auto [value, report] = to_sections(product);
    if (!(report.error <= refused_bound))
      fail(ErrorCode::unstable, operation,
           "its sections would be off by {:.1e} of the largest value (at most {:.0e} is allowed)", report.error,
           refused_bound);
    sos = std::move(value);
  } else {
    fail(ErrorCode::argument, operation, "form {} has no factors; zpk or sos is needed", form_name(system));
  }
  ConversionOptions short_report;
  short_report.report_length = 3;  // nothing but one rounding is at stake
  for (const auto& section : sos.sections)
    factors.sections.push_back(to_transfer_function(SecondOrderSections{{section}}, short_report).value);
  return factors;
}

// H without what is beside, and its group delay.
struct Product {
  std::complex<double> value = 1;
  double delay = 0;
};

Product product_at(const std::vector<CoefficientsView>& stages, std::size_t channel, double angle) {
  Product product;
  for (const CoefficientsView& stage : stages) {
    const CirclePoint point = circle_point(stage, channel, angle);
    product.value *= point.response();
    product.delay += point.delay();
  }
  if (std::isinf(std::abs(product.value))) product.value = std::numeric_limits<double>::infinity();  // no direction
  return product;
}

// H and its slope, for which no stage is divided by: with something beside it, H has a phase where a stage is zero.
std::complex<double> slope_over_value(const std::vector<CoefficientsView>& stages, std::size_t channel, double angle,
                                      double beside) {
  std::complex<double> value = 1, slope = 0;
  for (const CoefficientsView& stage : stages) {
    const CirclePoint point = circle_point(stage, channel, angle);
    const std::complex<double> factor = point.response();
    slope = slope * factor + value * point.response_slope();
    value *= factor;
  }
  // A sum that cancels has few digits, and so has the slope over it.
  const std::complex<double> sum = value + beside, found = slope / sum;
  const double rounding = 8 * std::numeric_limits<double>::epsilon() * (std::abs(value) + std::abs(beside));
  constexpr double least = 1e-3;  // of a sample
  const bool lost = rounding * std::abs(found) > least * std::max(1.0, std::abs(found.real())) * std::abs(sum);
  return lost ? std::numeric_limits<double>::quiet_NaN() : found;
}

std::vector<CoefficientsView> views(const Cascade& cascade, const char* operation) {
  if (cascade.stages.empty()) fail(ErrorCode::argument, operation, "no stages; at least one is needed");
  std::vector<CoefficientsView> result;
  for (const TransferFunction& stage : cascade.stages) {
    validate(stage, operation);
    check_count(operation, "beside", cascade.beside.size(), stage.channels);
    result.emplace_back(stage);
  }
  return result;
}

}  // namespace

std::size_t Cascade::order() const {
  std::size_t sum = 0;
  for (const TransferFunction& stage : stages) sum += stage.order;
  return sum;
}

Cascade to_cascade(TransferFunction tf) {
  Cascade cascade;
  cascade.beside.resize(tf.channels);
  cascade.stages.push_back(std::move(tf));
  return cascade;
}

Cascade to_cascade(std::span<const System> channels) {
  std::vector<Factors> factors(channels.size());
  parallel_for(default_executor(), channels.size(),
               [&](std::size_t c, std::size_t) { factors[c] = factors_of(channels[c]); });
  Cascade cascade;
  std::size_t stages = 1;
  for (const Factors& channel : factors) {
    cascade.beside.push_back(channel.beside);
    stages = std::max(stages, channel.sections.size());
  }
  for (std::size_t s = 0; s < stages; ++s) {
    std::vector<TransferFunction> stage;
    for (const Factors& channel : factors)  // one that has no more sections passes on what it gets
      stage.push_back(s < channel.sections.size() ? channel.sections[s] : make_coefficients(1, 1, 0));
    cascade.stages.push_back(join_channels(stage));
  }
  return cascade;
}

bool is_stable(const Cascade& cascade, std::size_t channel) {
  return std::all_of(cascade.stages.begin(), cascade.stages.end(), [&](const TransferFunction& stage) {
    return is_stable(std::span(CoefficientsView(stage).denominator(channel), stage.order));
  });
}

std::vector<std::complex<double>> frequency_response(const Cascade& cascade, std::span<const double> angles) {
  constexpr const char* operation = "frequency_response";
  const auto stages = views(cascade, operation);
  return at_every_angle<std::complex<double>>(
      cascade.channels(), angles, operation, [&](std::size_t channel, double angle) {
        return product_at(stages, channel, angle).value + cascade.beside[channel];
      });
}

std::vector<double> group_delay(const Cascade& cascade, std::span<const double> angles) {
  constexpr const char* operation = "group_delay";
  const auto stages = views(cascade, operation);
  return at_every_angle<double>(cascade.channels(), angles, operation, [&](std::size_t channel, double angle) {
    const double beside = cascade.beside[channel];
    const double delay = beside == 0 ? product_at(stages, channel, angle).delay
                                     : slope_over_value(stages, channel, angle, beside).real();
    return std::isfinite(delay) ? delay : std::numeric_limits<double>::quiet_NaN();
  });
}

template <class T>
CascadePlan<T>::CascadePlan(const Cascade& cascade, std::size_t batch_, std::size_t length_, FilterOptions options)
    : batch(batch_),
      length(length_),
      channels(cascade.channels()),
      order(cascade.order()),
      beside(cascade.beside),
      cascade_(cascade) {
  views(cascade, "filter");
  if (cascade.stages.size() > 1 && options.method == FilterMethod::automatic) options.method = FilterMethod::recurrence;
  for (const TransferFunction& stage : cascade.stages) stages.emplace_back(stage, batch, length, options);
}

template <class T>
std::string CascadePlan<T>::method() const {
  const std::string of_first = name(stages[0].method());
  return stages.size() == 1 ? of_first : fmt::format("{} of {} sections", of_first, stages.size());
}

template <class T>
double CascadePlan<T>::rounding_estimate() const {
  return estimated_rounding(*this, cascade_);
}

template <class T>
std::string CascadePlan<T>::warning() const {
  return rounding_text(rounding_estimate(), tolerance<T>, method());
}

template <class T>
std::size_t CascadePlan<T>::workspace_bytes(const Executor& executor) const {
  std::size_t most = 0;
  for (const FilterPlan<T>& stage : stages) most = std::max(most, stage.workspace_bytes(executor));
  return most;
}

template <class T>
void filter(const CascadePlan<T>& plan, Signal<T> samples, std::span<const double> initial_state,
            std::span<double> final_state, std::span<std::byte> workspace, Executor& executor) {
  const std::size_t rows = plan.batch * plan.channels;
  const FilterOptions& options = plan.stages[0].options;
  check_count("filter", "the initial state", initial_state.size(), options.initial_state ? rows * plan.order : 0);
  check_count("filter", "the final state", final_state.size(), options.final_state ? rows * plan.order : 0);
  check_signal("filter", "samples", samples, plan.batch, plan.length, plan.channels);
  std::vector<T> inputs;
  if (std::any_of(plan.beside.begin(), plan.beside.end(), [](double x) { return x != 0; }))
    inputs.resize(rows * plan.length);
  const Signal<T> kept = channels_last(inputs.data(), plan.batch, plan.length, plan.channels);
  const auto for_each_sample = [&](auto&& act) {
    if (inputs.empty()) return;
    for (std::size_t b = 0; b < plan.batch; ++b)
      for (std::size_t t = 0; t < plan.length; ++t)
        for (std::size_t c = 0; c < plan.channels; ++c) act(*kept.at(b, t, c), *samples.at(b, t, c), plan.beside[c]);
  };
  for_each_sample([](T& input, T& sample, double) { input = sample; });
  std::size_t first = 0;  // of a stage's part in a state
  std::vector<double> state;
  for (const FilterPlan<T>& stage : plan.stages) {
    const std::size_t order = stage.order;
    state.resize(rows * order);
    // Between a stage's own rows and their place in those of all stages.
    const auto move_state = [&](auto&& act) {
      for (std::size_t row = 0; row < rows; ++row)
        for (std::size_t k = 0; k < order; ++k) act(state[row * order + k], row * plan.order + first + k);
    };
    if (options.initial_state) move_state([&](double& x, std::size_t place) { x = initial_state[place]; });
    filter(stage, samples, samples, options.initial_state ? std::span<const double>(state) : std::span<const double>(),
           options.final_state ? std::span<double>(state) : std::span<double>(), {}, workspace, executor);
    if (options.final_state) move_state([&](double& x, std::size_t place) { final_state[place] = x; });
    first += order;
  }
  for_each_sample([](T& input, T& sample, double beside) { sample += static_cast<T>(beside * input); });
}

#define RTF_INSTANTIATE(T)                                                                           \
  template class CascadePlan<T>;                                                                     \
  template void filter(const CascadePlan<T>&, Signal<T>, std::span<const double>, std::span<double>, \
                       std::span<std::byte>, Executor&);
RTF_INSTANTIATE(float)
RTF_INSTANTIATE(double)
#undef RTF_INSTANTIATE

}  // namespace rtf
