#include "core/form_kernel.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/conjugate_pairs.h"
#include "core/dual.h"
#include "core/leja_order.h"
#include "rtf/random.h"

namespace rtf {
namespace {

template <class T>
using Row = std::vector<T>;

// From the double of a form to the number that is computed with.
struct Exact {
  using Number = DoubleDouble;
  DoubleDouble operator()(double x) { return x; }
};

struct Moved {
  using Number = Dual;
  Dual operator()(double x) {
    Dual number(x);
    if (x == 0 || std::abs(x) == 1) return number;  // such numbers stand for themselves
    for (double& slope : number.slope) slope = random.uniform(next++) < 0.5 ? x : -x;
    return number;
  }
  Random random{0};
  std::uint64_t next = 0;
};

template <class Lift, class Number = typename Lift::Number>
Row<Number> lifted(Lift& lift, const double* values, std::size_t count) {
  Row<Number> row;
  for (std::size_t i = 0; i < count; ++i) row.push_back(lift(values[i]));
  return row;
}

template <class Lift, class Number = typename Lift::Number>
Complex<Number> lifted(Lift& lift, std::complex<double> value) {
  const Number re = lift(value.real());
  return {re, lift(value.imag())};
}

// h_t -= sum_{k >= 1} a_k h_{t-k}, a[0] being a_1.
template <class T>
void divide(const Row<T>& a, Row<T>& h) {
  for (std::size_t t = 1; t < h.size(); ++t)
    for (std::size_t k = 1; k <= std::min(a.size(), t); ++k) h[t] = h[t] - a[k - 1] * h[t - k];
}

template <class T>
void multiply(const Factor<T>& factor, Row<T>& h) {
  for (std::size_t t = h.size(); t-- > 1;) {
    h[t] = h[t] + factor.first * h[t - 1];
    if (t > 1) h[t] = h[t] + factor.second * h[t - 2];
  }
}

template <class T>
void divide(const Factor<T>& factor, Row<T>& h) {
  for (std::size_t t = 1; t < h.size(); ++t) {
    h[t] = h[t] - factor.first * h[t - 1];
    if (t > 1) h[t] = h[t] - factor.second * h[t - 2];
  }
}

template <class Lift, class Number = typename Lift::Number>
Factor<Number> factor(const PairedValue& x, Lift& lift) {
  return x.real() ? real_factor(lift(x.value.real())) : pair_factor(lifted(lift, x.value));
}

template <class Lift, class Number = typename Lift::Number>
Row<Number> response(const TransferFunction& tf, std::size_t length, Lift& lift) {
  const Row<Number> a = lifted(lift, tf.a.data(), tf.order), b = lifted(lift, tf.b.data(), tf.order);
  Row<Number> h(length);
  if (length == 0) return h;
  for (std::size_t k = 1; k <= std::min(tf.order, length - 1); ++k) h[k] = b[k - 1];
  divide(a, h);
  h[0] = lift(tf.h0[0]);
  return h;
}

template <class Lift, class Number = typename Lift::Number>
Row<Number> response(const PolynomialRatio& ratio, std::size_t length, Lift& lift) {
  Row<Number> a = lifted(lift, ratio.a.data(), ratio.a.size()), h = lifted(lift, ratio.b.data(), ratio.b.size());
  h.resize(length);
  if (ratio.a[0] != 1) {
    const Number inverse = reciprocal(a[0]);
    for (Number& x : a) x = x * inverse;
    for (Number& x : h) x = x * inverse;
  }
  a.erase(a.begin());
  divide(a, h);
  return h;
}

template <class Lift, class Number = typename Lift::Number>
Row<Number> response(const Modal& modal, std::size_t length, Lift& lift) {
  Row<Number> h(length);
  if (length > 0) h[0] = lift(modal.h0);
  for (const PairedValue& x : conjugate_pairs("kernel", "poles", modal.poles)) {
    const std::complex<double> upper = modal.residues[x.index], lower = modal.residues[x.partner];
    if (x.real()) {
      const Number pole = lift(x.value.real());
      Number term = lift(upper.real());
      for (std::size_t t = 1; t < length; ++t, term = term * pole) h[t] = h[t] + term;
    } else {
      const Complex<Number> pole = lifted(lift, x.value);
      Complex<Number> term = lifted(lift, 0.5 * upper + 0.5 * std::conj(lower));
      for (std::size_t t = 1; t < length; ++t, term = term * pole) h[t] = h[t] + (term.re + term.re);
    }
  }
  return h;
}

std::vector<std::vector<std::complex<double>>> places(const std::vector<PairedValue>& values) {
  std::vector<std::vector<std::complex<double>>> result;
  for (const PairedValue& x : values)
    result.push_back(x.real() ? std::vector{x.value} : std::vector{x.value, std::conj(x.value)});
  return result;
}

std::size_t degree(const PairedValue& x) { return x.real() ? 1 : 2; }

// Of those of at most this degree; the end where there is none.
std::vector<PairedValue>::iterator nearest_zero(std::vector<PairedValue>& zeros, std::complex<double> to,
                                                std::size_t most) {
  auto nearest = zeros.end();
  for (auto zero = zeros.begin(); zero != zeros.end(); ++zero)
    if (degree(*zero) <= most && (nearest == zeros.end() || std::abs(zero->value - to) < std::abs(nearest->value - to)))
      nearest = zero;
  return nearest;
}

template <class Lift, class Number = typename Lift::Number>
Row<Number> response(const ZeroPoleGain& zpk, std::size_t length, Lift& lift) {
  Row<Number> h(length);
  if (length == 0) return h;
  if (const std::size_t delay = zpk.poles.size() - zpk.zeros.size(); delay < length) h[delay] = lift(zpk.gain);
  // Each pole with the zeros nearest to it, as many as there are poles so far: then what lies in between stays about as
  // large as the result. A pair of poles takes two real zeros: left to the end, zeros at 1 would find that their poles,
  // an integrator for each, have grown past 106 bits.
  std::vector<PairedValue> zeros = conjugate_pairs("kernel", "zeros", zpk.zeros);
  const std::vector<PairedValue> poles = conjugate_pairs("kernel", "poles", zpk.poles);
  std::size_t due = 0;
  for (const std::size_t next : leja_order(places(poles))) {
    const PairedValue& pole = poles[next];
    if (pole.value == 0.0) continue;
    divide(factor(pole, lift), h);
    due += degree(pole);
    for (auto nearest = nearest_zero(zeros, pole.value, due); nearest != zeros.end();
         nearest = nearest_zero(zeros, pole.value, due)) {
      multiply(factor(*nearest, lift), h);
      due -= degree(*nearest);
      zeros.erase(nearest);
    }
  }
  for (const std::size_t next : leja_order(places(zeros))) multiply(factor(zeros[next], lift), h);
  h[0] = h[0] + lift(zpk.h0);
  return h;
}

template <class Lift, class Number = typename Lift::Number>
Row<Number> response(const SecondOrderSections& sos, std::size_t length, Lift& lift) {
  Row<Number> h(length), x(length);
  if (length > 0) h[0] = 1.0;
  for (const auto& section : sos.sections) {
    Row<Number> c = lifted(lift, section.data(), 6);
    if (section[3] != 1) {
      const Number inverse = reciprocal(c[3]);
      for (Number& value : c) value = value * inverse;
    }
    for (std::size_t t = 0; t < length; ++t) {
      x[t] = c[0] * h[t];
      for (std::size_t k = 1; k <= std::min<std::size_t>(2, t); ++k) x[t] = x[t] + c[k] * h[t - k];
    }
    divide(Factor<Number>{c[4], c[5]}, x);
    std::swap(h, x);
  }
  return h;
}

template <class Lift, class Number = typename Lift::Number>
Row<Number> response(const StateSpace& system, std::size_t length, Lift& lift) {
  const std::size_t n = system.order, inputs = system.inputs, outputs = system.outputs;
  struct Entry {
    std::size_t row, column;
    Number value;
  };
  Row<Entry> entries;  // a companion matrix is nearly empty
  for (std::size_t i = 0; i < n * n; ++i)
    if (system.A[i] != 0) entries.push_back({i / n, i % n, lift(system.A[i])});
  const Row<Number> b = lifted(lift, system.B.data(), n * inputs), c = lifted(lift, system.C.data(), outputs * n),
                    d = lifted(lift, system.D.data(), outputs * inputs);
  Row<Number> h(outputs * inputs * length), x(n), next(n);
  for (std::size_t j = 0; j < inputs; ++j) {
    for (std::size_t k = 0; k < n; ++k) x[k] = b[k * inputs + j];
    for (std::size_t t = 0; t < length; ++t) {
      for (std::size_t i = 0; i < outputs; ++i) {
        Number& y = h[(i * inputs + j) * length + t];
        if (t == 0) {
          y = d[i * inputs + j];
          continue;
        }
        for (std::size_t k = 0; k < n; ++k) y = y + c[i * n + k] * x[k];
      }
      if (t == 0) continue;
      std::fill(next.begin(), next.end(), Number(0.0));
      for (const Entry& e : entries) next[e.row] = next[e.row] + e.value * x[e.column];
      std::swap(x, next);
    }
  }
  return h;
}

template <class Lift, class Number = typename Lift::Number>
Row<Number> response(const MimoTransferFunction& tf, std::size_t length, Lift& lift) {
  const Row<Number> a = lifted(lift, tf.a.data(), tf.order), b = lifted(lift, tf.b.data(), tf.b.size());
  Row<Number> all;
  for (std::size_t i = 0; i < tf.outputs * tf.inputs; ++i) {
    Row<Number> h(length);
    for (std::size_t k = 1; k <= tf.order && k < length; ++k) h[k] = b[i * tf.order + k - 1];
    divide(a, h);
    if (length > 0) h[0] = lift(tf.h0[i]);
    all.insert(all.end(), h.begin(), h.end());
  }
  return all;
}

double largest_slope(const Row<Dual>& h) {
  double largest = 0, change = 0;
  for (const Dual& value : h) {
    largest = std::max(largest, std::abs(value.value));
    for (const double slope : value.slope) {
      if (!std::isfinite(slope)) return std::numeric_limits<double>::infinity();
      change = std::max(change, std::abs(slope));
    }
  }
  return largest > 0 ? std::max(1.0, change / largest) : 1.0;
}

}  // namespace

std::vector<DoubleDouble> wide_kernel(const System& system, std::size_t length) {
  Exact exact;
  return std::visit([&](const auto& form) { return response(form, length, exact); }, system);
}

std::vector<DoubleDouble> wide_kernel(const MimoTransferFunction& tf, std::size_t length) {
  Exact exact;
  return response(tf, length, exact);
}

double sensitivity(const System& system, std::size_t length) {
  Moved moved;
  return largest_slope(std::visit([&](const auto& form) { return response(form, length, moved); }, system));
}

double sensitivity(const MimoTransferFunction& tf, std::size_t length) {
  Moved moved;
  return largest_slope(response(tf, length, moved));
}

}  // namespace rtf
