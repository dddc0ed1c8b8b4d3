// Batch normalisation against sums in long double and finite differences.
#include "rtf/batch_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "rtf/error.h"
#include "rtf/random.h"

namespace {

constexpr double eps = 1e-5;

template <class T>
struct Case {
  std::size_t rows, channels;
  std::vector<T> x, weight, bias, dy;

  Case(std::size_t rows_, std::size_t channels_, double mean) : rows(rows_), channels(channels_) {
    const rtf::Random random(3, 0, 0);
    std::uint64_t next = 0;
    const auto draw = [&](std::vector<T>& to, std::size_t count, double offset) {
      for (std::size_t i = 0; i < count; ++i) to.push_back(static_cast<T>(offset + random.normal(next++)));
    };
    draw(x, rows * channels, mean);
    draw(weight, channels, 1);
    draw(bias, channels, 0);
    draw(dy, rows * channels, 0);
  }
};

template <class T>
struct Result {
  std::vector<double> mean, variance;
  std::vector<T> y, dx, dw, db;
};

template <class T>
Result<T> run(const Case<T>& c, rtf::Executor& executor) {
  Result<T> r{std::vector<double>(c.channels), std::vector<double>(c.channels), std::vector<T>(c.x.size()),
              std::vector<T>(c.x.size()), std::vector<T>(c.channels), std::vector<T>(c.channels)};
  std::vector<std::byte> workspace(rtf::batch_norm_workspace_bytes(c.rows, c.channels));
  rtf::batch_norm<T>(c.x, c.weight, c.bias, eps, r.mean, r.variance, r.y, workspace, executor);
  rtf::batch_norm_vjp<T>(c.x, c.weight, eps, r.mean, r.variance, c.dy, r.dx, r.dw, r.db, workspace, executor);
  return r;
}

// One channel by the definition.
template <class T>
void expect_channel(const Case<T>& c, const Result<T>& r, std::size_t channel, double bound) {
  using Real = long double;
  const Real n = c.rows;
  Real mean = 0, variance = 0, sum = 0, product = 0;
  for (std::size_t i = 0; i < c.rows; ++i) mean += c.x[i * c.channels + channel] / n;
  for (std::size_t i = 0; i < c.rows; ++i) variance += std::pow(c.x[i * c.channels + channel] - mean, 2) / n;
  const Real inverse = 1 / std::sqrt(variance + eps);
  const auto normal = [&](std::size_t i) { return (c.x[i * c.channels + channel] - mean) * inverse; };
  for (std::size_t i = 0; i < c.rows; ++i) {
    sum += c.dy[i * c.channels + channel];
    product += c.dy[i * c.channels + channel] * normal(i);
  }
  EXPECT_NEAR(r.mean[channel], static_cast<double>(mean), 1e-14 * (1 + std::abs(static_cast<double>(mean))));
  EXPECT_NEAR(r.variance[channel], static_cast<double>(variance), 1e-12 * static_cast<double>(variance + 1e-3));
  // The sums are exact to double; x - mean carries the rounding of x, and every term that of its factors.
  Real terms = 0, products = 0;
  for (std::size_t i = 0; i < c.rows; ++i) {
    terms += std::abs(c.dy[i * c.channels + channel]);
    products += std::abs(c.dy[i * c.channels + channel]) * (std::abs(normal(i)) + std::abs(mean) * inverse);
  }
  EXPECT_NEAR(r.db[channel], static_cast<double>(sum), bound * static_cast<double>(terms));
  EXPECT_NEAR(r.dw[channel], static_cast<double>(product), bound * static_cast<double>(products));
  for (std::size_t i = 0; i < c.rows; ++i) {
    const Real w = c.weight[channel], dy = c.dy[i * c.channels + channel], x = c.x[i * c.channels + channel];
    const Real y = normal(i) * w + c.bias[channel];
    const Real dx = w * inverse * (dy - sum / n - normal(i) * product / n);
    const Real lost = std::abs(x) * inverse + std::abs(normal(i));
    EXPECT_NEAR(r.y[i * c.channels + channel], static_cast<double>(y),
                2 * bound * static_cast<double>(std::abs(w) * lost + std::abs(c.bias[channel])));
    EXPECT_NEAR(r.dx[i * c.channels + channel], static_cast<double>(dx),
                2 * bound * static_cast<double>(std::abs(w) * inverse *
                                                (std::abs(dy) + std::abs(sum / n) + lost * std::abs(product / n))));
  }
}

TEST(BatchNorm, IsItsDefinition) {
  for (const std::size_t rows : {2, 3, 255, 256, 257, 1000})
    for (const std::size_t channels : {1, 3, 16, 17, 600}) {
      const Case<double> c(rows, channels, 0.5);
      const Case<float> f(rows, channels, 0.5);
      const auto r = run(c, rtf::default_executor());
      const auto rf = run(f, rtf::default_executor());
      for (std::size_t channel = 0; channel < channels; ++channel) {
        expect_channel(c, r, channel, 1e-14);
        expect_channel(f, rf, channel, 2 * std::numeric_limits<float>::epsilon());
      }
    }
}

TEST(BatchNorm, AMeanFarFromZeroCostsNoDigits) {
  // Beyond what rounding x itself has taken, which expect_channel allows for.
  const Case<float> c(1000, 5, 1000);
  const auto r = run(c, rtf::default_executor());
  for (std::size_t channel = 0; channel < c.channels; ++channel)
    expect_channel(c, r, channel, 2 * std::numeric_limits<float>::epsilon());
}

TEST(BatchNorm, ConstantChannel) {
  Case<float> c(100, 2, 0);
  for (std::size_t i = 0; i < c.rows; ++i) c.x[2 * i] = 7;
  const auto r = run(c, rtf::default_executor());
  EXPECT_EQ(r.variance[0], 0);
  for (std::size_t i = 0; i < c.rows; ++i) EXPECT_EQ(r.y[2 * i], c.bias[0]);
}

TEST(BatchNorm, ThreadsChangeNothing) {
  const Case<float> c(3000, 33, 0.1);
  const auto one = run(c, *rtf::make_thread_pool(1)), three = run(c, *rtf::make_thread_pool(3));
  EXPECT_EQ(one.y, three.y);
  EXPECT_EQ(one.dx, three.dx);
  EXPECT_EQ(one.dw, three.dw);
  EXPECT_EQ(one.mean, three.mean);
}

TEST(BatchNorm, Errors) {
  const std::vector<float> x(6), weight(4);
  std::vector<float> y(6);
  std::vector<double> mean(4), variance(4);
  std::vector<std::byte> workspace(4096);
  try {
    rtf::batch_norm<float>(x, weight, weight, eps, mean, variance, y, workspace, rtf::default_executor());
    FAIL();
  } catch (const rtf::Error& error) {
    EXPECT_STREQ(error.what(), "[rtf::batch_norm] 6 values are no rows of 4 channels");
  }
}

}  // namespace
