#include "core/fft.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <vector>

#include "core/carver.h"
#include "random_filter.h"

namespace {

using rtf::FftKind;
using rtf::FftLanes;
using Complex = std::complex<long double>;

Complex root(std::size_t index, std::size_t length) {
  return std::polar(
      1.0L, -2 * std::acos(-1.0L) * static_cast<long double>(index % length) / static_cast<long double>(length));
}

std::vector<Complex> direct(const std::vector<Complex>& x) {
  std::vector<Complex> spectrum(x.size());
  for (std::size_t k = 0; k < x.size(); ++k)
    for (std::size_t t = 0; t < x.size(); ++t) spectrum[k] += x[t] * root(k * t, x.size());
  return spectrum;
}

// Rounding of a transform grows with log2 of its length, relative to the norm of the data.
template <class T>
double bound(std::size_t length) {
  return 8 * std::numeric_limits<T>::epsilon() * (1 + std::log2(static_cast<double>(length))) *
         static_cast<double>(length);
}

template <class T>
void check(FftKind kind, FftLanes lanes, std::size_t length, rtf::InstructionSet set) {
  SCOPED_TRACE(testing::Message() << rtf::name(set) << ", length " << length);
  const auto fft = rtf::get_fft<T>(kind, lanes, length, set);
  const std::size_t parts = kind == FftKind::complex ? 2 : 1;
  ASSERT_EQ(fft->elements, parts * length * fft->lanes);
  rtf::AlignedVector<T> space(rtf::FftRow<T>::elements(*fft) + 1);
  rtf::FftRow<T> z(*fft, space.data());
  rtf::testing::RandomFilters random(length);
  std::vector<std::vector<Complex>> x(fft->lanes, std::vector<Complex>(length));
  for (std::size_t l = 0; l < fft->lanes; ++l)
    for (std::size_t t = 0; t < length; ++t) {
      const T re = static_cast<T>(random.normal()), im = static_cast<T>(random.normal());
      x[l][t] = parts == 2 ? Complex(re, im) : Complex(re, 0);
      z.data[parts * t * fft->lanes + l] = re;
      if (parts == 2) z.data[(2 * t + 1) * fft->lanes + l] = im;
    }
  z.forward();
  for (std::size_t l = 0; l < fft->lanes; ++l) {
    const auto expected = direct(x[l]);
    const auto at = [&](std::size_t i) { return static_cast<long double>(z.data[i * fft->lanes + l]); };
    for (std::size_t k = 0; k < (parts == 2 ? length : length / 2 + 1); ++k) {
      Complex got = parts == 2 ? Complex(at(2 * k), at(2 * k + 1)) : Complex(k == 0 ? at(0) : at(2 * k - 1), 0);
      if (parts == 1 && k > 0 && 2 * k < length) got.imag(at(2 * k));
      EXPECT_LE(static_cast<double>(std::abs(got - expected[k])), bound<T>(length));
    }
  }
  z.backward();
  for (std::size_t l = 0; l < fft->lanes; ++l)
    for (std::size_t t = 0; t < length; ++t)
      EXPECT_LE(std::abs(static_cast<double>(x[l][t].real()) -
                         static_cast<double>(z.data[parts * t * fft->lanes + l]) / static_cast<double>(length)),
                bound<T>(length));
}

TEST(Fft, EveryInstructionSetAgainstTheDirectSum) {
  std::vector<std::size_t> lengths;
  for (std::size_t length = 1; length <= 33; ++length) lengths.push_back(length);
  for (const std::size_t length : {64, 97, 100, 127, 210, 256, 257}) lengths.push_back(length);
  for (const auto set : rtf::instruction_sets())
    for (const std::size_t length : lengths)
      for (const auto kind : {FftKind::complex, FftKind::real})
        for (const auto lanes : {FftLanes::one, FftLanes::all}) {
          check<float>(kind, lanes, length, set);
          check<double>(kind, lanes, length, set);
        }
}

TEST(Fft, GoodSizesHaveSmallFactors) {
  for (std::size_t n = 1; n < 3000; ++n) {
    std::size_t m = rtf::good_size(n);
    EXPECT_GE(m, n);
    EXPECT_LE(m, 2 * n);
    for (const std::size_t factor : {2, 3, 5, 7, 11})
      while (m % factor == 0) m /= factor;
    EXPECT_EQ(m, 1u);
  }
}

}  // namespace
