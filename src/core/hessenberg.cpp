#include "core/hessenberg.h"

#include <utility>

namespace rtf {

using Wide = DoubleDouble;
using Row = std::vector<Wide>;

void reduce_to_hessenberg(Row& m, Row& b, Row& c) {
  const std::size_t n = b.size();
  for (std::size_t k = 1; k + 1 < n; ++k) {
    std::size_t pivot = k;
    for (std::size_t i = k + 1; i < n; ++i)
      if (abs(m[pivot * n + k - 1]) < abs(m[i * n + k - 1])) pivot = i;
    if (m[pivot * n + k - 1].high == 0) continue;
    if (pivot != k) {
      for (std::size_t j = 0; j < n; ++j) std::swap(m[k * n + j], m[pivot * n + j]);
      for (std::size_t i = 0; i < n; ++i) std::swap(m[i * n + k], m[i * n + pivot]);
      std::swap(b[k], b[pivot]);
      std::swap(c[k], c[pivot]);
    }
    const Wide inverse = reciprocal(m[k * n + k - 1]);
    for (std::size_t i = k + 1; i < n; ++i) {
      if (m[i * n + k - 1].high == 0) continue;
      const Wide factor = m[i * n + k - 1] * inverse;
      m[i * n + k - 1] = 0.0;
      for (std::size_t j = k; j < n; ++j) m[i * n + j] = m[i * n + j] - factor * m[k * n + j];
      b[i] = b[i] - factor * b[k];
      for (std::size_t row = 0; row < n; ++row) m[row * n + k] = m[row * n + k] + factor * m[row * n + i];
      c[k] = c[k] + factor * c[i];
    }
  }
}

// Elimination in (zI - m, b; -c, d): row k + 1 may change places with row k, the last one stays the last.
Determinants determinants(const Row& m, const Row& b, const Row& c, const Wide& d, const WideComplex& z) {
  const std::size_t n = b.size();
  const auto row_of = [&](std::size_t i) {  // from column i - 1 on
    std::vector<WideComplex> row;
    for (std::size_t j = i == 0 ? 0 : i - 1; j < n; ++j) row.emplace_back(-m[i * n + j]);
    row[i == 0 ? 0 : 1] = row[i == 0 ? 0 : 1] + z;
    row.emplace_back(b[i]);
    return row;
  };
  std::vector<WideComplex> last;
  for (const Wide& x : c) last.emplace_back(-x);
  last.emplace_back(d);
  ScaledProduct product;
  std::vector<WideComplex> current = n > 0 ? row_of(0) : last;
  for (std::size_t k = 0; k < n; ++k) {
    std::vector<WideComplex> next;  // both from column k on
    if (k + 1 < n) {
      next = row_of(k + 1);
      if (norm(current[0]) < norm(next[0])) {
        std::swap(current, next);
        product.value = WideComplex(Wide(0.0)) - product.value;
      }
    }
    product.multiply(current[0]);
    const WideComplex inverse = reciprocal(current[0]);
    const auto eliminate = [&](WideComplex* row) {
      const WideComplex factor = row[0] * inverse;
      for (std::size_t j = 1; j < current.size(); ++j) row[j] = row[j] - factor * current[j];
    };
    eliminate(last.data() + k);
    if (next.empty()) continue;
    eliminate(next.data());
    next.erase(next.begin());
    current = std::move(next);
  }
  return {product, last[n]};
}

}  // namespace rtf
