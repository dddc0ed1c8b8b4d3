// Elementwise work on rows, a vector at a time. Included once for each instruction set, as Highway does it.
#if defined(RTF_CPU_MAP_LANES_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RTF_CPU_MAP_LANES_H_
#undef RTF_CPU_MAP_LANES_H_
#else
#define RTF_CPU_MAP_LANES_H_
#endif

#include <algorithm>
#include <array>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace rtf::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using Tag = hn::ScalableTag<T>;
template <class T>
using Vec = hn::Vec<Tag<T>>;

// An array to read, or the constant that stands for it.
template <class T>
struct Input {
  const T* data;
  T otherwise = 0;
};

// out = body(in), a vector at a time; the rest goes through a vector's worth of local memory.
template <class T, std::size_t In, std::size_t Out, class Body>
HWY_INLINE void map(std::size_t count, const std::array<Input<T>, In>& in, const std::array<T*, Out>& out, Body body) {
  const Tag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  std::array<Vec<T>, In> x;
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    for (std::size_t k = 0; k < In; ++k)
      x[k] = in[k].data != nullptr ? hn::LoadU(d, in[k].data + i) : hn::Set(d, in[k].otherwise);
    const std::array<Vec<T>, Out> y = body(x);
    for (std::size_t k = 0; k < Out; ++k) hn::StoreU(y[k], d, out[k] + i);
  }
  if (i == count) return;
  HWY_ALIGN T local[hn::MaxLanes(Tag<T>())];
  for (std::size_t k = 0; k < In; ++k) {
    std::fill_n(local, lanes, in[k].otherwise);
    if (in[k].data != nullptr) std::copy(in[k].data + i, in[k].data + count, local);
    x[k] = hn::Load(d, local);
  }
  const std::array<Vec<T>, Out> y = body(x);
  for (std::size_t k = 0; k < Out; ++k) {
    hn::Store(y[k], d, local);
    std::copy_n(local, count - i, out[k] + i);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rtf::cpu
HWY_AFTER_NAMESPACE();

#endif
