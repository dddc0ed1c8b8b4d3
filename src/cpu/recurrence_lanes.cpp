#include "cpu/recurrence_lanes.h"

#include "core/polynomial.h"
#include "cpu/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/recurrence_lanes.cpp"
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

// Four samples of the past, oldest first, against one tap.
struct Block {
  Vec v0, v1, v2, v3;  // u - a . past, so far
  Vec y0, y1, y2, y3;  // h0 u + b . past, so far

  HWY_INLINE void tap(Vec a, Vec b, Vec w0, Vec w1, Vec w2, Vec w3) {
    v0 = hn::NegMulAdd(a, w0, v0);
    v1 = hn::NegMulAdd(a, w1, v1);
    v2 = hn::NegMulAdd(a, w2, v2);
    v3 = hn::NegMulAdd(a, w3, v3);
    y0 = hn::MulAdd(b, w0, y0);
    y1 = hn::MulAdd(b, w1, y1);
    y2 = hn::MulAdd(b, w2, y2);
    y3 = hn::MulAdd(b, w3, y3);
  }
};

HWY_INLINE void one_sample(const double* a, const double* b, Vec h0, std::size_t order, double* v, double* u) {
  const Tag d;
  const std::size_t lanes = hn::Lanes(d);
  Vec x = hn::Load(d, u), y = hn::Mul(h0, x);
  for (std::size_t k = order; k >= 1; --k) {
    const Vec past = hn::Load(d, v - k * lanes);
    x = hn::NegMulAdd(hn::Load(d, a + (k - 1) * lanes), past, x);
    y = hn::MulAdd(hn::Load(d, b + (k - 1) * lanes), past, y);
  }
  hn::Store(x, d, v);
  hn::Store(y, d, u);
}

void across_channels(const double* a, const double* b, const double* h0_row, std::size_t order, std::size_t count,
                     double* v, double* u) {
  const Tag d;
  const std::size_t lanes = hn::Lanes(d);
  const Vec h0 = hn::Load(d, h0_row);
  const Vec a1 = hn::Load(d, a), a2 = hn::Load(d, a + lanes), a3 = hn::Load(d, a + 2 * lanes);
  const Vec b1 = hn::Load(d, b), b2 = hn::Load(d, b + lanes), b3 = hn::Load(d, b + 2 * lanes);
  std::size_t t = 0;
  for (; t + 4 <= count; t += 4, v += 4 * lanes, u += 4 * lanes) {
    Block s;
    s.v0 = hn::Load(d, u);
    s.v1 = hn::Load(d, u + lanes);
    s.v2 = hn::Load(d, u + 2 * lanes);
    s.v3 = hn::Load(d, u + 3 * lanes);
    s.y0 = hn::Mul(h0, s.v0);
    s.y1 = hn::Mul(h0, s.v1);
    s.y2 = hn::Mul(h0, s.v2);
    s.y3 = hn::Mul(h0, s.v3);
    // Taps order..4 see only the past; the window slides by one sample a tap.
    const double* past = v - order * lanes;
    Vec w0 = hn::Load(d, past), w1 = hn::Load(d, past + lanes), w2 = hn::Load(d, past + 2 * lanes);
    std::size_t k = order;
    for (; k % 4 != 3; --k, past += lanes) {
      const Vec w3 = hn::Load(d, past + 3 * lanes);
      s.tap(hn::Load(d, a + (k - 1) * lanes), hn::Load(d, b + (k - 1) * lanes), w0, w1, w2, w3);
      w0 = w1;
      w1 = w2;
      w2 = w3;
    }
    for (; k > 3; k -= 4, past += 4 * lanes) {
      const double* ak = a + (k - 1) * lanes;
      const double* bk = b + (k - 1) * lanes;
      const Vec w3 = hn::Load(d, past + 3 * lanes);
      s.tap(hn::Load(d, ak), hn::Load(d, bk), w0, w1, w2, w3);
      const Vec w4 = hn::Load(d, past + 4 * lanes);
      s.tap(hn::Load(d, ak - lanes), hn::Load(d, bk - lanes), w1, w2, w3, w4);
      const Vec w5 = hn::Load(d, past + 5 * lanes);
      s.tap(hn::Load(d, ak - 2 * lanes), hn::Load(d, bk - 2 * lanes), w2, w3, w4, w5);
      const Vec w6 = hn::Load(d, past + 6 * lanes);
      s.tap(hn::Load(d, ak - 3 * lanes), hn::Load(d, bk - 3 * lanes), w3, w4, w5, w6);
      w0 = w4;
      w1 = w5;
      w2 = w6;
    }
    // Taps 3, 2, 1 reach the samples of this block as they are finished; the newest comes last in each sum.
    const Vec v0 = hn::NegMulAdd(a1, w2, hn::NegMulAdd(a2, w1, hn::NegMulAdd(a3, w0, s.v0)));
    const Vec v1 = hn::NegMulAdd(a1, v0, hn::NegMulAdd(a2, w2, hn::NegMulAdd(a3, w1, s.v1)));
    const Vec v2 = hn::NegMulAdd(a1, v1, hn::NegMulAdd(a2, v0, hn::NegMulAdd(a3, w2, s.v2)));
    const Vec v3 = hn::NegMulAdd(a1, v2, hn::NegMulAdd(a2, v1, hn::NegMulAdd(a3, v0, s.v3)));
    hn::Store(v0, d, v);
    hn::Store(v1, d, v + lanes);
    hn::Store(v2, d, v + 2 * lanes);
    hn::Store(v3, d, v + 3 * lanes);
    hn::Store(hn::MulAdd(b1, w2, hn::MulAdd(b2, w1, hn::MulAdd(b3, w0, s.y0))), d, u);
    hn::Store(hn::MulAdd(b1, v0, hn::MulAdd(b2, w2, hn::MulAdd(b3, w1, s.y1))), d, u + lanes);
    hn::Store(hn::MulAdd(b1, v1, hn::MulAdd(b2, v0, hn::MulAdd(b3, w2, s.y2))), d, u + 2 * lanes);
    hn::Store(hn::MulAdd(b1, v2, hn::MulAdd(b2, v1, hn::MulAdd(b3, v0, s.y3))), d, u + 3 * lanes);
  }
  for (; t < count; ++t, v += lanes, u += lanes) one_sample(a, b, h0, order, v, u);
}

