// Other ways to write one channel of a transfer function.
#pragma once

#include <array>
#include <complex>
#include <vector>

namespace rtf {

// h_0 = h0, h_t = sum_i residues[i] poles[i]^(t-1): distinct poles, complex ones in pairs beside each other.
struct Modal {
  std::vector<std::complex<double>> poles, residues;
  double h0 = 0;
};

// H(z) = h0 + gain prod_i (z - zeros[i]) / prod_i (z - poles[i]). SciPy's (z, p, k) is the same with h0 = 0.
struct ZeroPoleGain {
  std::vector<std::complex<double>> zeros, poles;
  double gain = 0, h0 = 0;
};

// H = product of (b0 + b1 w + b2 w^2) / (a0 + a1 w + a2 w^2), rows as SciPy has them: b0 b1 b2 a0 a1 a2.
struct SecondOrderSections {
  std::vector<std::array<double, 6>> sections;
};

// SciPy's (b, a): H = sum b_k w^k / sum a_k w^k, a[0] not zero, the feed-through inside b.
struct PolynomialRatio {
  std::vector<double> b, a;
};

}  // namespace rtf
