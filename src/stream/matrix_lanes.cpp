#include "stream/matrix_lanes.h"

#include <cstdint>
#include <type_traits>

#include "cpu/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stream/matrix_lanes.cpp"
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

// Bits of a bfloat16.
using Bfloat16 = std::uint16_t;

template <class T>
HWY_INLINE Vec<T> load_weights(const T* from) {
  return hn::Load(Tag<T>(), from);
}
HWY_INLINE Vec<float> load_weights(const Bfloat16* from) {
  const hn::RebindToUnsigned<Tag<float>> bits;
  const hn::Rebind<Bfloat16, Tag<float>> narrow;
  return hn::BitCast(Tag<float>(), hn::ShiftLeft<16>(hn::PromoteTo(bits, hn::Load(narrow, from))));
}
HWY_INLINE Vec<float> load_weights(const std::int8_t* from) {
  const hn::RebindToSigned<Tag<float>> whole;
  const hn::Rebind<std::int8_t, Tag<float>> narrow;
  return hn::ConvertTo(Tag<float>(), hn::PromoteTo(whole, hn::Load(narrow, from)));
}

// Whole numbers are summed before they are scaled.
template <class W>
constexpr bool is_scaled = std::is_same_v<W, std::int8_t>;

// In a matrix the narrow weights of 2 or 4 vectors share a vector of words, the first of them in the lowest bits:
// shifts and shuffles within 16 bytes take fewer cycles than
// widening loads. Whole numbers come out 2^24 times too large.
using Words = hn::Vec<hn::RebindToUnsigned<Tag<float>>>;
constexpr float scale_of_whole = 1.0f / (1 << 24);

// Byte `place` of each word as its highest, zeros below it.
template <int place>
HWY_INLINE Words byte_on_top(Words words) {
  const hn::RebindToUnsigned<Tag<float>> bits;
#if HWY_TARGET == HWY_SCALAR
  return hn::And(hn::ShiftLeft<24 - 8 * place>(words), hn::Set(bits, 0xFF000000u));
#else
  constexpr std::uint8_t z = 0x80, p = place;  // z: a zero
  alignas(16) static constexpr std::uint8_t from[16] = {z, z, z, p, z, z, z, p + 4, z, z, z, p + 8, z, z, z, p + 12};
  const hn::Repartition<std::uint8_t, Tag<float>> bytes;
  return hn::BitCast(bits, hn::TableLookupBytesOr0(hn::BitCast(bytes, words), hn::LoadDup128(bytes, from)));
#endif
}

template <class W, int place>
HWY_INLINE Vec<float> weights_in(Words words) {
  const hn::RebindToUnsigned<Tag<float>> bits;
  if constexpr (is_scaled<W>) {
    return hn::ConvertTo(Tag<float>(), hn::BitCast(hn::RebindToSigned<Tag<float>>(), byte_on_top<place>(words)));
  } else {
    return hn::BitCast(Tag<float>(),
                       place == 0 ? hn::ShiftLeft<16>(words) : hn::And(words, hn::Set(bits, 0xFFFF0000u)));
  }
}

// use(v, weights) for vectors `first` on that share words, as far as there are `vectors`.
template <class W, int vectors, int first, int place, class Use>
HWY_INLINE void each_in(Words words, Use&& use) {
  if constexpr (place < 4 / static_cast<int>(sizeof(W)) && first + place < vectors) {
    use(first + place, weights_in<W, place>(words));
    each_in<W, vectors, first, place + 1>(words, use);
  }
}

// use(v, weights) for the vectors of a block at one input; returns where the next input begins.
template <class T, class W, int vectors, int first = 0, class Use>
HWY_INLINE const W* each_vector(const W* from, Use&& use) {
  const std::size_t lanes = hn::Lanes(Tag<T>());
  if constexpr (first >= vectors) {
    return from;
  } else if constexpr (std::is_same_v<W, T>) {
    use(first, load_weights(from));
    return each_vector<T, W, vectors, first + 1>(from + lanes, use);
  } else {
    constexpr int share = sizeof(T) / sizeof(W);
    const hn::RebindToUnsigned<Tag<float>> bits;
    each_in<W, vectors, first, 0>(hn::Load(bits, reinterpret_cast<const std::uint32_t*>(from)), use);
    return each_vector<T, W, vectors, first + share>(from + share * lanes, use);
  }
}

