#include "cpu/recurrence.h"

#include <algorithm>
#include <cmath>

#include "core/arguments.h"
#include "core/conditioning.h"
#include "core/polynomial.h"
#include "rtf/stability.h"

namespace rtf::cpu {
namespace {

// Samples between a load and a store: the rows of a chunk and of its past stay in the first-level cache.
constexpr std::size_t tile_chunk = 256;

// What rounding may come to when a block of samples is solved at once: its terms, of size |a|_1 |v|, meet the first
// samples g of 1/A, and what they leave in v is an input of size |a|_1 to all that follows.
double across_time_bound(std::span<const double> a, std::size_t lanes, std::size_t length) {
  double size = 1, block = 0;
  for (const double x : a) size += std::abs(x);
  for (const double x : inverse_series_recurrence(a, lanes)) block += std::abs(x);
  return recurrence_bound(condition(a, std::max<std::size_t>(length, 1))) * size * block;
}

}  // namespace

LaneCoefficients::LaneCoefficients(const TransferFunction& tf, std::size_t lanes)
    : order(padded_order(tf.order)), tiles((tf.channels + lanes - 1) / lanes) {
  const std::size_t n = tf.order;
  a.assign(tiles * order * lanes, 0.0);
  b.assign(tiles * order * lanes, 0.0);
  h0.assign(tiles * lanes, 0.0);
  for (std::size_t channel = 0; channel < tf.channels; ++channel) {
    const std::size_t tile = channel / lanes, lane = channel % lanes;
    h0[channel] = tf.h0[channel];
    for (std::size_t k = 0; k < n; ++k) {
      a[(tile * order + k) * lanes + lane] = tf.a[tf.group_of(channel) * n + k];
      b[(tile * order + k) * lanes + lane] = tf.b[channel * n + k];
    }
  }
}

LoneChannels::LoneChannels(const TransferFunction& tf, std::size_t lanes, std::size_t length, double tolerance)
    : table_size(4 * lanes * lanes) {
  const std::size_t n = tf.order, rest = tf.channels % lanes;
  const auto denominator = [&](std::size_t channel) { return std::span(tf.a).subspan(tf.group_of(channel) * n, n); };
  first = 2 * rest >= lanes && rest > 1 ? tf.channels : tf.channels - rest;
  for (std::size_t channel = first; channel < tf.channels; ++channel)
    if (!(across_time_bound(denominator(channel), lanes, length) <= tolerance)) first = tf.channels;
  for (std::size_t channel = first; channel < tf.channels; ++channel) {
    const auto own = block_tables(denominator(channel), std::span(tf.b).subspan(channel * n, n), lanes);
    tables.insert(tables.end(), own.begin(), own.end());
  }
}

Recurrence::Recurrence(const TransferFunction& tf, InstructionSet set, std::size_t length, double tolerance)
    : simd_(recurrence_lanes(set)), tf_(tf), lanes_(tf, simd_.lanes), alone_(tf, simd_.lanes, length, tolerance) {}

std::size_t Recurrence::worker_space() const {
  const std::size_t lanes = simd_.lanes;
  const std::size_t by_channels = (lanes_.order + 2 * tile_chunk) * lanes;
  const std::size_t by_time = std::max(tf_.order, lanes) + 2 * LoneChannels::chunk + lanes;
  return (std::max(by_channels, by_time) + 7) / 8 * 8;
}

template <class T>
void Recurrence::run(Signal<const T> u, Signal<T> y, const double* initial_state, double* final_state, Offsets offsets,
                     double* space, Executor& executor) const {
  const std::size_t lanes = simd_.lanes, state_size = tf_.channels * tf_.order;
  // The tiles of one cache line go to one task: two threads writing to it would wait for each other.
  const std::size_t together = std::max<std::size_t>(1, 64 / (lanes * sizeof(T)));
  const std::size_t spans = (lanes_.tiles + together - 1) / together;
  parallel_for(executor, sequence_count(u.batch, offsets) * spans, [&](std::size_t task, std::size_t worker) {
    const std::size_t s = task / spans, first_tile = task % spans * together;
    const auto in = sequence(u, offsets, s);
    const auto out = sequence(y, offsets, s);
    const double* from = initial_state == nullptr ? nullptr : initial_state + s * state_size;
    double* to = final_state == nullptr ? nullptr : final_state + s * state_size;
    double* own = space + worker * worker_space();
    for (std::size_t tile = first_tile; tile < std::min(first_tile + together, lanes_.tiles); ++tile) {
      if (tile * lanes < alone_.first) {
        run_tile(in, out, from, to, tile, own);
        continue;
      }
      for (std::size_t channel = tile * lanes; channel < tf_.channels; ++channel)
        run_channel(in, out, from, to, channel, own);
    }
  });
}

template <class T>
void Recurrence::run_tile(Signal<const T> u, Signal<T> y, const double* initial_state, double* final_state,
                          std::size_t tile, double* space) const {
  const std::size_t lanes = simd_.lanes, n = tf_.order, padded = lanes_.order, first = tile * lanes;
  const std::size_t valid = std::min(lanes, tf_.channels - first);
  double* past = space;
  double* v = space + padded * lanes;
  double* rows = v + tile_chunk * lanes;
  std::fill_n(past, padded * lanes, 0.0);
  if (initial_state != nullptr)
    for (std::size_t l = 0; l < valid; ++l)
      for (std::size_t k = 1; k <= n; ++k) *(v - k * lanes + l) = initial_state[(first + l) * n + k - 1];
  for (std::size_t t = 0; t < u.length; t += tile_chunk) {
    const std::size_t count = std::min(tile_chunk, u.length - t);
    load(simd_, LaneRows<const T>{u.at(0, t, first), u.length_stride, u.channel_stride, valid}, count, rows);
    simd_.across_channels(lanes_.a.data() + tile * padded * lanes, lanes_.b.data() + tile * padded * lanes,
                          lanes_.h0.data() + tile * lanes, padded, count, v, rows);
    store(simd_, rows, count, LaneRows<T>{y.at(0, t, first), y.length_stride, y.channel_stride, valid});
    std::copy_n(past + count * lanes, padded * lanes, past);
  }
  if (final_state != nullptr)
    for (std::size_t l = 0; l < valid; ++l)
      for (std::size_t k = 1; k <= n; ++k) final_state[(first + l) * n + k - 1] = *(v - k * lanes + l);
}

template <class T>
void Recurrence::run_channel(Signal<const T> u, Signal<T> y, const double* initial_state, double* final_state,
                             std::size_t channel, double* space) const {
  const std::size_t lanes = simd_.lanes, n = tf_.order, group = tf_.group_of(channel);
  const std::size_t kept = std::max(n, lanes);
  double* past = space;
  double* v = space + kept;
  double* rows = v + LoneChannels::chunk + lanes;
  std::fill_n(past, kept, 0.0);
  for (std::size_t k = 1; k <= n && initial_state != nullptr; ++k) *(v - k) = initial_state[channel * n + k - 1];
  for (std::size_t t = 0; t < u.length; t += LoneChannels::chunk) {
    const std::size_t count = std::min(LoneChannels::chunk, u.length - t);
    const T* from = u.at(0, t, channel);
    for (std::size_t i = 0; i < count; ++i) rows[i] = from[static_cast<std::ptrdiff_t>(i) * u.length_stride];
    simd_.across_time(tf_.a.data() + group * n, tf_.b.data() + channel * n, tf_.h0[channel], alone_.tables_of(channel),
                      n, count, v, rows);
    T* to = y.at(0, t, channel);
    for (std::size_t i = 0; i < count; ++i)
      to[static_cast<std::ptrdiff_t>(i) * y.length_stride] = static_cast<T>(rows[i]);
    std::copy_n(past + count, kept, past);
  }
  if (final_state != nullptr)
    for (std::size_t k = 1; k <= n; ++k) final_state[channel * n + k - 1] = *(v - k);
}

template void Recurrence::run(Signal<const float>, Signal<float>, const double*, double*, Offsets, double*,
                              Executor&) const;
template void Recurrence::run(Signal<const double>, Signal<double>, const double*, double*, Offsets, double*,
                              Executor&) const;

}  // namespace rtf::cpu
