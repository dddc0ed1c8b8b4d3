#include "cpu/convolution_lanes.h"

#include <algorithm>

#include "cpu/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/convolution_lanes.cpp"
#include "hwy/foreach_target.h"
// foreach_target comes first.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace rtf::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using Tag = hn::ScalableTag<T>;

// Rows that are not one contiguous vector a sample pass through a tile of this many samples.
constexpr std::size_t tile = 16;
constexpr std::size_t most_lanes = 64;

template <class T>
bool contiguous(const LaneRows<T>& rows) {
  return rows.channel_stride == 1 && rows.channels == hn::Lanes(Tag<std::remove_const_t<T>>());
}

template <class T>
void gather(LaneRows<const T> rows, std::size_t first, std::size_t count, T* HWY_RESTRICT out) {
  const std::size_t lanes = hn::Lanes(Tag<T>());
  for (std::size_t l = 0; l < lanes; ++l) {
    if (l >= rows.channels) {
      for (std::size_t i = 0; i < count; ++i) out[i * lanes + l] = 0;
      continue;
    }
    const T* row = rows.at(first, l);
    for (std::size_t i = 0; i < count; ++i)
      out[i * lanes + l] = row[static_cast<std::ptrdiff_t>(i) * rows.length_stride];
  }
}

template <class T>
void scatter(const T* HWY_RESTRICT in, std::size_t first, std::size_t count, LaneRows<T> rows) {
  const std::size_t lanes = hn::Lanes(Tag<T>());
  for (std::size_t l = 0; l < rows.channels; ++l) {
    T* row = rows.at(first, l);
    for (std::size_t i = 0; i < count; ++i)
      row[static_cast<std::ptrdiff_t>(i) * rows.length_stride] = in[i * lanes + l];
  }
}

template <class T>
void load(LaneRows<const T> u, std::size_t count, std::size_t size, const T* weights, T* z) {
  const Tag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  HWY_ALIGN T staged[tile * most_lanes];
  for (std::size_t first = 0; first < count; first += tile) {
    const std::size_t n = std::min(tile, count - first);
    const T* from = staged;
    std::ptrdiff_t stride = static_cast<std::ptrdiff_t>(lanes);
    if (contiguous(u)) {
      from = u.at(first, 0);
      stride = u.length_stride;
    } else {
      gather(u, first, n, staged);
    }
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t t = first + i;
      const auto x = hn::LoadU(d, from + static_cast<std::ptrdiff_t>(i) * stride);
      hn::Store(hn::Mul(x, hn::Set(d, weights[2 * t])), d, z + 2 * t * lanes);
      hn::Store(hn::Mul(x, hn::Set(d, weights[2 * t + 1])), d, z + (2 * t + 1) * lanes);
    }
  }
  for (std::size_t i = 2 * count; i < 2 * size; ++i) hn::Store(hn::Zero(d), d, z + i * lanes);
}

template <class T>
void store(const T* z, std::size_t count, const T* weights, LaneRows<T> y) {
  const Tag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  HWY_ALIGN T staged[tile * most_lanes];
  for (std::size_t first = 0; first < count; first += tile) {
    const std::size_t n = std::min(tile, count - first);
    const bool direct = contiguous(y);
    T* to = direct ? y.at(first, 0) : staged;
    const std::ptrdiff_t stride = direct ? y.length_stride : static_cast<std::ptrdiff_t>(lanes);
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t t = first + i;
      const auto re = hn::Load(d, z + 2 * t * lanes), im = hn::Load(d, z + (2 * t + 1) * lanes);
      const auto value = hn::MulAdd(im, hn::Set(d, weights[2 * t + 1]), hn::Mul(re, hn::Set(d, weights[2 * t])));
      hn::StoreU(value, d, to + static_cast<std::ptrdiff_t>(i) * stride);
    }
    if (!direct) scatter(staged, first, n, y);
  }
}

