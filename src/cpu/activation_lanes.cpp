#include "cpu/activation_lanes.h"

#include <algorithm>
#include <cmath>

#include "cpu/simd.h"
#include "rtf/random.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/activation_lanes.cpp"
#include "hwy/foreach_target.h"
// foreach_target comes first.
#include "cpu/map_lanes.h"
#include "hwy/contrib/math/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rtf::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Phi and its density phi at x.
template <class T>
struct Normal {
  Vec<T> distribution, density;
};

constexpr double root_two_pi_inverse = 0.39894228040143267794;

// Phi(-|x|) = Q(t) e^{-x^2/2}, t = 1 / (1 + 0.26 |x|), Q a polynomial fitted to a relative error of 2.5e-8 on 0..14
// (by reweighted least squares): the lower tail keeps its digits, which 1 + erf would cancel.
HWY_INLINE Normal<float> normal(Vec<float> x) {
  constexpr float q[] = {0.030505097272877618f, -0.1528298558069027f, 0.25149342517185624f,
                         -0.15095141958246278f, 0.1609495647249043f,  0.05102694692764177f,
                         0.10303044407662203f,  0.10301672340365658f, 0.10375906145084002f};
  const Tag<float> d;
  const auto one = hn::Set(d, 1.0f);
  const auto t = hn::Div(one, hn::MulAdd(hn::Abs(x), hn::Set(d, 0.26f), one));
  const auto exponential = hn::Exp(d, hn::Mul(hn::Mul(x, x), hn::Set(d, -0.5f)));
  auto sum = hn::Set(d, q[0]);
  for (std::size_t k = 1; k < std::size(q); ++k) sum = hn::MulAdd(sum, t, hn::Set(d, q[k]));
  const auto tail = hn::Mul(hn::Mul(sum, t), exponential);
  return {hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(one, tail)),
          hn::Mul(exponential, hn::Set(d, static_cast<float>(root_two_pi_inverse)))};
}

// Double is for reference: the library's own functions.
HWY_INLINE Normal<double> normal(Vec<double> x) {
  const Tag<double> d;
  HWY_ALIGN double at[hn::MaxLanes(Tag<double>())], distribution[hn::MaxLanes(Tag<double>())],
      density[hn::MaxLanes(Tag<double>())];
  hn::Store(x, d, at);
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) {
    distribution[i] = 0.5 * std::erfc(-at[i] * 0.70710678118654752440);
    density[i] = root_two_pi_inverse * std::exp(-0.5 * at[i] * at[i]);
  }
  return {hn::Load(d, distribution), hn::Load(d, density)};
}

template <class T>
HWY_INLINE Vec<T> sigmoid(Vec<T> q) {
  const Tag<T> d;
  const auto one = hn::Set(d, T(1)), small = hn::Exp(d, hn::Neg(hn::Abs(q)));  // never overflows
  return hn::Div(hn::IfThenElse(hn::Lt(q, hn::Zero(d)), small, one), hn::Add(one, small));
}

#if HWY_TARGET == HWY_SCALAR
void draw(std::uint64_t seed, std::uint32_t step, std::uint32_t layer, std::uint64_t first, std::size_t blocks,
          std::uint32_t* words) {
  for (std::uint64_t i = first; i < first + blocks; ++i, words += 4) {
    const auto block = philox({static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i >> 32), step, layer},
                              {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
    std::copy(block.begin(), block.end(), words);
  }
}
#else
// Both halves of 32 x 32 bit products.
struct Product {
  Vec<std::uint32_t> low, high;
};
HWY_INLINE Product product(Vec<std::uint32_t> x, Vec<std::uint32_t> y) {
  const Tag<std::uint32_t> d;
  const hn::Repartition<std::uint64_t, Tag<std::uint32_t>> wide;
  const auto odd = [&](auto v) { return hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, v))); };
  const auto even_product = hn::MulEven(x, y), odd_product = hn::MulEven(odd(x), odd(y));
  return {hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(odd_product)), hn::BitCast(d, even_product)),
          hn::OddEven(hn::BitCast(d, odd_product), hn::BitCast(d, hn::ShiftRight<32>(even_product)))};
}

