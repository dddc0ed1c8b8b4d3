#include "core/check_finite.h"
#include "core/eigenvalues.h"
#include "rtf/stability.h"

namespace rtf {

std::vector<std::complex<double>> poles(std::span<const double> a) {
  check_finite("poles", "a", a);
  const std::size_t order = a.size();
  while (!a.empty() && a.back() == 0) a = a.first(a.size() - 1);  // exact poles at zero, appended below
  const std::size_t n = a.size();
  std::vector<double> companion(n * n, 0.0);
  for (std::size_t k = 0; k < n; ++k) companion[k] = -a[k];
  for (std::size_t k = 1; k < n; ++k) companion[k * n + k - 1] = 1.0;
  std::vector<std::complex<double>> result = eigenvalues(companion, n, MatrixShape::hessenberg, "poles");
  result.resize(order, 0.0);
  return result;
}

}  // namespace rtf
