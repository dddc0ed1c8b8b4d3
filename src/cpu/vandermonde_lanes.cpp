#include "cpu/vandermonde_lanes.h"

#include "cpu/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/vandermonde_lanes.cpp"
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

// Chains of powers side by side: one alone would wait for its own products.
constexpr std::size_t chains = 4;
constexpr std::size_t most_lanes = HWY_MAX_BYTES / sizeof(double);

struct Complex {
  Vec re, im;
};

HWY_INLINE Complex multiply(Complex x, Complex y) {
  return {hn::NegMulAdd(x.im, y.im, hn::Mul(x.re, y.re)), hn::MulAdd(x.re, y.im, hn::Mul(x.im, y.re))};
}

// c z^t for the first `chains` vectors of lags, and z to the power of their number.
struct Powers {
  HWY_ALIGN double re[chains * most_lanes], im[chains * most_lanes];
  double step_re, step_im;

  Powers(double c_re, double c_im, double z_re, double z_im) {
    const std::size_t count = chains * hn::Lanes(Tag());
    double re_now = c_re, im_now = c_im, power_re = 1, power_im = 0;
    const auto next = [&](double& x, double& y) {
      const double old = x;
      x = old * z_re - y * z_im;
      y = old * z_im + y * z_re;
    };
    for (std::size_t i = 0; i < count; ++i) {
      re[i] = re_now;
      im[i] = im_now;
      next(re_now, im_now);
      next(power_re, power_im);
    }
    step_re = power_re;
    step_im = power_im;
  }
  Complex at(std::size_t chain) const {
    const Tag d;
    return {hn::Load(d, re + chain * hn::Lanes(d)), hn::Load(d, im + chain * hn::Lanes(d))};
  }
  Complex step() const { return {hn::Set(Tag(), step_re), hn::Set(Tag(), step_im)}; }
};

void add_powers(double c_re, double c_im, double z_re, double z_im, std::size_t count, double* k) {
  const Tag d;
  const std::size_t lanes = hn::Lanes(d);
  const Powers first(c_re, c_im, z_re, z_im);
  const Complex step = first.step();
  Complex p0 = first.at(0), p1 = first.at(1), p2 = first.at(2), p3 = first.at(3);
  for (std::size_t t = 0; t < count; t += chains * lanes, k += chains * lanes) {
    hn::StoreU(hn::Add(hn::LoadU(d, k), p0.re), d, k);
    hn::StoreU(hn::Add(hn::LoadU(d, k + lanes), p1.re), d, k + lanes);
    hn::StoreU(hn::Add(hn::LoadU(d, k + 2 * lanes), p2.re), d, k + 2 * lanes);
    hn::StoreU(hn::Add(hn::LoadU(d, k + 3 * lanes), p3.re), d, k + 3 * lanes);
    p0 = multiply(p0, step);
    p1 = multiply(p1, step);
    p2 = multiply(p2, step);
    p3 = multiply(p3, step);
  }
}

void moments(const double* g, double z_re, double z_im, std::size_t count, double* sums) {
  const Tag d;
  const std::size_t lanes = hn::Lanes(d);
  const Powers first(1, 0, z_re, z_im);
  const Complex step = first.step();
  Vec sum_re = hn::Zero(d), sum_im = hn::Zero(d), first_re = hn::Zero(d), first_im = hn::Zero(d);
  Complex p0 = first.at(0), p1 = first.at(1), p2 = first.at(2), p3 = first.at(3);
  Vec lag = hn::Iota(d, 0);
  const Vec next = hn::Set(d, static_cast<double>(lanes));
  const auto take = [&](Complex& p) {
    const Vec x = hn::LoadU(d, g), weighted = hn::Mul(x, lag);
    sum_re = hn::MulAdd(x, p.re, sum_re);
    sum_im = hn::MulAdd(x, p.im, sum_im);
    first_re = hn::MulAdd(weighted, p.re, first_re);
    first_im = hn::MulAdd(weighted, p.im, first_im);
    p = multiply(p, step);
    lag = hn::Add(lag, next);
    g += lanes;
  };
  for (std::size_t t = 0; t < count; t += chains * lanes) {
    take(p0);
    take(p1);
    take(p2);
    take(p3);
  }
  sums[0] = hn::GetLane(hn::SumOfLanes(d, sum_re));
  sums[1] = hn::GetLane(hn::SumOfLanes(d, sum_im));
  sums[2] = hn::GetLane(hn::SumOfLanes(d, first_re));
  sums[3] = hn::GetLane(hn::SumOfLanes(d, first_im));
}

const VandermondeLanes& table() {
  static const VandermondeLanes functions{chains * hn::Lanes(Tag()), add_powers, moments};
  return functions;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rtf::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rtf::cpu {

const VandermondeLanes& vandermonde_lanes(InstructionSet set) { return RTF_SIMD_TABLE(set, table); }

}  // namespace rtf::cpu
#endif
