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

// The tag D fixes how many lanes a row group has: all of a vector, or half.
template <class D>
using Element = hn::TFromD<D>;

template <class D>
struct Complex {
  hn::Vec<D> re, im;
};

template <class D>
HWY_INLINE Complex<D> add(Complex<D> x, Complex<D> y) {
  return {hn::Add(x.re, y.re), hn::Add(x.im, y.im)};
}
template <class D>
HWY_INLINE Complex<D> subtract(Complex<D> x, Complex<D> y) {
  return {hn::Sub(x.re, y.re), hn::Sub(x.im, y.im)};
}
template <class D>
HWY_INLINE Complex<D> multiply(Complex<D> x, hn::Vec<D> re, hn::Vec<D> im) {
  return {hn::NegMulAdd(x.im, im, hn::Mul(x.re, re)), hn::MulAdd(x.re, im, hn::Mul(x.im, re))};
}
template <class D>
HWY_INLINE Complex<D> multiply_conj(Complex<D> x, hn::Vec<D> re, hn::Vec<D> im) {
  return {hn::MulAdd(x.im, im, hn::Mul(x.re, re)), hn::NegMulAdd(x.re, im, hn::Mul(x.im, re))};
}
// Times -i going forward, i going back.
template <class D, bool forward>
HWY_INLINE Complex<D> quarter(Complex<D> x) {
  if constexpr (forward) return {x.im, hn::Neg(x.re)};
  return {hn::Neg(x.im), x.re};
}
// Times e^{-i pi / 4} going forward, its conjugate going back.
template <class D, bool forward>
HWY_INLINE Complex<D> eighth(Complex<D> x) {
  const auto half = hn::Set(D(), static_cast<Element<D>>(0.70710678118654752440));
  if constexpr (forward) return {hn::Mul(half, hn::Add(x.re, x.im)), hn::Mul(half, hn::Sub(x.im, x.re))};
  return {hn::Mul(half, hn::Sub(x.re, x.im)), hn::Mul(half, hn::Add(x.im, x.re))};
}

// The 8-point transform, unnormalised.
template <class D, bool forward>
HWY_INLINE void butterfly(Complex<D>* x) {
  const auto b0 = add(x[0], x[4]), b4 = subtract(x[0], x[4]);
  const auto b1 = add(x[1], x[5]), b5 = subtract(x[1], x[5]);
  const auto b2 = add(x[2], x[6]), b6 = subtract(x[2], x[6]);
  const auto b3 = add(x[3], x[7]), b7 = subtract(x[3], x[7]);
  const auto c0 = add(b0, b2), c2 = subtract(b0, b2), c1 = add(b1, b3);
  const auto c3 = quarter<D, forward>(subtract(b1, b3));
  x[0] = add(c0, c1);
  x[4] = subtract(c0, c1);
  x[2] = add(c2, c3);
  x[6] = subtract(c2, c3);
  const auto d1 = eighth<D, forward>(b5), d2 = quarter<D, forward>(b6);
  const auto d3 = quarter<D, forward>(eighth<D, forward>(b7));
  const auto e0 = add(b4, d2), e2 = subtract(b4, d2), e1 = add(d1, d3);
  const auto e3 = quarter<D, forward>(subtract(d1, d3));
  x[1] = add(e0, e1);
  x[5] = subtract(e0, e1);
  x[3] = add(e2, e3);
  x[7] = subtract(e2, e3);
}

// The weight of sample t + r part is that of sample t times e^{i pi r / 16}.
constexpr double step_re[convolution_split] = {1.0,
                                               0.98078528040323044913,
                                               0.92387953251128675613,
                                               0.83146961230254523708,
                                               0.70710678118654752440,
                                               0.55557023301960222474,
                                               0.38268343236508977173,
                                               0.19509032201612826785};
constexpr double step_im(std::size_t r) { return r == 0 ? 0.0 : step_re[convolution_split - r]; }

template <class D>
HWY_INLINE Complex<D> load_complex(const Element<D>* z, std::size_t index) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  return {hn::Load(d, z + 2 * index * lanes), hn::Load(d, z + (2 * index + 1) * lanes)};
}
template <class D>
HWY_INLINE void store_complex(Complex<D> x, Element<D>* z, std::size_t index) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  hn::Store(x.re, d, z + 2 * index * lanes);
  hn::Store(x.im, d, z + (2 * index + 1) * lanes);
}

