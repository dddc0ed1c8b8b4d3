#include "core/fit_rounding.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "core/double_double.h"

namespace rtf {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using Wide = DoubleDouble;
using Row = std::vector<Wide>;
using Columns = std::vector<Row>;

// x / A with A = 1 + a_1 w + ...
Row divided(Row x, const Row& a) {
  for (std::size_t t = 1; t < x.size(); ++t)
    for (std::size_t k = 1; k <= std::min(a.size(), t); ++k) x[t] = x[t] - a[k - 1] * x[t - k];
  return x;
}

Row delayed(const Row& x, std::size_t by) {
  Row result(x.size(), Wide(0.0));
  for (std::size_t t = by; t < x.size(); ++t) result[t] = x[t - by];
  return result;
}

Wide dot(const Row& x, const Row& y) {
  Wide sum = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) sum = sum + x[i] * y[i];
  return sum;
}

void subtract(const Wide& factor, const Row& from, Row& x) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = x[i] - factor * from[i];
}

double norm(const Row& x) { return std::sqrt(dot(x, x).high); }

// Q R of columns in an order that is chosen on the way: `next` says which of those left comes next, by their norms.
struct Orthogonal {
  Columns q, r;                    // r[i][j]: column order[j] along q[i], j >= i
  std::vector<std::size_t> order;  // of the columns
};

template <class Next>
Orthogonal orthogonal(Columns columns, const Next& next) {
  const std::size_t n = columns.size();
  Orthogonal result{{}, Columns(n, Row(n, Wide(0.0))), {}};
  std::vector<std::size_t> left(n);
  for (std::size_t i = 0; i < n; ++i) left[i] = i;
  Columns along(n);  // of every column, what was taken from it so far
  while (!left.empty()) {
    const std::size_t place = next(columns, left), taken = left[place], i = result.q.size();
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(place));
    result.order.push_back(taken);
    Row unit = columns[taken];
    for (std::size_t j = 0; j < i; ++j) {  // what rounding left of those before
      const Wide rest = dot(result.q[j], unit);
      subtract(rest, result.q[j], unit);
    }
    const double length = norm(unit);
    const Wide inverse = reciprocal(Wide(length > 0 ? length : 1.0));
    for (Wide& x : unit) x = x * inverse;
    along[taken].push_back(length);
    for (const std::size_t other : left) {
      along[other].push_back(dot(unit, columns[other]));
      subtract(along[other].back(), unit, columns[other]);
    }
    result.q.push_back(std::move(unit));
  }
  for (std::size_t j = 0; j < n; ++j)
    for (std::size_t i = 0; i <= j; ++i) result.r[i][j] = along[result.order[j]][i];
  return result;
}

constexpr auto in_order = [](const Columns&, const std::vector<std::size_t>&) { return std::size_t{0}; };

// R x = Q^T y in the order of Q R, and y less what it explains.
Row solved(const Orthogonal& qr, Row& y) {
  const std::size_t n = qr.q.size();
  Row x(n);
  for (std::size_t i = 0; i < n; ++i) {
    x[i] = dot(qr.q[i], y);
    subtract(x[i], qr.q[i], y);
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t j = i + 1; j < n; ++j) x[i] = x[i] - qr.r[i][j] * x[j];
    x[i] = x[i] * reciprocal(qr.r[i][i]);
  }
  return x;
}

// A denominator with the best numerators for it, and the derivative of what they leave, all channels below each other.
struct State {
  Columns b;  // (channels)
  Row residual;
  Columns slopes;  // (order): of the response, with numerators making up for what they can
};

