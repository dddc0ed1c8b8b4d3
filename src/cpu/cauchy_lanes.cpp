#include "cpu/cauchy_lanes.h"

#include "cpu/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/cauchy_lanes.cpp"
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

void reciprocals(double a, double b, const double* s, std::size_t count, double* re, double* im) {
  const Tag d;
  const Vec imaginary = hn::Set(d, b), square = hn::Set(d, a * a), twice = hn::Set(d, 2 * a), one = hn::Set(d, 1.0);
  for (std::size_t j = 0; j < count; j += hn::Lanes(d)) {
    const Vec at = hn::LoadU(d, s + j);
    // Near the pole the difference keeps the digits that |l|^2 - s^2 would lose.
    const Vec p = hn::MulAdd(hn::Sub(imaginary, at), hn::Add(imaginary, at), square), q = hn::Mul(twice, at);
    const Vec inverse = hn::Div(one, hn::MulAdd(p, p, hn::Mul(q, q)));
    hn::StoreU(hn::Mul(p, inverse), d, re + j);
    hn::StoreU(hn::Mul(q, inverse), d, im + j);  // q has the other sign already
  }
}

void add_quotients(double alpha, double beta, const double* s, const double* r_re, const double* r_im,
                   std::size_t count, double* y_re, double* y_im) {
  const Tag d;
  const Vec va = hn::Set(d, alpha), vb = hn::Set(d, beta);
  for (std::size_t j = 0; j < count; j += hn::Lanes(d)) {
    const Vec re = hn::LoadU(d, r_re + j), im = hn::LoadU(d, r_im + j), slope = hn::Mul(va, hn::LoadU(d, s + j));
    const Vec minus = hn::NegMulAdd(slope, im, hn::NegMulAdd(vb, re, hn::LoadU(d, y_re + j)));
    hn::StoreU(minus, d, y_re + j);
    hn::StoreU(hn::MulAdd(slope, re, hn::NegMulAdd(vb, im, hn::LoadU(d, y_im + j))), d, y_im + j);
  }
}

void gradients(double alpha, double beta, const double* s, const double* r_re, const double* r_im, const double* g_re,
               const double* g_im, std::size_t count, double* sums) {
  const Tag d;
  const Vec va = hn::Set(d, alpha), vb = hn::Set(d, beta);
  Vec to_alpha = hn::Zero(d), to_beta = hn::Zero(d), to_p = hn::Zero(d), to_q = hn::Zero(d);
  for (std::size_t j = 0; j < count; j += hn::Lanes(d)) {
    const Vec at = hn::LoadU(d, s + j), re = hn::LoadU(d, r_re + j), im = hn::LoadU(d, r_im + j);
    const Vec gr = hn::LoadU(d, g_re + j), gi = hn::LoadU(d, g_im + j);
    // conj(g) r
    const Vec x = hn::MulAdd(gi, im, hn::Mul(gr, re)), y = hn::NegMulAdd(gi, re, hn::Mul(gr, im));
    to_alpha = hn::NegMulAdd(at, y, to_alpha);
    to_beta = hn::Sub(to_beta, x);
    // conj(g) r times (i alpha s - beta) r: minus its real part goes to p, its imaginary part to q.
    const Vec slope = hn::Mul(va, at);
    const Vec nr = hn::NegMulAdd(slope, im, hn::Neg(hn::Mul(vb, re))), ni = hn::NegMulAdd(vb, im, hn::Mul(slope, re));
    to_p = hn::Add(to_p, hn::NegMulAdd(x, nr, hn::Mul(y, ni)));
    to_q = hn::MulAdd(at, hn::MulAdd(x, ni, hn::Mul(y, nr)), to_q);
  }
  sums[0] += hn::GetLane(hn::SumOfLanes(d, to_alpha));
  sums[1] += hn::GetLane(hn::SumOfLanes(d, to_beta));
  sums[2] += hn::GetLane(hn::SumOfLanes(d, to_p));
  sums[3] += hn::GetLane(hn::SumOfLanes(d, to_q));
}

const CauchyLanes& table() {
  static const CauchyLanes functions{hn::Lanes(Tag()), reciprocals, add_quotients, gradients};
  return functions;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rtf::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rtf::cpu {

const CauchyLanes& cauchy_lanes(InstructionSet set) { return RTF_SIMD_TABLE(set, table); }

}  // namespace rtf::cpu
#endif