// sum_j x[j] column_j in two chains, so that additions do not wait for each other.
HWY_INLINE Vec product(const double* columns, const double* x, Vec start) {
  const Tag d;
  const std::size_t lanes = hn::Lanes(d);
  Vec even = start, odd = hn::Zero(d);
  std::size_t j = 0;
  for (; j + 2 <= lanes; j += 2) {
    even = hn::MulAdd(hn::Set(d, x[j]), hn::Load(d, columns + j * lanes), even);
    odd = hn::MulAdd(hn::Set(d, x[j + 1]), hn::Load(d, columns + (j + 1) * lanes), odd);
  }
  if (j < lanes) even = hn::MulAdd(hn::Set(d, x[j]), hn::Load(d, columns + j * lanes), even);
  return hn::Add(even, odd);
}

void across_time(const double* a, const double* b, double h0, const double* tables, std::size_t order,
                 std::size_t count, double* v, double* u) {
  const Tag d;
  const std::size_t lanes = hn::Lanes(d);
  const double *v_forced = tables, *v_last = tables + lanes * lanes;
  const double *y_forced = tables + 2 * lanes * lanes, *y_last = tables + 3 * lanes * lanes;
  // The newest block waits here: it acts through its tables, and its place among the older samples reads as zero. Only
  // the few operations from one block to the next depend on each other.
  HWY_ALIGN double last[HWY_MAX_BYTES / sizeof(double)], forced[HWY_MAX_BYTES / sizeof(double)];
  const std::size_t blocks = count / lanes;
  if (blocks > 0) {
    hn::Store(hn::LoadU(d, v - lanes), d, last);
    hn::StoreU(hn::Zero(d), d, v - lanes);
  }
  for (std::size_t block = 0; block < blocks; ++block, v += lanes, u += lanes) {
    const Vec x = hn::LoadU(d, u);
    Vec f0 = x, f1 = hn::Zero(d), y0 = hn::Mul(hn::Set(d, h0), x), y1 = hn::Zero(d);
    std::size_t k = lanes + 1;
    for (; k + 1 <= order; k += 2) {
      const Vec near = hn::LoadU(d, v - k), far = hn::LoadU(d, v - k - 1);
      f0 = hn::NegMulAdd(hn::Set(d, a[k - 1]), near, f0);
      y0 = hn::MulAdd(hn::Set(d, b[k - 1]), near, y0);
      f1 = hn::NegMulAdd(hn::Set(d, a[k]), far, f1);
      y1 = hn::MulAdd(hn::Set(d, b[k]), far, y1);
    }
    if (k <= order) {
      const Vec near = hn::LoadU(d, v - k);
      f0 = hn::NegMulAdd(hn::Set(d, a[k - 1]), near, f0);
      y0 = hn::MulAdd(hn::Set(d, b[k - 1]), near, y0);
    }
    hn::Store(hn::Add(f0, f1), d, forced);
    const Vec free_of_last = product(v_forced, forced, hn::Zero(d));
    const Vec y = product(y_last, last, product(y_forced, forced, hn::Add(y0, y1)));
    const Vec next = product(v_last, last, free_of_last);
    hn::StoreU(hn::Load(d, last), d, v - lanes);
    hn::StoreU(hn::Zero(d), d, v);
    hn::Store(next, d, last);
    hn::StoreU(y, d, u);
  }
  if (blocks > 0) hn::StoreU(hn::Load(d, last), d, v - lanes);
  for (std::size_t t = blocks * lanes; t < count; ++t, ++v, ++u) {
    double x = *u, y = h0 * x;
    for (std::size_t k = order; k >= 1; --k) {
      x -= a[k - 1] * *(v - k);
      y += b[k - 1] * *(v - k);
    }
    *v = x;
    *u = y;
  }
}

