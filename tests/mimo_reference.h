// MIMO systems written out plainly, over any scalar: long double for values, Dual for their derivatives.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "random_filter.h"
#include "rtf/error.h"
#include "rtf/mimo.h"
#include "rtf/stability.h"

namespace rtf::testing {

using Values = std::vector<double>;
using LongValues = std::vector<long double>;

// A value and its derivative in one direction: exact to the rounding of long double, with no step to choose.
struct Dual {
  long double value = 0, slope = 0;
  Dual(long double v = 0, long double s = 0) : value(v), slope(s) {}
  Dual& operator+=(const Dual& y) { return *this = Dual(value + y.value, slope + y.slope); }
  Dual& operator-=(const Dual& y) { return *this = Dual(value - y.value, slope - y.slope); }
};
inline Dual operator+(Dual x, const Dual& y) { return x += y; }
inline Dual operator-(Dual x, const Dual& y) { return x -= y; }
inline Dual operator*(const Dual& x, const Dual& y) {
  return {x.value * y.value, x.slope * y.value + x.value * y.slope};
}
inline Dual operator/(const Dual& x, const Dual& y) {
  return {x.value / y.value, (x.slope - x.value / y.value * y.slope) / y.value};
}
inline long double magnitude(long double x) { return std::abs(x); }
inline long double magnitude(const Dual& x) { return std::abs(x.value); }

template <class S>
struct ReferenceMimo {
  std::size_t inputs, outputs, order;
  std::vector<S> a, b, h0;

