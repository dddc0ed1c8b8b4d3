#include "stream/lanes.h"

#include <cmath>
#include <cstdint>

#include "cpu/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stream/lanes.cpp"
#include "hwy/foreach_target.h"
// foreach_target comes first.
#include "hwy/highway.h"
#include "stream/block_count.h"

HWY_BEFORE_NAMESPACE();
namespace rtf::stream {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
template <class T>
using Tag = hn::ScalableTag<T>;
template <class T>
using Vec = hn::Vec<Tag<T>>;

// run(Count<vectors>, numbers, h0, states from this block on, u) for every block of channels and every row.
template <class T, int numbers_a_term, int states_a_term, class Run>
HWY_INLINE void each_channel_block(const LaneRecurrence<T>& layer, const LaneState<T>* states, std::size_t rows, T* u,
                                   std::size_t stride, Run&& run) {
  const std::size_t lanes = hn::Lanes(Tag<T>());
  each_block(layer.vectors, channel_block, [&](std::size_t first, std::size_t width) {
    with_count<channel_block>(width, [&](auto count) {
      const T* numbers = layer.numbers + first * lanes * layer.terms * numbers_a_term;
      const T* h0 = layer.h0 == nullptr ? nullptr : layer.h0 + first * lanes;  // sections have it inside
      for (std::size_t r = 0; r < rows; ++r)
        run(count, numbers, h0, states[r].state + first * lanes * layer.terms * states_a_term, states[r].position,
            u + r * stride + first * lanes);
    });
  });
}

// Taps from `numbers` on against `count` samples from `past` on.
template <class T, int vectors>
HWY_INLINE const T* taps(const T* HWY_RESTRICT numbers, const T* HWY_RESTRICT past, std::size_t count,
                         Vec<T> (&v)[vectors], Vec<T> (&y)[vectors]) {
  const Tag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t k = 0; k < count; ++k, numbers += 2 * vectors * lanes, past += vectors * lanes) {
    for (int i = 0; i < vectors; ++i) {
      const Vec<T> x = hn::Load(d, past + i * lanes);
      v[i] = hn::NegMulAdd(hn::Load(d, numbers + i * lanes), x, v[i]);
      y[i] = hn::MulAdd(hn::Load(d, numbers + (vectors + i) * lanes), x, y[i]);
    }
  }
  return numbers;
}

template <class T>
void companion(const LaneRecurrence<T>& layer, const LaneState<T>* states, std::size_t rows, T* u, std::size_t stride) {
  const std::size_t order = layer.terms;
  each_channel_block<T, 2, 1>(layer, states, rows, u, stride,
                              [&](auto count, const T* numbers, const T* h0, T* ring, std::size_t position, T* row) {
                                constexpr int vectors = decltype(count)::value;
                                const Tag<T> d;
                                const std::size_t lanes = hn::Lanes(d);
                                Vec<T> v[vectors], y[vectors];
                                for (int i = 0; i < vectors; ++i) {
                                  v[i] = hn::Load(d, row + i * lanes);
                                  y[i] = hn::Mul(hn::Load(d, h0 + i * lanes), v[i]);
                                }
                                T* oldest = ring + position * vectors * lanes;
                                const T* newer = taps<T, vectors>(numbers, oldest, order - position, v, y);
                                taps<T, vectors>(newer, ring, position, v, y);
                                for (int i = 0; i < vectors; ++i) {
                                  if (order > 0) hn::Store(v[i], d, oldest + i * lanes);
                                  hn::Store(y[i], d, row + i * lanes);
                                }
                              });
}

template <class T>
void sos(const LaneRecurrence<T>& layer, const LaneState<T>* states, std::size_t rows, T* u, std::size_t stride) {
  each_channel_block<T, 5, 2>(
      layer, states, rows, u, stride, [&](auto count, const T* numbers, const T*, T* state, std::size_t, T* row) {
        constexpr int vectors = decltype(count)::value;
        const Tag<T> d;
        const std::size_t lanes = hn::Lanes(d), block = vectors * lanes;
        Vec<T> x[vectors];
        for (int i = 0; i < vectors; ++i) x[i] = hn::Load(d, row + i * lanes);
        for (std::size_t s = 0; s < layer.terms; ++s, numbers += 5 * block, state += 2 * block) {
          for (int i = 0; i < vectors; ++i) {
            const T* at = numbers + i * lanes;
            T* kept = state + i * lanes;
            const Vec<T> y = hn::MulAdd(hn::Load(d, at), x[i], hn::Load(d, kept));
            const Vec<T> first = hn::MulAdd(hn::Load(d, at + block), x[i], hn::Load(d, kept + block));
            const Vec<T> second = hn::Mul(hn::Load(d, at + 2 * block), x[i]);
            hn::Store(hn::NegMulAdd(hn::Load(d, at + 3 * block), y, first), d, kept);
            hn::Store(hn::NegMulAdd(hn::Load(d, at + 4 * block), y, second), d, kept + block);
            x[i] = y;
          }
        }
        for (int i = 0; i < vectors; ++i) hn::Store(x[i], d, row + i * lanes);
      });
}

