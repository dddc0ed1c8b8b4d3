// Filtering with a transfer function: the choice among recurrence, fft and block, and the public entry to them.
#include "rtf/filter.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>

#include "core/arguments.h"
#include "core/carver.h"
#include "core/conditioning.h"
#include "core/fft.h"
#include "core/rounding.h"
#include "cpu/cost_table.h"
#include "cpu/recurrence.h"
#include "cpu/state_convolution.h"
#include "rtf/conversion.h"
#include "rtf/convolution.h"
#include "rtf/stability.h"
#include "rtf/workspace.h"

namespace rtf {

const char* name(FilterMethod method) {
  switch (method) {
    case FilterMethod::automatic:
      return "auto";
    case FilterMethod::recurrence:
      return "recurrence";
    case FilterMethod::fft:
      return "fft";
    case FilterMethod::block:
      return "block";
  }
  return "?";
}

namespace {

struct Sizes {
  std::size_t batch, length, channels, order;
  bool initial_state, final_state;
  std::size_t block_length;
};

// Chunks of the block method: long enough that the state's prefix is small beside them, short enough for the cache.
std::size_t block_length(const Sizes& s) {
  const std::size_t wanted =
      s.block_length > 0 ? s.block_length : std::max<std::size_t>(4096, std::bit_ceil(4 * s.order));
  return std::min(wanted, std::max<std::size_t>(s.length, 1));
}

// Nanoseconds of one convolution of `batch` sequences with a spectrum at hand.
double convolution_cost(const cpu::CostTable& table, std::size_t batch, std::size_t length, std::size_t channels,
                        std::size_t lanes, std::size_t element_bytes) {
  const auto m = static_cast<double>(good_size(std::max<std::size_t>(length, 1)));
  const double tiles = std::ceil(static_cast<double>(channels) / static_cast<double>(lanes));
  const double bytes = 2 * m * static_cast<double>(lanes * element_bytes);
  const double transform = bytes > 1e6 ? table.transform_far : table.transform;
  const double row = m * (transform * std::log2(std::max(m, 2.0)) * 2 + table.element);
  return tiles * row * static_cast<double>(batch);
}

double state_convolution_cost(const cpu::CostTable& table, const Sizes& s, std::size_t length, bool prefix,
                              std::size_t lanes) {
  const std::size_t total = length + (prefix ? s.order : 0);
  const double one = convolution_cost(table, s.batch, total, s.channels, lanes, sizeof(double));
  const double front = prefix ? convolution_cost(table, s.batch, s.order, s.channels, lanes, sizeof(double)) : 0.0;
  const double copies = 3 * table.copy * static_cast<double>(s.batch * total * s.channels);
  return one * (s.final_state ? 2 : 1) + front + copies;
}

template <class T>
double method_cost(FilterMethod method, const Sizes& s, InstructionSet set) {
  const cpu::CostTable& table = cpu::cost_table(set);
  const std::size_t lanes = cpu::recurrence_lanes(set).lanes;
  const auto samples = static_cast<double>(s.batch) * static_cast<double>(s.length);
  switch (method) {
    case FilterMethod::recurrence: {
      const std::size_t full = s.channels / lanes, rest = s.channels % lanes;
      const bool rest_across = 2 * rest >= lanes && rest > 1;
      const double across = samples * static_cast<double>(full + rest_across) *
                            (table.sample + table.tap * static_cast<double>(cpu::padded_order(s.order)));
      const double along = samples / static_cast<double>(lanes) * (rest_across ? 0.0 : static_cast<double>(rest)) *
                           (table.time_vector + table.time_tap * static_cast<double>(s.order));
      return across + along;
    }
    case FilterMethod::fft:
      if (!s.initial_state && !s.final_state)
        return convolution_cost(table, s.batch, s.length, s.channels, lanes * sizeof(double) / sizeof(T), sizeof(T));
      return state_convolution_cost(table, s, s.length, s.initial_state, lanes);
    case FilterMethod::block: {
      const std::size_t chunk = block_length(s);
      Sizes inner = s;
      inner.final_state = true;
      return static_cast<double>((s.length + chunk - 1) / chunk) *
             state_convolution_cost(table, inner, chunk, true, lanes);
    }
    case FilterMethod::automatic:
      break;
  }
  return 0;
}

// An error that the recurrence makes at a sample goes through H, as the sample does. A state that comes from transforms
// is off by the rounding of its largest number in every direction, and what follows it by up to kappa times that.
double bound_of(FilterMethod method, const Sizes& sizes, double bound) {
  const bool passes_states_on = method == FilterMethod::block || (method == FilterMethod::fft && sizes.final_state);
  return passes_states_on ? bound * bound / std::numeric_limits<double>::epsilon() : bound;
}

// Where no bound holds, fft, and of a state that is passed on the recurrence, which loses least of it.
template <class T>
FilterMethod cheapest(const Sizes& sizes, double bound, InstructionSet set) {
  const FilterMethod otherwise = sizes.final_state ? FilterMethod::recurrence : FilterMethod::fft;
  FilterMethod best = otherwise;
  double least = method_cost<T>(otherwise, sizes, set);
  for (const FilterMethod method : {FilterMethod::fft, FilterMethod::recurrence, FilterMethod::block}) {
    const double cost = method_cost<T>(method, sizes, set);
    if (bound_of(method, sizes, bound) <= tolerance<T> && cost < least) {
      best = method;
      least = cost;
    }
  }
  return best;
}

// The channels whose bound is past what is allowed. Of neighbours that are the same filter one stands for all.
std::vector<TransferFunction> past_bound(const TransferFunction& tf, std::size_t length) {
  std::vector<TransferFunction> found;
  for (std::size_t group = 0, each = tf.channels / tf.groups; group < tf.groups; ++group) {
    const auto a = std::span(tf.a).subspan(group * tf.order, tf.order);
    const double bound = recurrence_bound(condition(a, length));
    if (bound <= refused_bound) continue;
    if (!is_stable(a))
      fail(ErrorCode::unstable, "filter",
           "over {} samples rounding may grow to {:.1e} (at most {:.0e} is allowed): denominator {} has a pole on or "
           "outside the unit circle",
           length, bound, refused_bound, group);
    for (std::size_t channel = group * each; channel < (group + 1) * each; ++channel) {
      TransferFunction one = select_channel(tf, channel);
      const auto same = [&](const TransferFunction& other) {
        return other.a == one.a && other.b == one.b && other.h0 == one.h0;
      };
      if (found.empty() || !same(found.back())) found.push_back(std::move(one));
    }
  }
  return found;
}

// The bound is the worst that rounding could do. What it does in the recurrence of a stable filter, most often a narrow
// one, is measured; that of an unstable one grows without end, and of transforms it is that of their largest number.
// Throws where fewer than three digits would be left.
void check_recurrence(const TransferFunction& tf, std::size_t length, FilterMethod method, double bound,
                      InstructionSet set) {
  const TransferFunction measured = join_channels(past_bound(tf, length));
  if (method == FilterMethod::fft || method == FilterMethod::block)
    fail(ErrorCode::unstable, "filter",
         "over {} samples rounding may grow to {:.1e} (at most {:.0e} is allowed) in method {}: the denominator is "
         "ill-conditioned; method recurrence may hold more",
         length, bound, refused_bound, name(method));
  const cpu::Recurrence recurrence(measured, set, length, tolerance<double>);
  const double estimate = estimated_rounding(measured, length, [&](Signal<double> samples) {
    Executor& executor = default_executor();
    AlignedVector<double> space(executor.workers() * recurrence.worker_space());
    recurrence.run<double>(samples, samples, nullptr, nullptr, {}, space.data(), executor);
  });
  if (!(estimate <= refused_bound))
    fail(ErrorCode::unstable, "filter",
         "over {} samples rounding would grow to {:.1e} of the largest value (at most {:.0e} is allowed): the "
         "denominator is ill-conditioned; sections in a row may hold the same filter",
         length, estimate, refused_bound);
}

}  // namespace

template <class T>
struct FilterPlan<T>::Impl {
  FilterMethod method;
  double bound;
  std::string warning;
  std::optional<cpu::Recurrence> recurrence;
  std::optional<ConvolutionPlan<T>> convolution;  // fft without states
  std::optional<KernelSpectrum<T>> kernel;
  std::optional<cpu::StateConvolution> state_convolution;  // fft with states, and block
  std::size_t chunk = 0;                                   // of the latter
};

template <class T>
FilterPlan<T>::FilterPlan(const TransferFunction& tf, std::size_t batch_, std::size_t length_, FilterOptions options_)
    : batch(batch_), length(length_), channels(tf.channels), order(tf.order), options(options_) {
  validate(tf, "filter");
  const InstructionSet set = instruction_set();
  const Sizes sizes{batch, length, channels, order, options.initial_state, options.final_state, options.block_length};
  auto made = std::make_shared<Impl>();
  // Every form rests on 1/A in double, whether it runs the recurrence or transforms its response.
  made->bound = recurrence_bound(condition(tf, length));
  made->method = options.method;
  if (!(made->bound <= refused_bound)) {
    check_recurrence(tf, length, options.method, made->bound, set);
    made->method = FilterMethod::recurrence;
  }
  if (made->method == FilterMethod::automatic) made->method = cheapest<T>(sizes, made->bound, set);
  if (const double bound = bound_of(made->method, sizes, made->bound); bound > tolerance<T>)
    made->warning =
        fmt::format("rounding may reach {:.1e} of the largest state, past the tolerance {:.0e} of method {}", bound,
                    tolerance<T>, name(made->method));

  switch (made->method) {
    case FilterMethod::recurrence:
      made->recurrence.emplace(tf, set, length, tolerance<T>);
      break;
    case FilterMethod::fft:
      if (!options.initial_state && !options.final_state) {
        const std::vector<double> exact = exact_kernel(tf, std::max<std::size_t>(length, 1));
        made->convolution.emplace(batch, length, channels, std::max<std::size_t>(length, 1));
        made->kernel.emplace(*made->convolution, std::vector<T>(exact.begin(), exact.end()));
      } else {
        made->chunk = std::max<std::size_t>(length, 1);
        made->state_convolution.emplace(tf, batch, made->chunk, options.initial_state, options.final_state);
      }
      break;
    case FilterMethod::block:
      made->chunk = block_length(sizes);
      made->state_convolution.emplace(tf, batch, made->chunk, true, true);
      break;
    case FilterMethod::automatic:
      break;
  }
  impl = std::move(made);
}

template <class T>
FilterMethod FilterPlan<T>::method() const {
  return impl->method;
}
template <class T>
double FilterPlan<T>::rounding_bound() const {
  return impl->bound;
}
template <class T>
const std::string& FilterPlan<T>::warning() const {
  return impl->warning;
}

template <class T>
std::size_t FilterPlan<T>::workspace_bytes(const Executor& executor) const {
  if (impl->recurrence)
    return array_bytes<double>(executor.workers() * impl->recurrence->worker_space()) + workspace_alignment;
  if (impl->convolution) return impl->convolution->workspace_bytes(executor);
  return array_bytes<double>(batch * channels * order) + impl->state_convolution->workspace_bytes(executor) +
         workspace_alignment;
}

template <class T>
void filter(const FilterPlan<T>& plan, Signal<const std::type_identity_t<T>> u, Signal<std::type_identity_t<T>> y,
            std::span<const double> initial_state, std::span<double> final_state, Offsets offsets,
            std::span<std::byte> workspace, Executor& executor) {
  const std::size_t state_size = plan.batch * plan.channels * plan.order;
  check_sequences("filter", u, offsets, plan.batch, plan.length, plan.channels);
  check_signal("filter", "y", y, u.batch, u.length, u.channels);
  if (plan.options.initial_state) check_count("filter", "the initial state", initial_state.size(), state_size);
  if (plan.options.final_state) check_count("filter", "the final state", final_state.size(), state_size);
  if (!plan.options.initial_state)
    check_count("filter", "an initial state the plan was not made for", initial_state.size(), 0);
  if (!plan.options.final_state)
    check_count("filter", "a final state the plan was not made for", final_state.size(), 0);
  const double* from = plan.options.initial_state ? initial_state.data() : nullptr;
  double* to = plan.options.final_state ? final_state.data() : nullptr;
  const auto& impl = *plan.impl;

  if (impl.recurrence) {
    Carver carver(workspace, plan.workspace_bytes(executor) - workspace_alignment, "filter");
    double* space = carver.take<double>(executor.workers() * impl.recurrence->worker_space());
    impl.recurrence->template run<T>(u, y, from, to, offsets, space, executor);
    return;
  }
  if (impl.convolution) {
    convolve(*impl.convolution, u, *impl.kernel, y, offsets, workspace, executor);
    return;
  }
  Carver carver(workspace, plan.workspace_bytes(executor) - workspace_alignment, "filter");
  double* state = carver.take<double>(state_size);
  const std::size_t inner = impl.state_convolution->workspace_bytes(executor);
  const std::span<std::byte> space(carver.take<std::byte>(inner), inner);
  for (std::size_t i = 0; i < state_size; ++i) state[i] = from == nullptr ? 0.0 : from[i];
  for (std::size_t first = 0; first < std::max<std::size_t>(plan.length, 1); first += impl.chunk)
    impl.state_convolution->template run<T>(u, y, offsets, first, state, state, space, executor);
  for (std::size_t i = 0; i < state_size && to != nullptr; ++i) to[i] = state[i];
}

template <class T>
void filter(const TransferFunction& tf, Signal<const T> u, Signal<std::type_identity_t<T>> y,
            std::span<const double> initial_state, std::span<double> final_state, FilterMethod method,
            Offsets offsets) {
  const FilterPlan<T> plan(tf, sequence_count(u.batch, offsets), longest_sequence(u.length, offsets),
                           {method, !initial_state.empty(), !final_state.empty()});
  Executor& executor = default_executor();
  const Workspace workspace(plan.workspace_bytes(executor));
  filter<T>(plan, u, y, initial_state, final_state, offsets, workspace, executor);
}

#define RTF_INSTANTIATE(T)                                                                                           \
  template class FilterPlan<T>;                                                                                      \
  template void filter(const FilterPlan<T>&, Signal<const T>, Signal<T>, std::span<const double>, std::span<double>, \
                       Offsets, std::span<std::byte>, Executor&);                                                    \
  template void filter(const TransferFunction&, Signal<const T>, Signal<T>, std::span<const double>,                 \
                       std::span<double>, FilterMethod, Offsets);
RTF_INSTANTIATE(float)
RTF_INSTANTIATE(double)
#undef RTF_INSTANTIATE

}  // namespace rtf
