#include "cpu/recurrence_vjp_lanes.h"

#include "cpu/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/recurrence_vjp_lanes.cpp"
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

// Four neighbouring sums, each against a row of its own.
struct Four {
  Vec s0, s1, s2, s3;

  HWY_INLINE void add(Vec c, Vec w0, Vec w1, Vec w2, Vec w3) {
    s0 = hn::MulAdd(c, w0, s0);
    s1 = hn::MulAdd(c, w1, s1);
    s2 = hn::MulAdd(c, w2, s2);
    s3 = hn::MulAdd(c, w3, s3);
  }
  HWY_INLINE void subtract(Vec c, Vec w0, Vec w1, Vec w2, Vec w3) {
    s0 = hn::NegMulAdd(c, w0, s0);
    s1 = hn::NegMulAdd(c, w1, s1);
    s2 = hn::NegMulAdd(c, w2, s2);
    s3 = hn::NegMulAdd(c, w3, s3);
  }
};

HWY_INLINE Four load_four(const double* rows) {
  const Tag d;
  const std::size_t lanes = hn::Lanes(d);
  return {hn::Load(d, rows), hn::Load(d, rows + lanes), hn::Load(d, rows + 2 * lanes), hn::Load(d, rows + 3 * lanes)};
}

// A window of three rows that slides over the past, one a tap: past the last tap it holds t-3, t-2 and t-1.
struct Window {
  const double* at;
  Vec w0, w1, w2;

  HWY_INLINE Window(const double* rows, std::size_t order) {
    const Tag d;
    const std::size_t lanes = hn::Lanes(d);
    at = rows - order * lanes;
    w0 = hn::Load(d, at);
    w1 = hn::Load(d, at + lanes);
    w2 = hn::Load(d, at + 2 * lanes);
  }
  HWY_INLINE Vec next() const { return hn::Load(Tag(), at + 3 * hn::Lanes(Tag())); }
  HWY_INLINE void slide(Vec w3) {
    w0 = w1;
    w1 = w2;
    w2 = w3;
    at += hn::Lanes(Tag());
  }
};