// Weighted samples t, t + part, ... to sample t of each group.
template <class D, std::size_t S>
HWY_INLINE void split(Complex<D>* x, std::size_t t, const RightAngle<Element<D>>& grid, Element<D>* z) {
  const D d;
  if constexpr (S > 1) butterfly<D, true>(x);
  for (std::size_t j = 0; j < S; ++j) {
    const Element<D>* twiddle = grid.twiddles.data() + 2 * (j * grid.part + t);
    store_complex<D>(multiply<D>(x[j], hn::Set(d, twiddle[0]), hn::Set(d, twiddle[1])), z, j * grid.part + t);
  }
}

// The way back; the samples still carry e^{i pi r / 16}.
template <class D, std::size_t S>
HWY_INLINE void merge(const Element<D>* z, std::size_t t, const RightAngle<Element<D>>& grid, Complex<D>* x) {
  const D d;
  for (std::size_t j = 0; j < S; ++j) {
    const Element<D>* twiddle = grid.twiddles.data() + 2 * (j * grid.part + t);
    x[j] = multiply_conj<D>(load_complex<D>(z, j * grid.part + t), hn::Set(d, twiddle[0]), hn::Set(d, twiddle[1]));
  }
  if constexpr (S > 1) butterfly<D, false>(x);
}

// Rows that are not one contiguous vector a sample pass through a tile of this many samples.
constexpr std::size_t tile = 16;
constexpr std::size_t most_lanes = 64;

// Rows of channels-last signals lie far apart, where the hardware does not prefetch; it is asked to, this many samples
// ahead.
constexpr std::ptrdiff_t ahead = 4;

template <class D, class T>
bool contiguous(D d, const LaneRows<T>& rows) {
  return rows.channel_stride == 1 && rows.channels == hn::Lanes(d);
}

template <class D, class T = Element<D>>
void gather(LaneRows<const T> rows, std::size_t first, std::size_t count, T* HWY_RESTRICT out) {
  const std::size_t lanes = hn::Lanes(D());
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

template <class D, class T = Element<D>>
void scatter(const T* HWY_RESTRICT in, std::size_t first, std::size_t count, LaneRows<T> rows) {
  const std::size_t lanes = hn::Lanes(D());
  for (std::size_t l = 0; l < rows.channels; ++l) {
    T* row = rows.at(first, l);
    for (std::size_t i = 0; i < count; ++i)
      row[static_cast<std::ptrdiff_t>(i) * rows.length_stride] = in[i * lanes + l];
  }
}

// Samples [first, first + n) of those that exist, n <= tile.
std::size_t present(std::size_t first, std::size_t n, std::size_t count) {
  return first >= count ? 0 : std::min(n, count - first);
}

template <class D, std::size_t S, class T = Element<D>>
void load_split(LaneRows<const T> u, std::size_t count, const RightAngle<T>& grid, T* z) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  const bool direct = contiguous(d, u);
  HWY_ALIGN T staged[S * tile * most_lanes];
  for (std::size_t first = 0; first < grid.part; first += tile) {
    const std::size_t n = std::min(tile, grid.part - first);
    const T* from[S];
    std::size_t exists[S];
    const std::ptrdiff_t stride = direct ? u.length_stride : static_cast<std::ptrdiff_t>(lanes);
    for (std::size_t r = 0; r < S; ++r) {
      exists[r] = present(first + r * grid.part, n, count);
      from[r] = direct ? u.at(first + r * grid.part, 0) : staged + r * tile * lanes;
      if (!direct) gather<D>(u, first + r * grid.part, exists[r], staged + r * tile * lanes);
    }
    for (std::size_t i = 0; i < n; ++i) {
      Complex<D> x[S];
      for (std::size_t r = 0; r < S; ++r) {
        if (direct) __builtin_prefetch(from[r] + (static_cast<std::ptrdiff_t>(i) + ahead) * stride);
        const auto value =
            i < exists[r] ? hn::LoadU(d, from[r] + static_cast<std::ptrdiff_t>(i) * stride) : hn::Zero(d);
        x[r] = {hn::Mul(value, hn::Set(d, static_cast<T>(step_re[r]))),
                hn::Mul(value, hn::Set(d, static_cast<T>(step_im(r))))};
      }
      split<D, S>(x, first + i, grid, z);
    }
  }
}

