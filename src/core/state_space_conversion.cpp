// Dense state space to one denominator and its numerators, with eigenvalues and without.
#include <algorithm>
#include <utility>

#include "core/eigenvalues.h"
#include "core/hessenberg.h"
#include "core/rational.h"
#include "core/roots.h"

namespace rtf {
namespace {

using Wide = DoubleDouble;
using Row = std::vector<Wide>;

// c_1..c_n of det(zI - M) by the eigenvalues.
Row polynomial_of_eigenvalues(const std::vector<double>& matrix, std::size_t n) {
  return expand(paired_roots(eigenvalues(matrix, n, MatrixShape::dense, "convert")));
}

MimoRational by_eigenvalues(const StateSpace& s) {
  const std::size_t n = s.order;
  MimoRational result{polynomial_of_eigenvalues(s.A, n), {}};
  std::vector<double> changed(n * n);
  for (std::size_t i = 0; i < s.outputs; ++i)
    for (std::size_t j = 0; j < s.inputs; ++j) {
      for (std::size_t row = 0; row < n; ++row)
        for (std::size_t column = 0; column < n; ++column)
          changed[row * n + column] = s.A[row * n + column] - s.B[row * s.inputs + j] * s.C[i * n + column];
      const Row polynomial = polynomial_of_eigenvalues(changed, n);
      for (std::size_t k = 0; k < n; ++k) result.b.push_back(polynomial[k] - result.a[k]);
    }
  return result;
}

// c_1..c_n of det(zI - M), by the leading minors of the Hessenberg form:
// p_k = z p_{k-1} - sum_{i<=k} m_ik (product of the subdiagonal from i to k) p_{i-1}.
Row characteristic_polynomial(Row m, std::size_t n) {
  Row none(n);
  reduce_to_hessenberg(m, none, none);
  std::vector<Row> p{{1.0}};  // p[k][l] is the coefficient of z^{k-l}
  for (std::size_t k = 0; k < n; ++k) {
    Row next = p[k];
    next.push_back(0.0);
    Wide chain = 1.0;
    for (std::size_t i = k + 1; i-- > 0;) {
      const Wide factor = m[i * n + k] * chain;
      if (factor.high != 0)
        for (std::size_t l = 0; l <= i; ++l) next[k - i + 1 + l] = next[k - i + 1 + l] - factor * p[i][l];
      if (i == 0) break;
      chain = chain * m[i * n + i - 1];
      if (chain.high == 0) break;
    }
    p.push_back(std::move(next));
  }
  return {p[n].begin() + 1, p[n].end()};
}

// b_k = sum_{j<k} a_j h_{k-j} with h_t = C A^{t-1} B and a_0 = 1.
MimoRational by_markov_parameters(const StateSpace& s) {
  const std::size_t n = s.order;
  const Row matrix(s.A.begin(), s.A.end());
  MimoRational result{characteristic_polynomial(matrix, n), Row(s.outputs * s.inputs * n)};
  Row x(n), next(n);
  for (std::size_t j = 0; j < s.inputs; ++j) {
    for (std::size_t k = 0; k < n; ++k) x[k] = s.B[k * s.inputs + j];
    for (std::size_t t = 1; t <= n; ++t) {
      for (std::size_t i = 0; i < s.outputs; ++i) {
        Wide h = 0.0;
        for (std::size_t k = 0; k < n; ++k) h = h + Wide(s.C[i * n + k]) * x[k];
        Wide* b = result.b.data() + (i * s.inputs + j) * n;
        b[t - 1] = b[t - 1] + h;
        for (std::size_t k = t + 1; k <= n; ++k) b[k - 1] = b[k - 1] + result.a[k - t - 1] * h;
      }
      for (std::size_t row = 0; row < n; ++row) {
        next[row] = 0.0;
        for (std::size_t k = 0; k < n; ++k)
          if (s.A[row * n + k] != 0) next[row] = next[row] + matrix[row * n + k] * x[k];
      }
      std::swap(x, next);
    }
  }
  // What is left of leading terms that cancel is rounding of 106 bits: a delay stays a delay.
  for (std::size_t entry = 0; entry < s.outputs * s.inputs; ++entry) {
    Wide* b = result.b.data() + entry * n;
    double largest = 0;
    for (std::size_t k = 0; k < n; ++k) largest = std::max(largest, abs(b[k]).high);
    for (std::size_t k = 0; k < n && abs(b[k]).high < 0x1p-90 * largest; ++k) b[k] = 0.0;
  }
  return result;
}

}  // namespace

MimoRational to_rational(const StateSpace& system, StateSpaceMethod route) {
  return route == StateSpaceMethod::markov ? by_markov_parameters(system) : by_eigenvalues(system);
}

}  // namespace rtf