HWY_INLINE Vec load_vector(const double* from) { return hn::LoadU(Tag(), from); }
HWY_INLINE Vec load_vector(const float* from) {
  return hn::PromoteTo(Tag(), hn::LoadU(hn::Rebind<float, Tag>(), from));
}
HWY_INLINE void store_vector(Vec value, double* to) { hn::StoreU(value, Tag(), to); }
HWY_INLINE void store_vector(Vec value, float* to) {
  const hn::Rebind<float, Tag> d;
  hn::StoreU(hn::DemoteTo(d, value), d, to);
}

template <class T>
void load(LaneRows<const T> from, std::size_t count, double* rows) {
  const Tag d;
  const std::size_t lanes = hn::Lanes(d);
  if (from.channel_stride == 1 && from.channels == lanes) {
    for (std::size_t t = 0; t < count; ++t) hn::Store(load_vector(from.at(t, 0)), d, rows + t * lanes);
    return;
  }
  for (std::size_t l = 0; l < lanes; ++l)
    for (std::size_t t = 0; t < count; ++t)
      rows[t * lanes + l] = l < from.channels ? static_cast<double>(*from.at(t, l)) : 0.0;
}

template <class T>
void store(const double* rows, std::size_t count, LaneRows<T> to) {
  const Tag d;
  const std::size_t lanes = hn::Lanes(d);
  if (to.channel_stride == 1 && to.channels == lanes) {
    for (std::size_t t = 0; t < count; ++t) store_vector(hn::Load(d, rows + t * lanes), to.at(t, 0));
    return;
  }
  for (std::size_t l = 0; l < to.channels; ++l)
    for (std::size_t t = 0; t < count; ++t) *to.at(t, l) = static_cast<T>(rows[t * lanes + l]);
}

const RecurrenceLanes& table() {
  static const RecurrenceLanes functions{hn::Lanes(Tag()), across_channels, across_time,  load<float>,
                                         load<double>,     store<float>,    store<double>};
  return functions;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rtf::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rtf::cpu {

const RecurrenceLanes& recurrence_lanes(InstructionSet set) { return RTF_SIMD_TABLE(set, table); }

std::vector<double> block_tables(std::span<const double> a, std::span<const double> b, std::size_t lanes) {
  const auto tap = [](std::span<const double> c, std::size_t k) { return k >= 1 && k <= c.size() ? c[k - 1] : 0.0; };
  const std::vector<double> g = inverse_series_recurrence(a, lanes);
  const std::size_t size = lanes * lanes;
  std::vector<double> tables(4 * size, 0.0);
  double *v_forced = tables.data(), *v_last = v_forced + size, *y_forced = v_last + size, *y_last = y_forced + size;
  for (std::size_t j = 0; j < lanes; ++j)
    for (std::size_t i = 0; i < lanes; ++i) {
      const std::size_t at = j * lanes + i;
      if (i >= j) v_forced[at] = g[i - j];
      for (std::size_t p = 0; p <= i; ++p) v_last[at] -= g[i - p] * tap(a, lanes + p - j);
      y_last[at] = tap(b, lanes + i - j);
      for (std::size_t p = 0; p < i; ++p) {
        y_last[at] += tap(b, i - p) * v_last[j * lanes + p];
        if (p >= j) y_forced[at] += tap(b, i - p) * g[p - j];
      }
    }
  return tables;
}

}  // namespace rtf::cpu
#endif