template <class D, std::size_t S, class T = Element<D>>
void store_split(const T* z, std::size_t count, const RightAngle<T>& grid, LaneRows<T> y) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  const bool direct = contiguous(d, y);
  HWY_ALIGN T staged[S * tile * most_lanes];
  for (std::size_t first = 0; first < std::min(grid.part, count); first += tile) {
    const std::size_t n = std::min(tile, grid.part - first);
    T* to[S];
    std::size_t exists[S];
    const std::ptrdiff_t stride = direct ? y.length_stride : static_cast<std::ptrdiff_t>(lanes);
    for (std::size_t r = 0; r < S; ++r) {
      exists[r] = present(first + r * grid.part, n, count);
      to[r] = direct ? y.at(first + r * grid.part, 0) : staged + r * tile * lanes;
    }
    for (std::size_t i = 0; i < n; ++i) {
      Complex<D> x[S];
      merge<D, S>(z, first + i, grid, x);
      for (std::size_t r = 0; r < S; ++r) {
        if (i >= exists[r]) break;
        const auto value = hn::MulAdd(x[r].im, hn::Set(d, static_cast<T>(step_im(r))),
                                      hn::Mul(x[r].re, hn::Set(d, static_cast<T>(step_re[r]))));
        if (direct) __builtin_prefetch(to[r] + (static_cast<std::ptrdiff_t>(i) + ahead) * stride, 1);
        hn::StoreU(value, d, to[r] + static_cast<std::ptrdiff_t>(i) * stride);
      }
    }
    if (!direct)
      for (std::size_t r = 0; r < S; ++r) scatter<D>(staged + r * tile * lanes, first + r * grid.part, exists[r], y);
  }
}

template <class D, std::size_t S, class T = Element<D>>
void load_kernel_split(const KernelRows<const T>& kernel, const RightAngle<T>& grid, T* z) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t i = 0; i < 2 * grid.size; ++i) hn::Store(hn::Zero(d), d, z + i * lanes);
  for (std::size_t l = 0; l < kernel.forward.channels; ++l) {
    for (std::size_t t = 0; t < kernel.forward_count; ++t) z[2 * t * lanes + l] = *kernel.forward.at(t, l);
    if (kernel.backward.data == nullptr) continue;
    for (std::size_t m = 1; m <= kernel.backward_count; ++m)
      z[(2 * (grid.size - m) + 1) * lanes + l] = -*kernel.backward.at(m - 1, l);
  }
  for (std::size_t t = 0; t < grid.part; ++t) {
    Complex<D> x[S];
    for (std::size_t r = 0; r < S; ++r)
      x[r] = multiply<D>(load_complex<D>(z, t + r * grid.part), hn::Set(d, static_cast<T>(step_re[r])),
                         hn::Set(d, static_cast<T>(step_im(r))));
    split<D, S>(x, t, grid, z);
  }
}

template <class D, std::size_t S, class T = Element<D>>
void store_kernel_split(T* z, const RightAngle<T>& grid, const KernelRows<T>& kernel) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t t = 0; t < grid.part; ++t) {
    Complex<D> x[S];
    merge<D, S>(z, t, grid, x);
    for (std::size_t r = 0; r < S; ++r)
      store_complex<D>(
          multiply_conj<D>(x[r], hn::Set(d, static_cast<T>(step_re[r])), hn::Set(d, static_cast<T>(step_im(r)))), z,
          t + r * grid.part);
  }
  for (std::size_t l = 0; l < kernel.forward.channels; ++l) {
    for (std::size_t t = 0; t < kernel.forward_count; ++t) *kernel.forward.at(t, l) = z[2 * t * lanes + l];
    if (kernel.backward.data == nullptr) continue;
    for (std::size_t m = 1; m <= kernel.backward_count; ++m)
      *kernel.backward.at(m - 1, l) = -z[(2 * (grid.size - m) + 1) * lanes + l];
  }
}

// Each of the four above, by how its grid is split.
template <class D, class T = Element<D>>
void load(LaneRows<const T> u, std::size_t count, const RightAngle<T>& grid, T* z) {
  grid.split == 1 ? load_split<D, 1>(u, count, grid, z) : load_split<D, convolution_split>(u, count, grid, z);
}
template <class D, class T = Element<D>>
void store(const T* z, std::size_t count, const RightAngle<T>& grid, LaneRows<T> y) {
  grid.split == 1 ? store_split<D, 1>(z, count, grid, y) : store_split<D, convolution_split>(z, count, grid, y);
}
template <class D, class T = Element<D>>
void load_kernel(const KernelRows<const T>& kernel, const RightAngle<T>& grid, T* z) {
  grid.split == 1 ? load_kernel_split<D, 1>(kernel, grid, z) : load_kernel_split<D, convolution_split>(kernel, grid, z);
}
template <class D, class T = Element<D>>
void store_kernel(T* z, const RightAngle<T>& grid, const KernelRows<T>& kernel) {
  grid.split == 1 ? store_kernel_split<D, 1>(z, grid, kernel)
                  : store_kernel_split<D, convolution_split>(z, grid, kernel);
}