  explicit ReferenceMimo(const MimoCoefficients& c)
      : inputs(c.inputs),
        outputs(c.outputs),
        order(c.order),
        a(c.a.begin(), c.a.end()),
        b(c.b.begin(), c.b.end()),
        h0(c.h0.begin(), c.h0.end()) {}
};

// y (length, outputs) of one sequence u (length, inputs); x (inputs, order) is the state before, and after.
template <class S>
std::vector<S> reference_run(const ReferenceMimo<S>& tf, const std::vector<S>& u, std::vector<S>& x) {
  const std::size_t m = tf.inputs, n = tf.order, length = u.size() / m;
  std::vector<S> y(length * tf.outputs, S(0));
  for (std::size_t t = 0; t < length; ++t)
    for (std::size_t j = 0; j < m; ++j) {
      S v = u[t * m + j];
      for (std::size_t i = 0; i < tf.outputs; ++i) {
        S& out = y[t * tf.outputs + i];
        out += tf.h0[i * m + j] * u[t * m + j];
        for (std::size_t k = 0; k < n; ++k) out += tf.b[(i * m + j) * n + k] * x[j * n + k];
      }
      for (std::size_t k = 0; k < n; ++k) v -= tf.a[k] * x[j * n + k];
      for (std::size_t k = n; k > 1; --k) x[j * n + k - 1] = x[j * n + k - 2];
      if (n > 0) x[j * n] = v;
    }
  return y;
}

// The exact kernel (outputs, inputs, length): what an impulse on each input gives.
template <class S>
std::vector<S> reference_response(const ReferenceMimo<S>& tf, std::size_t length) {
  std::vector<S> kernel(tf.outputs * tf.inputs * length);
  for (std::size_t j = 0; j < tf.inputs; ++j) {
    std::vector<S> u(length * tf.inputs, S(0)), x(tf.inputs * tf.order, S(0));
    u[j] = S(1);
    const std::vector<S> y = reference_run(tf, u, x);
    for (std::size_t i = 0; i < tf.outputs; ++i)
      for (std::size_t t = 0; t < length; ++t) kernel[(i * tf.inputs + j) * length + t] = y[t * tf.outputs + i];
  }
  return kernel;
}

// One step of dense matrices: y (outputs), and x moved on.
inline LongValues dense_step(const StateSpace& system, LongValues& x, const LongValues& u) {
  const auto product = [](const Values& matrix, const LongValues& vector, LongValues& sum) {
    for (std::size_t i = 0; i < sum.size(); ++i)
      for (std::size_t j = 0; j < vector.size(); ++j) sum[i] += matrix[i * vector.size() + j] * vector[j];
  };
  LongValues y(system.outputs, 0.0L), next(system.order, 0.0L);
  product(system.C, x, y);
  product(system.D, u, y);
  product(system.A, x, next);
  product(system.B, u, next);
  x = next;
  return y;
}

// (outputs, inputs, length) from D, C B, C A B, ...
inline LongValues dense_kernel(const StateSpace& system, std::size_t length) {
  LongValues kernel(system.outputs * system.inputs * length);
  for (std::size_t j = 0; j < system.inputs; ++j) {
    LongValues x(system.order, 0.0L), u(system.inputs, 0.0L);
    u[j] = 1;
    for (std::size_t t = 0; t < length; ++t) {
      const LongValues y = dense_step(system, x, u);
      for (std::size_t i = 0; i < system.outputs; ++i) kernel[(i * system.inputs + j) * length + t] = y[i];
      u[j] = 0;
    }
  }
  return kernel;
}

// Solves matrix (n, n) times result = right (n, columns) by elimination with pivots.
template <class S>
std::vector<S> reference_solve(std::vector<S> matrix, std::vector<S> right, std::size_t n) {
  const std::size_t columns = n == 0 ? 0 : right.size() / n;
  for (std::size_t p = 0; p < n; ++p) {
    std::size_t best = p;
    for (std::size_t r = p + 1; r < n; ++r)
      if (magnitude(matrix[r * n + p]) > magnitude(matrix[best * n + p])) best = r;
    for (std::size_t c = 0; c < n; ++c) std::swap(matrix[p * n + c], matrix[best * n + c]);
    for (std::size_t c = 0; c < columns; ++c) std::swap(right[p * columns + c], right[best * columns + c]);
    for (std::size_t r = 0; r < n; ++r) {
      if (r == p) continue;
      const S factor = matrix[r * n + p] / matrix[p * n + p];
      for (std::size_t c = p; c < n; ++c) matrix[r * n + c] -= factor * matrix[p * n + c];
      for (std::size_t c = 0; c < columns; ++c) right[r * columns + c] -= factor * right[p * columns + c];
    }
  }
  for (std::size_t r = 0; r < n; ++r)
    for (std::size_t c = 0; c < columns; ++c) right[r * columns + c] = right[r * columns + c] / matrix[r * n + r];
  return right;
}

// Algorithm 1 by what it solves: A k = B + h0 A modulo w^length = 1, a circulant system.
template <class S>
std::vector<S> reference_wrapped(const ReferenceMimo<S>& tf, std::size_t length) {
  const std::size_t n = tf.order, pairs = tf.outputs * tf.inputs;
  std::vector<S> denominator(length, S(0)), matrix(length * length), right(length * pairs, S(0));
  denominator[0] = S(1);
  for (std::size_t k = 1; k <= n; ++k) denominator[k % length] += tf.a[k - 1];
  for (std::size_t t = 0; t < length; ++t)
    for (std::size_t s = 0; s < length; ++s) matrix[t * length + s] = denominator[(t + length - s) % length];
  for (std::size_t c = 0; c < pairs; ++c) {
    for (std::size_t t = 0; t < length; ++t) right[t * pairs + c] += tf.h0[c] * denominator[t];
    for (std::size_t k = 1; k <= n; ++k) right[k % length * pairs + c] += tf.b[c * n + k - 1];
  }
  const std::vector<S> solved = reference_solve(matrix, right, length);
  std::vector<S> kernel(pairs * length);
  for (std::size_t c = 0; c < pairs; ++c)
    for (std::size_t t = 0; t < length; ++t) kernel[c * length + t] = solved[t * pairs + c];
  return kernel;
}

// A^steps of the companion matrix of one input, row by row.
template <class S>
std::vector<S> companion_power(const std::vector<S>& a, std::size_t steps) {
  const std::size_t n = a.size();
  std::vector<S> power(n * n, S(0));
  for (std::size_t i = 0; i < n; ++i) power[i * n + i] = S(1);
  for (std::size_t step = 0; step < steps; ++step)
    for (std::size_t column = 0; column < n; ++column) {
      S first(0);
      for (std::size_t k = 0; k < n; ++k) first -= a[k] * power[k * n + column];
      for (std::size_t k = n; k > 1; --k) power[(k - 1) * n + column] = power[(k - 2) * n + column];
      power[column] = first;
    }
  return power;
}

// C to C (I - A^length), or back by a dense solve; the feed-through gives or takes h_length = C A^(length-1) e1.
template <class S>
ReferenceMimo<S> reference_correction(ReferenceMimo<S> tf, std::size_t length, bool back) {
  const std::size_t n = tf.order, pairs = tf.outputs * tf.inputs;
  if (n == 0) return tf;
  const std::vector<S> power = companion_power(tf.a, length), before = companion_power(tf.a, length - 1);
  std::vector<S> plain = tf.b, trained = tf.b;
  if (back) {
    std::vector<S> matrix(n * n), right(n * pairs);
    for (std::size_t r = 0; r < n; ++r) {
      for (std::size_t c = 0; c < n; ++c) matrix[c * n + r] = S(r == c ? 1 : 0) - power[r * n + c];
      for (std::size_t c = 0; c < pairs; ++c) right[r * pairs + c] = tf.b[c * n + r];
    }
    const std::vector<S> solved = reference_solve(matrix, right, n);
    for (std::size_t i = 0; i < plain.size(); ++i) plain[i] = solved[i % n * pairs + i / n];
  }
  for (std::size_t c = 0; c < pairs; ++c) {
    for (std::size_t r = 0; r < n; ++r) {
      const S& value = plain[c * n + r];
      if (back)
        tf.h0[c] += value * before[r * n];
      else
        tf.h0[c] -= value * before[r * n];
      for (std::size_t k = 0; k < n; ++k) trained[c * n + k] -= value * power[r * n + k];
    }
  }
  tf.b = back ? plain : trained;
  return tf;
}

// Sizes and coefficients of a random case: p, m <= 4, n <= 32, below, at and past the length.
struct MimoCase {
  std::size_t batch, length;
  MimoTransferFunction tf;
  double kappa;  // the condition number over length + order samples, and modulo w^length = 1

