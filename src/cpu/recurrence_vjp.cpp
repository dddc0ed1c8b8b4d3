#include "cpu/recurrence_vjp.h"

#include <algorithm>

#include "core/arguments.h"
#include "rtf/workspace.h"

namespace rtf::cpu {
namespace {

// Samples between a load and a store: v, its adjoint and the gradient of y stay in the first-level cache.
constexpr std::size_t chunk = 128;

}  // namespace

RecurrenceVjp::RecurrenceVjp(const TransferFunction& tf, InstructionSet set, std::size_t length, double tolerance)
    : rows_(recurrence_lanes(set)),
      simd_(recurrence_vjp_lanes(set)),
      tf_(tf),
      lanes_(tf, simd_.lanes),
      alone_(tf, simd_.lanes, length, tolerance),
      length_(length),
      past_(std::max(tf.order, simd_.lanes)),
      chunk_((tf.order / LoneChannels::chunk + 1) * LoneChannels::chunk) {}

std::size_t RecurrenceVjp::worker_space() const {
  const std::size_t lanes = simd_.lanes;
  // v of a whole sequence with its past; the gradient of y and the adjoint with theirs; a chunk of u; a state.
  const std::size_t by_channels = alone_.first == 0 ? 0 : (4 * lanes_.order + length_ + 3 * chunk) * lanes;
  // The same v; what the gradients of y and of the final state leave, with pasts; three chunks; sums.
  const std::size_t by_time = length_ + 3 * past_ + 5 * (chunk_ + lanes) + 2 * tf_.order;
  return (std::max(by_channels, by_time) + 7) / 8 * 8;
}

template <class T>
void RecurrenceVjp::run(Signal<const T> u, std::span<const double> initial_state, Signal<const T> y_gradient,
                        std::span<const double> final_state_gradient, Signal<T> u_gradient, Offsets offsets,
                        FilterGradient<T>& result, Executor& executor) const {
  const std::size_t lanes = simd_.lanes, n = tf_.order, channels = tf_.channels, state_size = channels * n;
  const std::size_t sequences = sequence_count(u.batch, offsets);
  result.initial_state.assign(sequences * state_size, 0.0);
  const Workspace workspace(array_bytes<double>(memory_product(executor.workers(), worker_space())));
  double* const space = reinterpret_cast<double*>(workspace.data());
  AlignedVector<double> sums(sequences * lanes_.tiles * sum_count(), 0.0);
  // The tiles of one cache line go to one task: two threads writing to it would wait for each other.
  const std::size_t together = std::max<std::size_t>(1, 64 / (lanes * sizeof(T)));
  const std::size_t spans = (lanes_.tiles + together - 1) / together;
  parallel_for(executor, sequences * spans, [&](std::size_t task, std::size_t worker) {
    const std::size_t s = task / spans, first = task % spans * together;
    const auto state = [&](std::span<const double> all) { return all.empty() ? nullptr : all.data() + s * state_size; };
    const auto in = sequence(u, offsets, s), dy = sequence(y_gradient, offsets, s);
    const auto du = sequence(u_gradient, offsets, s);
    const double *from = state(initial_state), *to = state(final_state_gradient);
    double *dfrom = result.initial_state.data() + s * state_size, *own = space + worker * worker_space();
    for (std::size_t tile = first; tile < std::min(first + together, lanes_.tiles); ++tile) {
      double* tile_sums = sums.data() + (s * lanes_.tiles + tile) * sum_count();
      if (tile * lanes < alone_.first) {
        run_tile(in, from, dy, to, du, dfrom, tile, tile_sums, own);
        continue;
      }
      for (std::size_t channel = tile * lanes; channel < channels; ++channel)
        run_channel(in, from, dy, to, du, dfrom, channel, tile_sums, own);
    }
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

template <class T>
void RecurrenceVjp::run_channel(Signal<const T> u, const double* initial_state, Signal<const T> y_gradient,
                                const double* final_state_gradient, Signal<T> u_gradient,
                                double* initial_state_gradient, std::size_t channel, double* sums,
                                double* space) const {
  const std::size_t lanes = simd_.lanes, n = tf_.order, length = u.length, state = channel * n;
  const double *a = tf_.a.data() + tf_.group_of(channel) * n, *b = tf_.b.data() + state;
  const double h0 = tf_.h0[channel];
  double* v = space + past_;
  double* w = v + length_ + lanes + past_;  // X/A, X the gradient of y in reversed time
  double* z = w + chunk_ + lanes + past_;   // the same of the gradient of the final state
  double* x = z + chunk_ + lanes;           // the gradient of y
  double* g = x + chunk_ + lanes;           // that of v
  double* rows = g + chunk_ + lanes;
  double *a_sums = rows + chunk_, *b_sums = a_sums + n;
  double h0_sum = 0;
  const auto at = [channel](const auto& signal, std::size_t t) -> auto& { return *signal.at(0, t, channel); };
  const auto run = [&](double* inner, std::size_t count) {
    rows_.across_time(a, b, 0.0, alone_.tables_of(channel), n, count, inner, rows);
  };

  std::fill_n(space, past_, 0.0);
  for (std::size_t k = 1; k <= n && initial_state != nullptr; ++k) *(v - k) = initial_state[state + k - 1];
  for (std::size_t t = 0; t < length; t += chunk_) {
    const std::size_t count = std::min(chunk_, length - t);
    for (std::size_t i = 0; i < count; ++i) rows[i] = at(u, t + i);
    run(v + t, count);
  }
  std::fill_n(v + length, lanes, 0.0);

  std::fill_n(w - past_, past_, 0.0);
  std::fill_n(z - past_, past_, 0.0);
  std::fill_n(a_sums, 2 * n, 0.0);
  for (std::size_t end = length; end > 0;) {
    const std::size_t t = (end - 1) / chunk_ * chunk_, count = end - t, gone = length - end;
    for (std::size_t i = 0; i < count; ++i) rows[count - 1 - i] = x[i] = at(y_gradient, t + i);
    run(w, count);
    std::reverse_copy(rows, rows + count, g);
    std::copy_n(w - past_ + count, past_, w - past_);
    if (final_state_gradient != nullptr) {  // the final state is (v_{length-1}, ...)
      for (std::size_t i = 0; i < count; ++i) rows[i] = gone + i < n ? final_state_gradient[state + gone + i] : 0.0;
      run(z, count);
      for (std::size_t i = 0; i < count; ++i) g[i] += z[count - 1 - i];
      std::copy_n(z - past_ + count, past_, z - past_);
    }
    std::fill_n(x + count, lanes, 0.0);
    std::fill_n(g + count, lanes, 0.0);
    simd_.correlate_in_time(n, count, v + t, x, g, a_sums, b_sums);
    for (std::size_t i = 0; i < count; ++i) {
      h0_sum += x[i] * at(u, t + i);
      at(u_gradient, t + i) = static_cast<T>(h0 * x[i] + g[i]);
    }
    end = t;
  }

  // What the state owes to the samples after it, now in x and g; a sequence shorter than the order leaves some of it.
  for (std::size_t j = 1; j <= n; ++j) {
    double sum =
        final_state_gradient != nullptr && j + length <= n ? final_state_gradient[state + length + j - 1] : 0.0;
    for (std::size_t k = j; k <= n && k - j < length; ++k) sum += b[k - 1] * x[k - j] - a[k - 1] * g[k - j];
    initial_state_gradient[state + j - 1] = sum;
  }
  const std::size_t lane = channel % lanes, past = lanes_.order * lanes;
  for (std::size_t k = 0; k < n; ++k) {
    sums[k * lanes + lane] = a_sums[k];
    sums[past + k * lanes + lane] = b_sums[k];
  }
  sums[2 * past + lane] = h0_sum;
}

#define RTF_INSTANTIATE(T)                                                                                             \
  template void RecurrenceVjp::run(Signal<const T>, std::span<const double>, Signal<const T>, std::span<const double>, \
                                   Signal<T>, Offsets, FilterGradient<T>&, Executor&) const;
RTF_INSTANTIATE(float)
RTF_INSTANTIATE(double)
#undef RTF_INSTANTIATE

}  // namespace rtf::cpu
