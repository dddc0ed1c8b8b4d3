#include "stream/drift.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <span>

#include "rtf/conversion.h"
#include "rtf/random.h"
#include "rtf/stability.h"
#include "rtf/stream.h"

namespace rtf {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double time_constants = 12;  // what is then left of the way, e^-12, is far below the drift looked for
// A constant that no state holds exactly: 1 would be added to many of them without rounding.
constexpr double full_digits = 4.0 / 3;
constexpr std::size_t together = 16;  // channels that run in one model: a vector or two

// |A| at e^{i angle}.
double denominator_at(std::span<const double> a, double angle) {
  const std::complex<double> w = std::polar(1.0, -angle);
  std::complex<double> value = 0;
  for (std::size_t k = a.size(); k > 0; --k) value = (value + a[k - 1]) * w;
  return std::abs(value + 1.0);
}

Realization some_channels(const Realization& all, std::size_t first, std::size_t count) {
  if (const auto* tf = std::get_if<TransferFunction>(&all)) {
    std::vector<TransferFunction> some;
    for (std::size_t c = first; c < first + count; ++c) some.push_back(select_channel(*tf, c));
    return join_channels(some);
  }
  const auto slice = [&](const auto& channels) -> Realization {
    const auto begin = channels.begin() + static_cast<std::ptrdiff_t>(first);
    return std::decay_t<decltype(channels)>(begin, begin + static_cast<std::ptrdiff_t>(count));
  };
  if (const auto* sos = std::get_if<std::vector<SecondOrderSections>>(&all)) return slice(*sos);
  return slice(std::get<std::vector<Modal>>(all));
}

}  // namespace

DriftProbe::DriftProbe(const TransferFunction& tf, Executor& executor) : tf_(tf), channels_(tf.channels) {
  std::vector<Channel> of_group(tf.groups);
  parallel_for(executor, tf.groups, [&](std::size_t g, std::size_t) {
    const auto a = std::span(tf.a).subspan(g * tf.order, tf.order);
    double smallest = infinity;
    for (const auto& pole : poles(a)) {
      const double angle = std::abs(std::arg(pole)), value = denominator_at(a, angle);
      if (std::abs(pole) > of_group[g].radius) of_group[g].radius = std::abs(pole), of_group[g].slowest = angle;
      if (value < smallest) smallest = value, of_group[g].peak = angle;
    }
  });
  for (std::size_t c = 0; c < tf.channels; ++c) channels_[c] = of_group[tf.group_of(c)];
}

double DriftProbe::of_one_rounding() const {
  double radius = 0;
  for (const Channel& channel : channels_) radius = std::max(radius, channel.radius);
  return radius < 1 ? std::ldexp(1, -24) / (1 - radius) : infinity;
}

double DriftProbe::measure(const Realization& narrow, Executor& executor) const {
  const std::size_t tasks = (tf_.channels + together - 1) / together;
  std::vector<double> worst(tasks);
  parallel_for(executor, tasks, [&](std::size_t task, std::size_t) {
    const std::size_t first = task * together;
    worst[task] = measure(narrow, first, std::min(together, tf_.channels - first));
  });
  return *std::max_element(worst.begin(), worst.end());
}

double DriftProbe::measure(const Realization& narrow, std::size_t first, std::size_t count) const {
  constexpr std::size_t block = 64;
  const stream::Model<float> model(filter_model({some_channels(narrow, first, count), DataType::f32}, count, count));
  const stream::Model<double> exact(
      filter_model({some_channels(tf_, first, count), DataType::f64}, count, count, DataType::f64));
  stream::Streams<float> streams(model, 1);
  stream::Streams<double> exact_streams(exact, 1);
  const std::size_t one = streams.join();
  exact_streams.join();

  const std::span channels(channels_.data() + first, count);
  double radius = 0;
  for (const Channel& channel : channels) radius = std::max(radius, channel.radius);
  const auto length = tf_.order + static_cast<std::size_t>(std::ceil(time_constants / (1 - radius)));

  const Random random(0);
  std::vector<float> in(block * count), out(block * count);
  std::vector<double> exact_in(block * count), exact_out(block * count);
  double worst = 0;
  const auto run = [&](auto&& input) {
    streams.reset(one);
    exact_streams.reset(one);
    std::vector<double> error(count, 0.0), largest(count, 0.0);
    for (std::size_t at = 0; at < length; at += block) {
      const std::size_t now = std::min(block, length - at);
      for (std::size_t i = 0; i < now * count; ++i)
        exact_in[i] = in[i] = static_cast<float>(input(at + i / count, i % count));
      streams.process({&one, 1}, channels_last<const float>(in.data(), 1, now, count),
                      channels_last(out.data(), 1, now, count));
      exact_streams.process({&one, 1}, channels_last<const double>(exact_in.data(), 1, now, count),
                            channels_last(exact_out.data(), 1, now, count));
      for (std::size_t i = 0; i < now * count; ++i) {
        const double difference = std::abs(out[i] - exact_out[i]);
        double& so_far = error[i % count];
        so_far = std::isfinite(difference) ? std::max(so_far, difference) : infinity;
        largest[i % count] = std::max(largest[i % count], std::abs(exact_out[i]));
      }
    }
    for (std::size_t c = 0; c < count; ++c) worst = std::max(worst, largest[c] > 0 ? error[c] / largest[c] : error[c]);
  };
  const auto wave = [&](double Channel::*angle) {
    run([&](std::size_t t, std::size_t c) { return std::cos(channels[c].*angle * static_cast<double>(t)); });
  };
  const auto differs = [&](auto&& test) { return std::any_of(channels.begin(), channels.end(), test); };
  run([](std::size_t, std::size_t) { return full_digits; });
  run([&](std::size_t t, std::size_t) { return random.normal(t); });
  if (differs([](const Channel& c) { return c.slowest != 0; })) wave(&Channel::slowest);
  if (differs([](const Channel& c) { return c.peak != c.slowest && c.peak != 0; })) wave(&Channel::peak);
  return worst;
}

}  // namespace rtf
