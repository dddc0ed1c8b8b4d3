#include "cpu/wrapped_kernel_lanes.h"

#include "cpu/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/wrapped_kernel_lanes.cpp"
#include "hwy/foreach_target.h"
// foreach_target comes first.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace rtf::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::ScalableTag<double>;
using Vec = hn::Vec<Tag>;

struct Complex {
  Vec re, im;
};

// x conj(y)
HWY_INLINE Complex multiply_conj(Complex x, Complex y) {
  return {hn::MulAdd(x.im, y.im, hn::Mul(x.re, y.re)), hn::NegMulAdd(x.re, y.im, hn::Mul(x.im, y.re))};
}
HWY_INLINE Complex multiply(Complex x, Complex y) {
  return {hn::NegMulAdd(x.im, y.im, hn::Mul(x.re, y.re)), hn::MulAdd(x.re, y.im, hn::Mul(x.im, y.re))};
}
HWY_INLINE Complex scale(Complex x, Vec f) { return {hn::Mul(x.re, f), hn::Mul(x.im, f)}; }

// Bins with a single real value: the first, and the last of an even length.
HWY_INLINE bool lone(std::size_t index, std::size_t size) { return index == 0 || (index + 1 == size && size % 2 == 0); }

HWY_INLINE Complex load_bin(const double* z, std::size_t index, std::size_t size) {
  const Tag d;
  const std::size_t lanes = hn::Lanes(d);
  return {hn::Load(d, z + index * lanes), lone(index, size) ? hn::Zero(d) : hn::Load(d, z + (index + 1) * lanes)};
}
HWY_INLINE void store_bin(Complex value, double* z, std::size_t index, std::size_t size) {
  const Tag d;
  const std::size_t lanes = hn::Lanes(d);
  hn::Store(value.re, d, z + index * lanes);
  if (!lone(index, size)) hn::Store(value.im, d, z + (index + 1) * lanes);
}

void divide(const double* a, std::size_t size, double* b, double* smallest_out) {
  const Tag d;
  const auto one = hn::Set(d, 1.0);
  auto smallest = hn::Set(d, 1e308);
  for (std::size_t i = 0; i < size; i += lone(i, size) ? 1 : 2) {
    const Complex den = load_bin(a, i, size);
    const auto norm = hn::MulAdd(den.im, den.im, hn::Mul(den.re, den.re));
    smallest = hn::Min(smallest, norm);
    store_bin(scale(multiply_conj(load_bin(b, i, size), den), hn::Div(one, norm)), b, i, size);
  }
  hn::Store(smallest, d, smallest_out);
}

void divide_gradient(const double* a, std::size_t size, double* g, double* b, double* smallest_out) {
  const Tag d;
  const auto one = hn::Set(d, 1.0);
  auto smallest = hn::Set(d, 1e308);
  for (std::size_t i = 0; i < size; i += lone(i, size) ? 1 : 2) {
    const Complex den = load_bin(a, i, size);
    const auto norm = hn::MulAdd(den.im, den.im, hn::Mul(den.re, den.re));
    smallest = hn::Min(smallest, norm);
    const auto inverse = hn::Div(one, norm);
    // 1 / conj(a) = a / |a|^2
    const Complex q = scale(multiply(load_bin(g, i, size), den), inverse);
    const Complex p = scale(multiply(multiply_conj(q, load_bin(b, i, size)), den), hn::Neg(inverse));
    store_bin(q, g, i, size);
    store_bin(p, b, i, size);
  }
  hn::Store(smallest, d, smallest_out);
}

const WrappedKernelLanes& table() {
  static const WrappedKernelLanes functions{hn::Lanes(Tag()), divide, divide_gradient};
  return functions;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rtf::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rtf::cpu {

const WrappedKernelLanes& wrapped_kernel_lanes(InstructionSet set) { return RTF_SIMD_TABLE(set, table); }

}  // namespace rtf::cpu
#endif
