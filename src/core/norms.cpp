// H2 norm, H-infinity norm and Hankel singular values.
#include <Eigen/SVD>
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "core/arguments.h"
#include "core/circle_point.h"
#include "core/double_double.h"
#include "core/eigenvalues.h"
#include "core/form_scale.h"
#include "core/lattice.h"
#include "core/lyapunov.h"
#include "core/polynomial.h"
#include "core/row_matrix.h"
#include "rtf/conversion.h"
#include "rtf/executor.h"
#include "rtf/response.h"
#include "rtf/stability.h"

namespace rtf {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

struct Channel {
  std::span<const double> a, b;
  double h0;

  Channel(const CoefficientsView& tf, std::size_t c)
      : a(tf.denominator(c), tf.order), b(tf.numerator(c), tf.order), h0(tf.h0[c]) {}

  bool is_gain() const {
    return std::all_of(b.begin(), b.end(), [](double value) { return value == 0; });
  }
};

template <class F>
void for_each_channel(const TransferFunction& tf, F&& compute) {
  parallel_for(default_executor(), tf.channels, [&](std::size_t c, std::size_t) { compute(c); });
}

// --- the largest |H| ------------------------------------------------------------------------------------------------

// sum_k c_k cos(k angle) = level^2 |A|^2 - |N|^2. The squares cancel where a pole is close, hence 106 bits.
std::vector<double> level_polynomial(const Channel& channel, double level) {
  const std::size_t n = channel.a.size();
  std::vector<DoubleDouble> A(n + 1), N(n + 1);
  for (std::size_t k = 0; k <= n; ++k) {
    A[k] = k == 0 ? 1.0 : channel.a[k - 1];
    N[k] = DoubleDouble(channel.h0) * A[k] + DoubleDouble(k == 0 ? 0.0 : channel.b[k - 1]);
    A[k] = A[k] * DoubleDouble(level);
  }
  std::vector<double> c(n + 1);
  for (std::size_t k = 0; k <= n; ++k) {
    DoubleDouble sum = 0.0;
    for (std::size_t j = 0; j + k <= n; ++j) sum = sum + A[j] * A[j + k] - N[j] * N[j + k];
    c[k] = static_cast<double>(sum) * (k == 0 ? 1 : 2);
  }
  return c;
}

// Angles in [0, pi] where |H| may cross `level`: roots of the polynomial in cos(angle), by its colleague matrix. Roots
// somewhat off the real axis are kept too; who calls evaluates H there.
std::vector<double> level_crossings(const Channel& channel, double level) {
  std::vector<double> c = level_polynomial(channel, level);
  double largest = 0;
  for (const double value : c) largest = std::max(largest, std::abs(value));
  while (c.size() > 1 && std::abs(c.back()) <= 1e-13 * largest) c.pop_back();
  const std::size_t n = c.size() - 1;
  if (n < 1 || !std::isfinite(largest)) return {};
  std::vector<double> colleague(n * n, 0.0);
  // x T_k = (T_{k-1} + T_{k+1}) / 2 column by column, T_n replaced by the others: upper Hessenberg.
  for (std::size_t k = 0; k < n; ++k) {
    if (k + 1 < n) colleague[(k + 1) * n + k] = k == 0 ? 1 : 0.5;
    if (k > 0) colleague[(k - 1) * n + k] += 0.5;
  }
  for (std::size_t k = 0; k < n; ++k) colleague[k * n + n - 1] -= (n == 1 ? 1 : 0.5) * c[k] / c.back();
  std::vector<double> angles;
  // Without its eigenvalues a maximum may be missed: a failure is an error, not an empty list.
  for (const std::complex<double> x : eigenvalues(colleague, n, MatrixShape::hessenberg, "h_infinity_norm"))
    if (std::abs(x.imag()) < 1e-3 && std::abs(x.real()) < 1 + 1e-3)
      angles.push_back(std::acos(std::clamp(x.real(), -1.0, 1.0)));
  return angles;
}

class PeakSearch {
 public:
  PeakSearch(const CoefficientsView& tf, std::size_t channel) : tf_(tf), index_(channel), channel_(tf, channel) {}

  Peak run() {
    std::vector<double> angles;
    const std::size_t grid = 8 * tf_.order + 64;
    for (std::size_t i = 0; i <= grid; ++i)
      angles.push_back(std::numbers::pi * static_cast<double>(i) / static_cast<double>(grid));
    // A peak between the points of the grid stands near a pole and is as wide as that is far from the circle.
    for (const std::complex<double> pole : poles(channel_.a)) {
      if (pole.imag() < 0) continue;
      const double angle = std::arg(pole), width = 1 - std::abs(pole);
      for (const double offset : {-2.0, -1.0, 0.0, 1.0, 2.0})
        angles.push_back(std::clamp(angle + offset * width, 0.0, std::numbers::pi));
    }
    climb(angles);
    // Bruinsma and Steinbuch: as long as |H| crosses a level just above the best, climb between the crossings.
    for (int round = 0; round < 30; ++round) {
      const double before = best_.value;
      std::vector<double> crossings = level_crossings(channel_, before * (1 + 5e-10));
      crossings.insert(crossings.end(), {0.0, std::numbers::pi});
      std::sort(crossings.begin(), crossings.end());
      for (std::size_t i = crossings.size() - 1; i > 0; --i)
        crossings.push_back(0.5 * (crossings[i] + crossings[i - 1]));
      climb(crossings);
      if (!(best_.value > before * (1 + 5e-10))) break;
    }
    return best_;
  }

