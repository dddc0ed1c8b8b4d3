#include "core/check_finite.h"
#include "core/roots.h"
#include "rtf/stability.h"

namespace rtf {

std::vector<std::complex<double>> poles(std::span<const double> a) {
  check_finite("poles", "a", a);
  const std::size_t order = a.size();
  while (!a.empty() && a.back() == 0) a = a.first(a.size() - 1);  // exact poles at zero, appended below
  std::vector<std::complex<double>> result = double_roots(a, "poles");
  result.resize(order, 0.0);
  return result;
}

}  // namespace rtf