template <class T, class W, int vectors, int rows>
HWY_INLINE void multiply_rows(const W* HWY_RESTRICT weights, const T* HWY_RESTRICT bias, const T* HWY_RESTRICT scale,
                              std::size_t inputs, const T* HWY_RESTRICT x, std::size_t x_stride, T* HWY_RESTRICT y,
                              std::size_t y_stride) {
  const Tag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  Vec<T> sum[rows][vectors];
  for (int v = 0; v < vectors; ++v)
    for (int r = 0; r < rows; ++r) sum[r][v] = is_scaled<W> ? hn::Zero(d) : hn::Load(d, bias + v * lanes);
  for (std::size_t i = 0; i < inputs; ++i) {
    Vec<T> in[rows];
    for (int r = 0; r < rows; ++r) in[r] = hn::Set(d, x[r * x_stride + i]);
    weights = each_vector<T, W, vectors>(weights, [&](int v, Vec<T> w) {
      for (int r = 0; r < rows; ++r) sum[r][v] = hn::MulAdd(w, in[r], sum[r][v]);
    });
  }
  for (int v = 0; v < vectors; ++v)
    for (int r = 0; r < rows; ++r) {
      if constexpr (is_scaled<W>)
        sum[r][v] = hn::MulAdd(hn::Mul(sum[r][v], hn::Set(d, scale_of_whole)), hn::Load(d, scale + v * lanes),
                               hn::Load(d, bias + v * lanes));
      hn::Store(sum[r][v], d, y + r * y_stride + v * lanes);
    }
}

template <class T, class W>
void multiply(const LaneMatrix<T>& matrix, const T* x, std::size_t x_stride, std::size_t rows, T* y,
              std::size_t y_stride) {
  const std::size_t lanes = hn::Lanes(Tag<T>()), inputs = matrix.inputs;
  each_block(matrix.vectors, matrix_block, [&](std::size_t first, std::size_t width) {
    with_count<matrix_block>(width, [&](auto count) {
      constexpr int vectors = decltype(count)::value;
      const W* block = static_cast<const W*>(matrix.weights) + first * lanes * inputs;
      const T* bias = matrix.bias + first * lanes;
      const T* scale = is_scaled<W> ? matrix.scale + first * lanes : nullptr;
      T* out = y + first * lanes;
      std::size_t r = 0;
      for (; r + 2 <= rows; r += 2)
        multiply_rows<T, W, vectors, 2>(block, bias, scale, inputs, x + r * x_stride, x_stride, out + r * y_stride,
                                        y_stride);
      if (r < rows)
        multiply_rows<T, W, vectors, 1>(block, bias, scale, inputs, x + r * x_stride, x_stride, out + r * y_stride,
                                        y_stride);
    });
  });
}

template <class T, class W>
void widen(const void* row, T scale, std::size_t vectors, T* y) {
  const Tag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t i = 0; i < vectors * lanes; i += lanes) {
    const Vec<T> weights = load_weights(static_cast<const W*>(row) + i);
    hn::Store(is_scaled<W> ? hn::Mul(weights, hn::Set(d, scale)) : weights, d, y + i);
  }
}

template <class T, class W>
constexpr WeightLanes<T> weight_lanes{sizeof(W), multiply<T, W>, widen<T, W>};

template <class T>
const MatrixLanes<T>& table() {
  static const MatrixLanes<T> functions = [] {
    MatrixLanes<T> all{weight_lanes<T, T>, {}, {}};
    if constexpr (std::is_same_v<T, float>) {
      all.bf16 = weight_lanes<T, Bfloat16>;
      all.int8 = weight_lanes<T, std::int8_t>;
    }
    return all;
  }();
  return functions;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rtf::stream
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rtf::stream {

template <class T>
const MatrixLanes<T>& matrix_lanes_of(InstructionSet set) {
  return RTF_SIMD_TABLE(set, table<T>);
}
template const MatrixLanes<float>& matrix_lanes_of(InstructionSet);
template const MatrixLanes<double>& matrix_lanes_of(InstructionSet);

}  // namespace rtf::stream
#endif