 private:
  double value(double angle) const { return std::abs(circle_point(tf_, index_, angle).response()); }

  void keep(double v, double angle) {
    if (v > best_.value) best_ = {v, angle};
  }

  // Takes every local maximum of the samples that could be the largest to its top.
  void climb(std::vector<double>& angles) {
    std::sort(angles.begin(), angles.end());
    angles.erase(std::unique(angles.begin(), angles.end()), angles.end());
    std::vector<double> values(angles.size());
    for (std::size_t i = 0; i < angles.size(); ++i) keep(values[i] = value(angles[i]), angles[i]);
    std::vector<std::size_t> maxima;
    for (std::size_t i = 0; i < angles.size(); ++i)
      if ((i == 0 || values[i] >= values[i - 1]) && (i + 1 == angles.size() || values[i] >= values[i + 1]))
        maxima.push_back(i);
    std::stable_sort(maxima.begin(), maxima.end(), [&](std::size_t x, std::size_t y) { return values[x] > values[y]; });
    for (const std::size_t i : maxima) {
      if (values[i] < 0.5 * best_.value) break;
      const double slope = log_slope(angles[i]);
      if (slope > 0 && i + 1 < angles.size()) bisect(angles[i], angles[i + 1]);
      if (slope < 0 && i > 0) bisect(angles[i], angles[i - 1]);
    }
  }

  double log_slope(double angle) const { return circle_point(tf_, index_, angle).log_slope().imag(); }

  // |H| rises from `low` towards `high` and is not larger there: there is a top between them.
  void bisect(double low, double high) {
    double low_value = value(low);
    for (int step = 0; step < 100; ++step) {
      const double middle = 0.5 * (low + high);
      if (middle == low || middle == high) break;
      const double middle_value = value(middle), slope = log_slope(middle);
      keep(middle_value, middle);
      // What is still to be gained lies below the tangent.
      if (std::abs(slope * (high - low)) < 1e-15) break;
      if (slope * (high - low) > 0 && middle_value >= low_value) {
        low = middle;
        low_value = middle_value;
      } else {
        high = middle;
      }
    }
  }

  const CoefficientsView tf_;
  std::size_t index_;
  Channel channel_;
  Peak best_{-1, 0};
};

}  // namespace

std::vector<double> h2_norm(const TransferFunction& tf) {
  validate(tf, "h2_norm");
  std::vector<double> norms(tf.channels);
  for_each_channel(tf, [&](std::size_t c) {
    const auto [near, exponent] = moderate(select_channel(tf, c));
    const Channel channel(near, 0);
    norms[c] = std::abs(channel.h0);
    const bool is_gain = channel.is_gain();
    const auto lattice = is_gain ? std::nullopt : to_lattice(channel.a, channel.b);
    // C P C^T with P = I.
    for (std::size_t m = 0; lattice && m < tf.order; ++m) norms[c] = std::hypot(norms[c], lattice->output[m]);
    norms[c] = lattice || is_gain ? std::ldexp(norms[c], exponent) : infinity;
  });
  return norms;
}

std::vector<double> hankel_singular_values(const TransferFunction& tf) {
  constexpr const char* operation = "hankel_singular_values";
  validate(tf, operation);
  const CoefficientsView view(tf);
  std::vector<double> values(tf.channels * tf.order, 0.0);
  for_each_channel(tf, [&](std::size_t c) {
    const Channel channel(view, c);
    if (channel.is_gain()) return;
    // The values are proportional to b, whose squares may not fit a double.
    const int exponent = binary_exponent(channel.b);
    std::vector<double> b(channel.b.begin(), channel.b.end());
    for (double& value : b) value = std::ldexp(value, -exponent);
    const auto lattice = to_lattice(channel.a, b);
    if (!lattice)
      fail(ErrorCode::unstable, operation,
           "channel {} has poles up to radius {:.12g}; all must be inside the unit circle", c, pole_radius(channel.a));
    // The reachability Gramian is I, so these are the singular values of the observability Gramian's factor.
    const Eigen::MatrixXd A = matrix(lattice->transition(), tf.order, tf.order);
    const Eigen::MatrixXd C = matrix(lattice->output, 1, tf.order);
    const Eigen::VectorXd found = Eigen::JacobiSVD<Eigen::MatrixXd>(gramian_factor(A, C, operation)).singularValues();
    std::transform(found.begin(), found.end(), values.begin() + static_cast<std::ptrdiff_t>(c * tf.order),
                   [&](double value) { return std::ldexp(value, exponent); });
  });
  return values;
}

std::vector<Peak> h_infinity_norm(const TransferFunction& tf) {
  validate(tf, "h_infinity_norm");
  const CoefficientsView view(tf);
  std::vector<Peak> peaks(tf.channels);
  for_each_channel(tf, [&](std::size_t c) {
    const Channel channel(view, c);
    if (channel.is_gain()) {
      peaks[c] = {std::abs(channel.h0), 0};
    } else if (!is_stable(channel.a)) {
      peaks[c] = {infinity, not_a_number};
    } else {
      // The search squares values of H, which may not fit a double.
      const auto [near, exponent] = moderate(select_channel(tf, c));
      peaks[c] = PeakSearch(near, 0).run();
      peaks[c].value = std::ldexp(peaks[c].value, exponent);
    }
  });
  return peaks;
}

}  // namespace rtf
