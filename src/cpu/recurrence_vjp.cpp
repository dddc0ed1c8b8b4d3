#include "cpu/recurrence_vjp.h"

#include <algorithm>

#include "core/arguments.h"

namespace rtf::cpu {
namespace {

// Samples between a load and a store: v, its adjoint and the gradient of y stay in the first-level cache.
constexpr std::size_t chunk = 128;

}  // namespace

RecurrenceVjp::RecurrenceVjp(const TransferFunction& tf, InstructionSet set, std::size_t length)
    : rows_(recurrence_lanes(set)),
      simd_(recurrence_vjp_lanes(set)),
      tf_(tf),
      lanes_(tf, simd_.lanes),
      length_(length) {}

// v of a whole sequence with its past; the gradient of y and the adjoint with theirs; a chunk of u; a state.
std::size_t RecurrenceVjp::worker_space() const { return (4 * lanes_.order + length_ + 3 * chunk) * simd_.lanes; }

template <class T>
void RecurrenceVjp::run(Signal<const T> u, std::span<const double> initial_state, Signal<const T> y_gradient,
                        std::span<const double> final_state_gradient, Signal<T> u_gradient, Offsets offsets,
                        FilterGradient<T>& result, Executor& executor) const {
  const std::size_t lanes = simd_.lanes, n = tf_.order, channels = tf_.channels, state_size = channels * n;
  const std::size_t sequences = sequence_count(u.batch, offsets);
  result.initial_state.assign(sequences * state_size, 0.0);
  AlignedVector<double> space(executor.workers() * worker_space());
  AlignedVector<double> sums(sequences * lanes_.tiles * sum_count(), 0.0);
  // The tiles of one cache line go to one task: two threads writing to it would wait for each other.
  const std::size_t together = std::max<std::size_t>(1, 64 / (lanes * sizeof(T)));
  const std::size_t spans = (lanes_.tiles + together - 1) / together;
  parallel_for(executor, sequences * spans, [&](std::size_t task, std::size_t worker) {
    const std::size_t s = task / spans, first = task % spans * together;
    const auto state = [&](std::span<const double> all) { return all.empty() ? nullptr : all.data() + s * state_size; };
    for (std::size_t tile = first; tile < std::min(first + together, lanes_.tiles); ++tile)
      run_tile(sequence(u, offsets, s), state(initial_state), sequence(y_gradient, offsets, s),
               state(final_state_gradient), sequence(u_gradient, offsets, s),
               result.initial_state.data() + s * state_size, tile,
               sums.data() + (s * lanes_.tiles + tile) * sum_count(), space.data() + worker * worker_space());
  });

  auto& [da, db, dh0] = result.coefficients;
  da.assign(tf_.groups * n, 0.0);
  db.assign(channels * n, 0.0);
  dh0.assign(channels, 0.0);
  for (std::size_t s = 0; s < sequences; ++s)
    for (std::size_t c = 0; c < channels; ++c) {
      const double* of_a = sums.data() + (s * lanes_.tiles + c / lanes) * sum_count() + c % lanes;
      const double *of_b = of_a + lanes_.order * lanes, *of_h0 = of_b + lanes_.order * lanes;
      for (std::size_t k = 0; k < n; ++k) {
        da[tf_.group_of(c) * n + k] += of_a[k * lanes];
        db[c * n + k] += of_b[k * lanes];
      }
      dh0[c] += *of_h0;
    }
}

template <class T>
void RecurrenceVjp::run_tile(Signal<const T> u, const double* initial_state, Signal<const T> y_gradient,
                             const double* final_state_gradient, Signal<T> u_gradient, double* initial_state_gradient,
                             std::size_t tile, double* sums, double* space) const {
  const std::size_t lanes = simd_.lanes, n = tf_.order, order = lanes_.order, past = order * lanes;
  const std::size_t first = tile * lanes, valid = std::min(lanes, tf_.channels - first), length = u.length;
  const double *a = lanes_.a.data() + tile * past, *b = lanes_.b.data() + tile * past;
  double* v = space + past;
  double* x = v + length_ * lanes + past;  // the gradient of y, in reversed time
  double* g = x + chunk * lanes + past;    // that of v
  double* rows = g + chunk * lanes;        // u, then its gradient
  double* state = rows + chunk * lanes;
  const auto each_state = [&](auto&& visit) {  // visit(lane, k, index): x_k is v_{-k}
    for (std::size_t l = 0; l < valid; ++l)
      for (std::size_t k = 1; k <= n; ++k) visit(l, k, (first + l) * n + k - 1);
  };

  std::fill_n(space, past, 0.0);
  if (initial_state != nullptr)
    each_state([&](std::size_t l, std::size_t k, std::size_t i) { *(v - k * lanes + l) = initial_state[i]; });
  for (std::size_t t = 0; t < length; t += chunk) {
    const std::size_t count = std::min(chunk, length - t);
    load(rows_, LaneRows<const T>{u.at(0, t, first), u.length_stride, u.channel_stride, valid}, count, v + t * lanes);
    simd_.solve(a, order, count, v + t * lanes);
  }

  std::fill_n(x - past, past, 0.0);
  std::fill_n(g - past, past, 0.0);
  for (std::size_t end = length; end > 0;) {
    const std::size_t count = std::min(chunk, end), t = end - count;
    const auto reversed = [&]<class U>(Signal<U> signal) {
      return LaneRows<U>{signal.at(0, end - 1, first), -signal.length_stride, signal.channel_stride, valid};
    };
    load(rows_, reversed(y_gradient), count, x);
    load(rows_, reversed(u), count, rows);
    std::fill_n(g, count * lanes, 0.0);
    if (final_state_gradient != nullptr && length - t <= n + count)  // the final state is (v_{length-1}, ...)
      each_state([&](std::size_t l, std::size_t k, std::size_t i) {
        if (k <= length - t && length - k < end) g[(end - 1 - (length - k)) * lanes + l] = final_state_gradient[i];
      });
    simd_.solve_driven(a, b, order, count, x, g);
    simd_.correlate(order, count, v + t * lanes, x, g, sums, sums + past);
    simd_.input_gradient(lanes_.h0.data() + tile * lanes, count, x, g, rows, sums + 2 * past);
    store(rows_, rows, count, reversed(u_gradient));
    std::copy_n(x - past + count * lanes, past, x - past);
    std::copy_n(g - past + count * lanes, past, g - past);
    end = t;
  }

  std::fill_n(state, past, 0.0);
  if (final_state_gradient != nullptr)  // a sequence shorter than the order leaves some of the initial state
    each_state([&](std::size_t l, std::size_t k, std::size_t i) {
      if (k > length) state[(k - length - 1) * lanes + l] = final_state_gradient[i];
    });
  simd_.state_gradient(a, b, order, x, g, state);
  each_state(
      [&](std::size_t l, std::size_t k, std::size_t i) { initial_state_gradient[i] = state[(k - 1) * lanes + l]; });
}

#define RTF_INSTANTIATE(T)                                                                                             \
  template void RecurrenceVjp::run(Signal<const T>, std::span<const double>, Signal<const T>, std::span<const double>, \
                                   Signal<T>, Offsets, FilterGradient<T>&, Executor&) const;
RTF_INSTANTIATE(float)
RTF_INSTANTIATE(double)
#undef RTF_INSTANTIATE

}  // namespace rtf::cpu