template <bool driven>
HWY_INLINE void solve_rows(const double* a, const double* b, std::size_t order, std::size_t count, const double* x,
                           double* v) {
  const Tag d;
  const std::size_t lanes = hn::Lanes(d);
  const Vec a1 = hn::Load(d, a), a2 = hn::Load(d, a + lanes), a3 = hn::Load(d, a + 2 * lanes);
  std::size_t t = 0;
  for (; t + 4 <= count; t += 4, v += 4 * lanes) {
    Four own = load_four(v), fed{hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
    Window past(v, order);
    if constexpr (driven) {
      Window drive(x, order);
      for (std::size_t k = order; k > 3; --k) {
        const Vec v3 = past.next(), x3 = drive.next();
        own.subtract(hn::Load(d, a + (k - 1) * lanes), past.w0, past.w1, past.w2, v3);
        fed.add(hn::Load(d, b + (k - 1) * lanes), drive.w0, drive.w1, drive.w2, x3);
        past.slide(v3);
        drive.slide(x3);
      }
      const Vec x0 = hn::Load(d, x), x1 = hn::Load(d, x + lanes), x2 = hn::Load(d, x + 2 * lanes);
      fed.add(hn::Load(d, b + 2 * lanes), drive.w0, drive.w1, drive.w2, x0);
      fed.add(hn::Load(d, b + lanes), drive.w1, drive.w2, x0, x1);
      fed.add(hn::Load(d, b), drive.w2, x0, x1, x2);
      x += 4 * lanes;
      own = {hn::Add(own.s0, fed.s0), hn::Add(own.s1, fed.s1), hn::Add(own.s2, fed.s2), hn::Add(own.s3, fed.s3)};
    } else {
      // Taps two by two into sums of their own: more of them are under way at a time.
      std::size_t k = order;
      for (; k > 4; k -= 2) {
        const Vec v3 = past.next();
        own.subtract(hn::Load(d, a + (k - 1) * lanes), past.w0, past.w1, past.w2, v3);
        past.slide(v3);
        const Vec v4 = past.next();
        fed.subtract(hn::Load(d, a + (k - 2) * lanes), past.w0, past.w1, past.w2, v4);
        past.slide(v4);
      }
      if (k > 3) {
        const Vec v3 = past.next();
        own.subtract(hn::Load(d, a + (k - 1) * lanes), past.w0, past.w1, past.w2, v3);
        past.slide(v3);
      }
      own = {hn::Add(own.s0, fed.s0), hn::Add(own.s1, fed.s1), hn::Add(own.s2, fed.s2), hn::Add(own.s3, fed.s3)};
    }
    // Taps 3, 2, 1 reach the samples of this block as they are finished; the newest comes last in each sum.
    const Vec w0 = past.w0, w1 = past.w1, w2 = past.w2;
    const Vec v0 = hn::NegMulAdd(a1, w2, hn::NegMulAdd(a2, w1, hn::NegMulAdd(a3, w0, own.s0)));
    const Vec v1 = hn::NegMulAdd(a1, v0, hn::NegMulAdd(a2, w2, hn::NegMulAdd(a3, w1, own.s1)));
    const Vec v2 = hn::NegMulAdd(a1, v1, hn::NegMulAdd(a2, v0, hn::NegMulAdd(a3, w2, own.s2)));
    const Vec v3 = hn::NegMulAdd(a1, v2, hn::NegMulAdd(a2, v1, hn::NegMulAdd(a3, v0, own.s3)));
    hn::Store(v0, d, v);
    hn::Store(v1, d, v + lanes);
    hn::Store(v2, d, v + 2 * lanes);
    hn::Store(v3, d, v + 3 * lanes);
  }
  for (; t < count; ++t, v += lanes) {
    Vec sum = hn::Load(d, v);
    for (std::size_t k = order; k >= 1; --k) {
      if constexpr (driven) sum = hn::MulAdd(hn::Load(d, b + (k - 1) * lanes), hn::Load(d, x - k * lanes), sum);
      sum = hn::NegMulAdd(hn::Load(d, a + (k - 1) * lanes), hn::Load(d, v - k * lanes), sum);
    }
    hn::Store(sum, d, v);
    if constexpr (driven) x += lanes;
  }
}

void solve(const double* a, std::size_t order, std::size_t count, double* v) {
  solve_rows<false>(a, nullptr, order, count, nullptr, v);
}

void solve_driven(const double* a, const double* b, std::size_t order, std::size_t count, const double* x, double* v) {
  solve_rows<true>(a, b, order, count, x, v);
}

HWY_INLINE void add_to(Vec value, double* row) { hn::Store(hn::Add(hn::Load(Tag(), row), value), Tag(), row); }

void correlate(std::size_t order, std::size_t count, const double* v, const double* x, const double* g, double* a_sums,
               double* b_sums) {
  const Tag d;
  const std::size_t lanes = hn::Lanes(d);
  const double *last_x = x + (count - 1) * lanes, *last_g = g + (count - 1) * lanes;
  std::size_t k = 1;
  for (; k + 3 <= order; k += 4) {
    Four by_a{hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)}, by_b = by_a;
    const double* at = v - (k + 3) * lanes;
    Vec w3 = hn::Load(d, at), w2 = hn::Load(d, at + lanes), w1 = hn::Load(d, at + 2 * lanes);
    at += 3 * lanes;
    for (std::size_t t = 0; t < count; ++t) {
      const Vec w0 = hn::Load(d, at + t * lanes);
      by_a.subtract(hn::Load(d, last_g - t * lanes), w0, w1, w2, w3);
      by_b.add(hn::Load(d, last_x - t * lanes), w0, w1, w2, w3);
      w3 = w2;
      w2 = w1;
      w1 = w0;
    }
    double *to_a = a_sums + (k - 1) * lanes, *to_b = b_sums + (k - 1) * lanes;
    add_to(by_a.s0, to_a);
    add_to(by_a.s1, to_a + lanes);
    add_to(by_a.s2, to_a + 2 * lanes);
    add_to(by_a.s3, to_a + 3 * lanes);
    add_to(by_b.s0, to_b);
    add_to(by_b.s1, to_b + lanes);
    add_to(by_b.s2, to_b + 2 * lanes);
    add_to(by_b.s3, to_b + 3 * lanes);
  }
  for (; k <= order; ++k) {
    Vec by_a = hn::Zero(d), by_b = hn::Zero(d);
    for (std::size_t t = 0; t < count; ++t) {
      const Vec w = hn::Load(d, v - k * lanes + t * lanes);
      by_a = hn::NegMulAdd(hn::Load(d, last_g - t * lanes), w, by_a);
      by_b = hn::MulAdd(hn::Load(d, last_x - t * lanes), w, by_b);
    }
    add_to(by_a, a_sums + (k - 1) * lanes);
    add_to(by_b, b_sums + (k - 1) * lanes);
  }
}