// philox() of rtf/random.h, one block a lane.
void draw(std::uint64_t seed, std::uint32_t step, std::uint32_t layer, std::uint64_t first, std::size_t blocks,
          std::uint32_t* words) {
  const Tag<std::uint32_t> d;
  const std::size_t lanes = hn::Lanes(d);
  HWY_ALIGN std::uint32_t low[hn::MaxLanes(Tag<std::uint32_t>())], high[hn::MaxLanes(Tag<std::uint32_t>())];
  HWY_ALIGN std::uint32_t local[4 * hn::MaxLanes(Tag<std::uint32_t>())];
  for (std::size_t block = 0; block < blocks; block += lanes) {
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      low[lane] = static_cast<std::uint32_t>(first + block + lane);
      high[lane] = static_cast<std::uint32_t>((first + block + lane) >> 32);
    }
    auto c0 = hn::Load(d, low), c1 = hn::Load(d, high), c2 = hn::Set(d, step), c3 = hn::Set(d, layer);
    std::uint32_t k0 = static_cast<std::uint32_t>(seed), k1 = static_cast<std::uint32_t>(seed >> 32);
    for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9, k1 += 0xBB67AE85) {
      const Product p0 = product(c0, hn::Set(d, 0xD2511F53)), p1 = product(c2, hn::Set(d, 0xCD9E8D57));
      c0 = hn::Xor(hn::Xor(p1.high, c1), hn::Set(d, k0));
      c1 = p1.low;
      c2 = hn::Xor(hn::Xor(p0.high, c3), hn::Set(d, k1));
      c3 = p0.low;
    }
    const bool whole = block + lanes <= blocks;
    hn::StoreInterleaved4(c0, c1, c2, c3, d, whole ? words + 4 * block : local);
    if (!whole) std::copy_n(local, 4 * (blocks - block), words + 4 * block);
  }
}
#endif

template <class T>
void choose(const std::uint16_t* halves, std::uint32_t threshold, T kept, std::size_t count, T* factors) {
  std::size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  if constexpr (sizeof(T) == sizeof(std::uint32_t)) {
    const Tag<T> d;
    const Tag<std::uint32_t> words;
    const hn::Rebind<std::uint16_t, Tag<std::uint32_t>> narrow;
    const auto limit = hn::Set(words, threshold);
    for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
      const auto dropped = hn::Lt(hn::PromoteTo(words, hn::LoadU(narrow, halves + i)), limit);
      hn::StoreU(hn::IfThenZeroElse(hn::RebindMask(d, dropped), hn::Set(d, kept)), d, factors + i);
    }
  }
#endif
  for (; i < count; ++i) factors[i] = halves[i] < threshold ? T(0) : kept;
}

template <class T>
void multiply(const T* x, const T* factor, std::size_t count, T* y) {
  map<T, 2, 1>(count, {Input<T>{x}, {factor, 1}}, {y},
               [](const auto& in) { return std::array<Vec<T>, 1>{hn::Mul(in[0], in[1])}; });
}

template <class T>
void gelu(const T* x, const T* factor, std::size_t count, T* y) {
  map<T, 2, 1>(count, {Input<T>{x}, {factor, 1}}, {y}, [](const auto& in) {
    return std::array<Vec<T>, 1>{hn::Mul(hn::Mul(in[0], in[1]), normal(in[0]).distribution)};
  });
}

template <class T>
void gelu_gradient(const T* x, const T* factor, const T* y_gradient, std::size_t count, T* x_gradient) {
  map<T, 3, 1>(count, {Input<T>{x}, {factor, 1}, {y_gradient}}, {x_gradient}, [](const auto& in) {
    const Normal<T> at = normal(in[0]);
    return std::array<Vec<T>, 1>{
        hn::Mul(hn::Mul(in[1], in[2]), hn::MulAdd(in[0], at.density, at.distribution))};
  });
}

template <class T>
void glu(const T* p, const T* q, const T* factor, const T* residual, std::size_t count, T* y) {
  map<T, 4, 1>(count, {Input<T>{p}, {q}, {factor, 1}, {residual}}, {y}, [](const auto& in) {
    return std::array<Vec<T>, 1>{hn::MulAdd(hn::Mul(in[0], sigmoid<T>(in[1])), in[2], in[3])};
  });
}

template <class T>
void glu_gradient(const T* p, const T* q, const T* factor, const T* y_gradient, std::size_t count, T* p_gradient,
                  T* q_gradient) {
  map<T, 4, 2>(count, {Input<T>{p}, {q}, {factor, 1}, {y_gradient}}, {p_gradient, q_gradient}, [](const auto& in) {
    const auto gate = sigmoid<T>(in[1]);
    const auto to_p = hn::Mul(hn::Mul(in[2], in[3]), gate);
    return std::array<Vec<T>, 2>{to_p, hn::Mul(hn::Mul(to_p, in[0]), hn::Sub(hn::Set(Tag<T>(), T(1)), gate))};
  });
}

template <class T>
const ActivationLanes<T>& table() {
  static const ActivationLanes<T> functions{draw, choose<T>, multiply<T>, gelu<T>, gelu_gradient<T>, glu<T>, glu_gradient<T>};
  return functions;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rtf::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rtf::cpu {

template <class T>
const ActivationLanes<T>& activation_lanes(InstructionSet set) {
  return RTF_SIMD_TABLE(set, table<T>);
}
template const ActivationLanes<float>& activation_lanes(InstructionSet);
template const ActivationLanes<double>& activation_lanes(InstructionSet);

}  // namespace rtf::cpu
#endif