template <class T>
void multiply(const T* HWY_RESTRICT k, std::size_t size, T* HWY_RESTRICT z) {
  const Tag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t i = 0; i < 2 * size * lanes; i += 2 * lanes) {
    const auto kr = hn::Load(d, k + i), ki = hn::Load(d, k + i + lanes);
    const auto zr = hn::Load(d, z + i), zi = hn::Load(d, z + i + lanes);
    hn::Store(hn::NegMulAdd(ki, zi, hn::Mul(kr, zr)), d, z + i);
    hn::Store(hn::MulAdd(ki, zr, hn::Mul(kr, zi)), d, z + i + lanes);
  }
}

template <class T>
void correlate(const T* HWY_RESTRICT u, const T* HWY_RESTRICT k, std::size_t size, T* HWY_RESTRICT g,
               T* HWY_RESTRICT sum) {
  const Tag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t i = 0; i < 2 * size * lanes; i += 2 * lanes) {
    const auto ur = hn::Load(d, u + i), ui = hn::Load(d, u + i + lanes);
    const auto kr = hn::Load(d, k + i), ki = hn::Load(d, k + i + lanes);
    const auto gr = hn::Load(d, g + i), gi = hn::Load(d, g + i + lanes);
    const auto sr = hn::Load(d, sum + i), si = hn::Load(d, sum + i + lanes);
    hn::Store(hn::MulAdd(ui, gi, hn::MulAdd(ur, gr, sr)), d, sum + i);
    hn::Store(hn::NegMulAdd(ui, gr, hn::MulAdd(ur, gi, si)), d, sum + i + lanes);
    hn::Store(hn::MulAdd(ki, gi, hn::Mul(kr, gr)), d, g + i);
    hn::Store(hn::NegMulAdd(ki, gr, hn::Mul(kr, gi)), d, g + i + lanes);
  }
}

template <class T>
void scale(const T* from, T factor, std::size_t size, T* z) {
  const Tag<T> d;
  const auto f = hn::Set(d, factor);
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t i = 0; i < 2 * size * lanes; i += lanes) hn::Store(hn::Mul(f, hn::Load(d, from + i)), d, z + i);
}

template <class T>
void add(const T* HWY_RESTRICT from, std::size_t size, T* HWY_RESTRICT z) {
  const Tag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t i = 0; i < 2 * size * lanes; i += lanes)
    hn::Store(hn::Add(hn::Load(d, z + i), hn::Load(d, from + i)), d, z + i);
}

template <class T>
void load_backward(LaneRows<const T> k, std::size_t count, std::size_t size, const T* weights, T* z) {
  const std::size_t lanes = hn::Lanes(Tag<T>());
  for (std::size_t m = 1; m < count; ++m) {
    const std::size_t t = size - m;
    for (std::size_t l = 0; l < k.channels; ++l) {
      const T value = *k.at(m - 1, l);
      // -i (cos + i sin) = sin - i cos
      z[2 * t * lanes + l] += value * weights[2 * t + 1];
      z[(2 * t + 1) * lanes + l] -= value * weights[2 * t];
    }
  }
}

template <class T>
void store_backward(const T* z, std::size_t count, std::size_t size, const T* weights, LaneRows<T> k) {
  const std::size_t lanes = hn::Lanes(Tag<T>());
  for (std::size_t m = 1; m < count; ++m) {
    const std::size_t t = size - m;
    for (std::size_t l = 0; l < k.channels; ++l)
      *k.at(m - 1, l) = z[2 * t * lanes + l] * weights[2 * t + 1] - z[(2 * t + 1) * lanes + l] * weights[2 * t];
  }
}

template <class T>
const ConvolutionLanes<T>& table() {
  static const ConvolutionLanes<T> functions{hn::Lanes(Tag<T>()), load<T>,  store<T>,         multiply<T>,
                                             correlate<T>,        scale<T>, add<T>, load_backward<T>, store_backward<T>};
  return functions;
}
const ConvolutionLanes<float>& table_float() { return table<float>(); }
const ConvolutionLanes<double>& table_double() { return table<double>(); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rtf::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rtf::cpu {

template <>
const ConvolutionLanes<float>& convolution_lanes(InstructionSet set) {
  return RTF_SIMD_TABLE(set, table_float);
}
template <>
const ConvolutionLanes<double>& convolution_lanes(InstructionSet set) {
  return RTF_SIMD_TABLE(set, table_double);
}

}  // namespace rtf::cpu
#endif