template <class T>
void modal(const LaneRecurrence<T>& layer, const LaneState<T>* states, std::size_t rows, T* u, std::size_t stride) {
  each_channel_block<T, 6, 2>(
      layer, states, rows, u, stride, [&](auto count, const T* numbers, const T* h0, T* state, std::size_t, T* row) {
        constexpr int vectors = decltype(count)::value;
        const Tag<T> d;
        const std::size_t lanes = hn::Lanes(d), block = vectors * lanes;
        Vec<T> x[vectors], y[vectors];
        for (int i = 0; i < vectors; ++i) {
          x[i] = hn::Load(d, row + i * lanes);
          y[i] = hn::Mul(hn::Load(d, h0 + i * lanes), x[i]);
        }
        for (std::size_t s = 0; s < layer.terms; ++s, numbers += 6 * block, state += 2 * block) {
          for (int i = 0; i < vectors; ++i) {
            const T* at = numbers + i * lanes;
            T* kept = state + i * lanes;
            const Vec<T> s0 = hn::Load(d, kept), s1 = hn::Load(d, kept + block);
            const Vec<T> fed = hn::MulAdd(hn::Load(d, at), s0, x[i]);
            hn::Store(hn::MulAdd(hn::Load(d, at + block), s1, fed), d, kept);
            hn::Store(hn::MulAdd(hn::Load(d, at + 2 * block), s0, hn::Mul(hn::Load(d, at + 3 * block), s1)), d,
                      kept + block);
            y[i] = hn::MulAdd(hn::Load(d, at + 4 * block), s0, y[i]);
            y[i] = hn::MulAdd(hn::Load(d, at + 5 * block), s1, y[i]);
          }
        }
        for (int i = 0; i < vectors; ++i) hn::Store(y[i], d, row + i * lanes);
      });
}

template <class T>
void affine(const T* x, const T* weight, const T* bias, std::size_t vectors, T* y) {
  const Tag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t i = 0; i < vectors * lanes; i += lanes)
    hn::Store(hn::MulAdd(hn::Load(d, x + i), hn::Load(d, weight + i), hn::Load(d, bias + i)), d, y + i);
}

template <class T>
void layer_norm(const T* x, const T* weight, const T* bias, std::size_t channels, T epsilon, T* y) {
  const Tag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  auto sum = hn::Zero(d);
  for (std::size_t i = 0; i < channels; i += lanes) sum = hn::Add(sum, hn::Load(d, x + i));
  const T count = static_cast<T>(channels), average = hn::GetLane(hn::SumOfLanes(d, sum)) / count;
  const auto mean = hn::Set(d, average);
  auto squares = hn::Zero(d);
  for (std::size_t i = 0; i < channels; i += lanes) {
    auto difference = hn::Sub(hn::Load(d, x + i), mean);
    if (i + lanes > channels) difference = hn::IfThenElseZero(hn::FirstN(d, channels - i), difference);
    squares = hn::MulAdd(difference, difference, squares);
  }
  const T variance = hn::GetLane(hn::SumOfLanes(d, squares)) / count;
  const auto scale = hn::Set(d, T(1) / std::sqrt(variance + epsilon));
  for (std::size_t i = 0; i < channels; i += lanes) {
    const auto normal = hn::Mul(hn::Sub(hn::Load(d, x + i), mean), scale);
    hn::Store(hn::MulAdd(normal, hn::Load(d, weight + i), hn::Load(d, bias + i)), d, y + i);
  }
}

template <class T>
const Lanes<T>& table() {
  static const Lanes<T> functions{hn::Lanes(Tag<T>()), companion<T>, sos<T>, modal<T>, affine<T>, layer_norm<T>};
  return functions;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rtf::stream
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rtf::stream {

template <class T>
const Lanes<T>& lanes_of(InstructionSet set) {
  return RTF_SIMD_TABLE(set, table<T>);
}
template const Lanes<float>& lanes_of(InstructionSet);
template const Lanes<double>& lanes_of(InstructionSet);

}  // namespace rtf::stream
#endif