void input_gradient(const double* h0, std::size_t count, const double* x, const double* g, double* u, double* h0_sum) {
  const Tag d;
  const std::size_t lanes = hn::Lanes(d);
  const Vec gain = hn::Load(d, h0);
  Vec sum = hn::Zero(d);
  for (std::size_t t = 0; t < count * lanes; t += lanes) {
    const Vec dy = hn::Load(d, x + t);
    sum = hn::MulAdd(dy, hn::Load(d, u + t), sum);
    hn::Store(hn::MulAdd(gain, dy, hn::Load(d, g + t)), d, u + t);
  }
  add_to(sum, h0_sum);
}

void state_gradient(const double* a, const double* b, std::size_t order, const double* x, const double* g,
                    double* state) {
  const Tag d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t j = 1; j <= order; ++j) {
    Vec sum = hn::Load(d, state + (j - 1) * lanes);
    for (std::size_t k = j; k <= order; ++k) {
      const std::size_t back = (k - j + 1) * lanes;
      sum = hn::MulAdd(hn::Load(d, b + (k - 1) * lanes), hn::Load(d, x - back), sum);
      sum = hn::NegMulAdd(hn::Load(d, a + (k - 1) * lanes), hn::Load(d, g - back), sum);
    }
    hn::Store(sum, d, state + (j - 1) * lanes);
  }
}

HWY_INLINE void add_sum_to(Vec values, double* to) { *to += hn::GetLane(hn::SumOfLanes(Tag(), values)); }

void correlate_in_time(std::size_t order, std::size_t count, const double* v, const double* x, const double* g,
                       double* a_sums, double* b_sums) {
  const Tag d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t k = 1;
  for (; k + 3 <= order; k += 4) {
    Four by_a{hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)}, by_b = by_a;
    for (std::size_t t = 0; t < count; t += lanes) {
      const double* at = v + t - k;
      const Vec w0 = hn::LoadU(d, at), w1 = hn::LoadU(d, at - 1), w2 = hn::LoadU(d, at - 2), w3 = hn::LoadU(d, at - 3);
      by_a.subtract(hn::LoadU(d, g + t), w0, w1, w2, w3);
      by_b.add(hn::LoadU(d, x + t), w0, w1, w2, w3);
    }
    const Vec a_parts[] = {by_a.s0, by_a.s1, by_a.s2, by_a.s3}, b_parts[] = {by_b.s0, by_b.s1, by_b.s2, by_b.s3};
    for (std::size_t i = 0; i < 4; ++i) {
      add_sum_to(a_parts[i], a_sums + k - 1 + i);
      add_sum_to(b_parts[i], b_sums + k - 1 + i);
    }
  }
  for (; k <= order; ++k) {
    Vec by_a = hn::Zero(d), by_b = hn::Zero(d);
    for (std::size_t t = 0; t < count; t += lanes) {
      const Vec w = hn::LoadU(d, v + t - k);
      by_a = hn::NegMulAdd(hn::LoadU(d, g + t), w, by_a);
      by_b = hn::MulAdd(hn::LoadU(d, x + t), w, by_b);
    }
    add_sum_to(by_a, a_sums + k - 1);
    add_sum_to(by_b, b_sums + k - 1);
  }
}

const RecurrenceVjpLanes& table() {
  static const RecurrenceVjpLanes functions{hn::Lanes(Tag()), solve,          solve_driven,     correlate,
                                            input_gradient,   state_gradient, correlate_in_time};
  return functions;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rtf::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rtf::cpu {
const RecurrenceVjpLanes& recurrence_vjp_lanes(InstructionSet set) { return RTF_SIMD_TABLE(set, table); }
}  // namespace rtf::cpu
#endif
