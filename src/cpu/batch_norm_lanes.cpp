#include "cpu/batch_norm_lanes.h"

#include "cpu/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/batch_norm_lanes.cpp"
#include "hwy/foreach_target.h"
// foreach_target comes first.
#include "cpu/map_lanes.h"

HWY_BEFORE_NAMESPACE();
namespace rtf::cpu {
namespace HWY_NAMESPACE {
namespace {

#if HWY_TARGET != HWY_SCALAR
// A vector of T as doubles: two of them for float, one for double.
struct Wide {
  Vec<double> low, high;
};
HWY_INLINE Wide widen(Vec<float> x) {
  const Tag<double> d;
  const hn::Half<Tag<float>> half;
  return {hn::PromoteTo(d, hn::LowerHalf(half, x)), hn::PromoteTo(d, hn::UpperHalf(half, x))};
}
HWY_INLINE Wide widen(Vec<double> x) { return {x, hn::Zero(Tag<double>())}; }

template <class T>
constexpr bool two_halves = sizeof(T) == sizeof(float);

template <class T>
HWY_INLINE void store(Wide x, double* to) {
  const Tag<double> d;
  hn::StoreU(x.low, d, to);
  if constexpr (two_halves<T>) hn::StoreU(x.high, d, to + hn::Lanes(d));
}

HWY_INLINE Wide add_product(Wide x, Wide y, Wide sum) {
  return {hn::MulAdd(x.low, y.low, sum.low), hn::MulAdd(x.high, y.high, sum.high)};
}
HWY_INLINE Wide add(Wide x, Wide y) { return {hn::Add(x.low, y.low), hn::Add(x.high, y.high)}; }
HWY_INLINE Wide subtract(Wide x, Wide y) { return {hn::Sub(x.low, y.low), hn::Sub(x.high, y.high)}; }

#endif

template <class T>
void moments(const T* x, const T* center, std::size_t stride, std::size_t rows, std::size_t channels, double* first,
             double* second) {
  std::size_t c = 0;
#if HWY_TARGET != HWY_SCALAR
  const Tag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  for (; c + lanes <= channels; c += lanes) {
    const Wide middle = widen(hn::LoadU(d, center + c));
    Wide sum = widen(hn::Zero(d)), square = sum;
    for (std::size_t row = 0; row < rows; ++row) {
      const Wide at = subtract(widen(hn::LoadU(d, x + row * stride + c)), middle);
      sum = add(sum, at);
      square = add_product(at, at, square);
    }
    store<T>(sum, first + c);
    store<T>(square, second + c);
  }
#endif
  for (; c < channels; ++c) {
    double sum = 0, square = 0;
    for (std::size_t row = 0; row < rows; ++row) {
      const double at = static_cast<double>(x[row * stride + c]) - static_cast<double>(center[c]);
      sum += at;
      square += at * at;
    }
    first[c] = sum;
    second[c] = square;
  }
}

template <class T>
void gradient_moments(const T* x, const T* center, const T* y_gradient, std::size_t stride, std::size_t rows,
                      std::size_t channels, double* first, double* second) {
  std::size_t c = 0;
#if HWY_TARGET != HWY_SCALAR
  const Tag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  for (; c + lanes <= channels; c += lanes) {
    const Wide middle = widen(hn::LoadU(d, center + c));
    Wide sum = widen(hn::Zero(d)), product = sum;
    for (std::size_t row = 0; row < rows; ++row) {
      const Wide at = subtract(widen(hn::LoadU(d, x + row * stride + c)), middle);
      const Wide gradient = widen(hn::LoadU(d, y_gradient + row * stride + c));
      sum = add(sum, gradient);
      product = add_product(at, gradient, product);
    }
    store<T>(sum, first + c);
    store<T>(product, second + c);
  }
#endif
  for (; c < channels; ++c) {
    double sum = 0, product = 0;
    for (std::size_t row = 0; row < rows; ++row) {
      const double gradient = y_gradient[row * stride + c];
      sum += gradient;
      product += gradient * (static_cast<double>(x[row * stride + c]) - static_cast<double>(center[c]));
    }
    first[c] = sum;
    second[c] = product;
  }
}

template <class T>
void apply(const T* x, const T* center, const T* scale, const T* shift, std::size_t channels, T* y) {
  map<T, 4, 1>(channels, {Input<T>{x}, {center}, {scale}, {shift}}, {y}, [](const auto& in) {
    return std::array<Vec<T>, 1>{hn::MulAdd(hn::Sub(in[0], in[1]), in[2], in[3])};
  });
}

template <class T>
void apply_gradient(const T* x, const T* center, const T* y_gradient, const T* scale, const T* offset, const T* slope,
                    std::size_t channels, T* x_gradient) {
  map<T, 6, 1>(channels, {Input<T>{x}, {center}, {y_gradient}, {scale}, {offset}, {slope}}, {x_gradient},
               [](const auto& in) {
                 const auto rest = hn::Sub(in[2], in[4]);
                 return std::array<Vec<T>, 1>{
                     hn::Mul(in[3], hn::NegMulAdd(hn::Sub(in[0], in[1]), in[5], rest))};
               });
}

template <class T>
const BatchNormLanes<T>& table() {
  static const BatchNormLanes<T> functions{moments<T>, gradient_moments<T>, apply<T>, apply_gradient<T>};
  return functions;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rtf::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rtf::cpu {

template <class T>
const BatchNormLanes<T>& batch_norm_lanes(InstructionSet set) {
  return RTF_SIMD_TABLE(set, table<T>);
}
template const BatchNormLanes<float>& batch_norm_lanes(InstructionSet);
template const BatchNormLanes<double>& batch_norm_lanes(InstructionSet);

}  // namespace rtf::cpu
#endif