  // Draws until kappa is at most `worst`.
  MimoCase(RandomFilters& random, std::size_t longest, double worst)
      : batch(random.integer(1, 3)), length(random.length(longest)) {
    tf.inputs = random.integer(1, 4);
    tf.outputs = random.integer(1, 4);
    tf.order = random.chance(0.15) ? random.integer(0, 1) : random.chance(0.15) ? 32 : random.integer(0, 32);
    do {
      const TransferFunction drawn = random.draw(tf.outputs * tf.inputs, 1, tf.order);
      tf.a = drawn.a;
      tf.b = drawn.b;
      tf.h0 = drawn.h0;
      double norm = 1;
      for (const double a : tf.a) norm += std::abs(a);
      // |x|_1 <= sqrt(length) |x|_2, and the largest gain of 1/A modulo w^length = 1 is 1 / min |A|.
      kappa = std::max(condition(tf.a, length + tf.order),
                       norm * std::sqrt(static_cast<double>(length)) / min_abs_denominator(tf.a, length));
    } while (!(kappa <= worst));
  }

  TrainedMimoTransferFunction trained() const {
    TrainedMimoTransferFunction value;
    static_cast<MimoCoefficients&>(value) = tf;
    value.length = length;
    return value;
  }

  std::string sizes() const {
    return ::testing::PrintToString(std::vector{tf.outputs, tf.inputs, tf.order, length, batch});
  }
};

// What the error says, or nothing.
template <class Call>
std::string message(const Call& call) {
  try {
    call();
  } catch (const rtf::Error& error) {
    return error.what();
  }
  return "";
}

// 2 outputs, 3 inputs, order 2.
inline MimoTransferFunction small_mimo() {
  MimoTransferFunction tf;
  tf.inputs = 3;
  tf.outputs = 2;
  tf.order = 2;
  tf.a = {0.5, -0.25};
  tf.b.assign(12, 1.0);
  tf.h0.assign(6, 1.0);
  return tf;
}

}  // namespace rtf::testing