State state_of(const Columns& data, const Row& a) {
  const std::size_t n = a.size(), rows = data[0].size();
  Row impulse(rows, Wide(0.0));
  impulse[0] = 1.0;
  const Row g = divided(impulse, a);
  Columns numerators;
  for (std::size_t k = 0; k < n; ++k) numerators.push_back(delayed(g, k));
  const Orthogonal basis = orthogonal(std::move(numerators), in_order);
  State state{{}, {}, Columns(n)};
  for (const Row& samples : data) {
    Row rest = samples, response = samples;
    state.b.push_back(solved(basis, rest));
    for (std::size_t t = 0; t < rows; ++t) response[t] = samples[t] - rest[t];
    state.residual.insert(state.residual.end(), rest.begin(), rest.end());
    const Row slope = divided(response, a);
    for (std::size_t k = 0; k < n; ++k) {
      Row column = delayed(slope, k + 1);
      for (Wide& x : column) x = -x;
      for (const Row& q : basis.q) subtract(dot(q, column), q, column);
      state.slopes[k].insert(state.slopes[k].end(), column.begin(), column.end());
    }
  }
  return state;
}

// Nearest plane (Babai): from the last on, every coefficient becomes the double nearest to where the rounding of those
// before it has moved it. Those come last whose rounding costs most, because all others can still make up for it.
Row rounded(const Row& a, const Columns& slopes) {
  const auto cheapest = [&](const Columns& columns, const std::vector<std::size_t>& left) {
    std::size_t best = 0;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < left.size(); ++i) {
      const double size = std::abs(a[left[i]].high);
      const double cost = norm(columns[left[i]]) * std::ldexp(1.0, size > 0 ? std::ilogb(size) : 0);
      if (cost >= least) continue;
      least = cost;
      best = i;
    }
    return best;
  };
  const Orthogonal qr = orthogonal(slopes, cheapest);
  const std::size_t n = a.size();
  Row result(n), moved(n);
  for (std::size_t i = n; i-- > 0;) {
    Wide shift = 0.0;
    for (std::size_t j = i + 1; j < n; ++j) shift = shift + qr.r[i][j] * moved[j];
    const std::size_t k = qr.order[i];
    result[k] = (a[k] - shift * reciprocal(qr.r[i][i])).high;
    moved[i] = result[k] - a[k];
  }
  return result;
}

}  // namespace

std::optional<FitPoint> rounded_together(const KernelTarget& target, const FitPoint& start) {
  constexpr double close = 1e-6,
                   exact = 1e-14;  // of the norm: beyond, something else than rounding is left, or nothing
  constexpr double longest = 1e6;  // half a second
  const auto n = static_cast<std::size_t>(target.order);
  const double error = std::sqrt(start.error);
  if (!(error <= close) || error <= exact || n == 0) return std::nullopt;
  if (static_cast<double>(target.data.size()) * static_cast<double>(n * n) > longest) return std::nullopt;
  Columns data;
  for (Index c = 0; c < target.data.cols(); ++c)
    data.emplace_back(target.data.col(c).begin(), target.data.col(c).end());
  Row a(start.a.begin(), start.a.end());
  State state = state_of(data, a);
  const double before = norm(state.residual);
  // Gauss and Newton, from a start that is right to many digits.
  double last = before;
  for (int step = 0; step < 4; ++step) {
    Row rest = state.residual, moved = a;
    const Row change = solved(orthogonal(state.slopes, in_order), rest);
    for (std::size_t k = 0; k < n; ++k) moved[k] = a[k] + change[k];
    State next = state_of(data, moved);
    const double now = norm(next.residual);
    if (!(now < last)) break;
    last = now;
    a = std::move(moved);
    state = std::move(next);
  }
  a = rounded(a, state.slopes);
  state = state_of(data, a);
  if (!(norm(state.residual) < before)) return std::nullopt;
  FitPoint result;
  result.a = VectorXd(target.order);
  for (std::size_t k = 0; k < n; ++k) result.a[static_cast<Index>(k)] = a[k].high;
  if (!target.allows(result.a)) return std::nullopt;
  result.numerators = MatrixXd(target.order, target.data.cols());
  result.residual = MatrixXd(target.data.rows(), target.data.cols());
  for (std::size_t c = 0; c < data.size(); ++c)
    for (std::size_t k = 0; k < n; ++k)
      result.numerators(static_cast<Index>(k), static_cast<Index>(c)) = state.b[c][k].high;
  for (Index i = 0; i < result.residual.size(); ++i)
    result.residual.data()[i] = state.residual[static_cast<std::size_t>(i)].high;
  result.error = result.residual.squaredNorm();
  return result;
}

}  // namespace rtf