template <class D, class T = Element<D>>
void multiply_spectrum(const T* HWY_RESTRICT k, std::size_t size, T* HWY_RESTRICT z) {
  for (std::size_t i = 0; i < size; ++i) {
    const Complex<D> factor = load_complex<D>(k, i);
    store_complex<D>(multiply<D>(load_complex<D>(z, i), factor.re, factor.im), z, i);
  }
}

template <class D, class T = Element<D>>
void correlate(const T* HWY_RESTRICT u, const T* HWY_RESTRICT k, std::size_t size, T* HWY_RESTRICT g,
               T* HWY_RESTRICT sum) {
  for (std::size_t i = 0; i < size; ++i) {
    const Complex<D> x = load_complex<D>(u, i), factor = load_complex<D>(k, i);
    const Complex<D> gradient = load_complex<D>(g, i), before = load_complex<D>(sum, i);
    store_complex<D>({hn::MulAdd(x.im, gradient.im, hn::MulAdd(x.re, gradient.re, before.re)),
                      hn::NegMulAdd(x.im, gradient.re, hn::MulAdd(x.re, gradient.im, before.im))},
                     sum, i);
    store_complex<D>(multiply_conj<D>(gradient, factor.re, factor.im), g, i);
  }
}

template <class D, class T = Element<D>>
void scale(const T* from, T factor, std::size_t size, T* z) {
  const D d;
  const auto f = hn::Set(d, factor);
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t i = 0; i < 2 * size * lanes; i += lanes) hn::Store(hn::Mul(f, hn::Load(d, from + i)), d, z + i);
}

template <class D, class T = Element<D>>
void add_to(const T* HWY_RESTRICT from, std::size_t size, T* HWY_RESTRICT z) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t i = 0; i < 2 * size * lanes; i += lanes)
    hn::Store(hn::Add(hn::Load(d, z + i), hn::Load(d, from + i)), d, z + i);
}

template <class D>
const ConvolutionLanes<Element<D>>& table() {
  static const ConvolutionLanes<Element<D>> functions{hn::Lanes(D()), load<D>,         store<D>,
                                                      load_kernel<D>, store_kernel<D>, multiply_spectrum<D>,
                                                      correlate<D>,   scale<D>,        add_to<D>};
  return functions;
}
const ConvolutionLanes<float>& table_float() { return table<hn::ScalableTag<float>>(); }
const ConvolutionLanes<double>& table_double() { return table<hn::ScalableTag<double>>(); }
#if HWY_TARGET == HWY_AVX3
const ConvolutionLanes<float>& half_float() { return table<hn::CappedTag<float, 8>>(); }
const ConvolutionLanes<double>& half_double() { return table<hn::CappedTag<double, 4>>(); }
#endif

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rtf::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <cmath>
#include <numbers>

namespace rtf::cpu {

// Short signals gain nothing from the split.
template <class T>
RightAngle<T>::RightAngle(std::size_t size_)
    : size(size_),
      split(size % convolution_split == 0 && size >= 64 * convolution_split ? convolution_split : 1),
      part(size / split),
      twiddles(2 * size) {
  for (std::size_t j = 0; j < split; ++j)
    for (std::size_t t = 0; t < part; ++t) {
      // t / (4 size) - j t / size turns, reduced exactly before the angle is taken.
      const std::size_t quarters = (t + (4 * size - 4 * j % (4 * size)) % (4 * size) * t) % (4 * size);
      const double angle = 2 * std::numbers::pi * static_cast<double>(quarters) / (4.0 * static_cast<double>(size));
      twiddles[2 * (j * part + t)] = static_cast<T>(std::cos(angle));
      twiddles[2 * (j * part + t) + 1] = static_cast<T>(std::sin(angle));
    }
}
template struct RightAngle<float>;
template struct RightAngle<double>;

template <>
const ConvolutionLanes<float>& convolution_lanes(InstructionSet set, FftLanes lanes) {
#if HWY_TARGETS & HWY_AVX3
  if (lanes == FftLanes::half && set == InstructionSet::v4) return N_AVX3::half_float();
#endif
  return RTF_SIMD_TABLE(set, table_float);
}
template <>
const ConvolutionLanes<double>& convolution_lanes(InstructionSet set, FftLanes lanes) {
#if HWY_TARGETS & HWY_AVX3
  if (lanes == FftLanes::half && set == InstructionSet::v4) return N_AVX3::half_double();
#endif
  return RTF_SIMD_TABLE(set, table_double);
}

}  // namespace rtf::cpu
#endif
