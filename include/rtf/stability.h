// Where the poles are, and how ill-conditioned a denominator is.
#pragma once

#include <complex>
#include <cstddef>
#include <span>
#include <vector>

#include "rtf/transfer_function.h"

namespace rtf {

// Schur-Cohn: every pole strictly inside the unit circle. Exact up to rounding, O(order^2), no eigenvalues.
bool is_stable(std::span<const double> a);

// Roots of z^n A(z), largest modulus first: eigenvalues of the balanced companion matrix, beyond order 128 by Aberth's
// iteration in O(order^2) a sweep.
std::vector<std::complex<double>> poles(std::span<const double> a);

// Largest pole modulus by bisection on Schur-Cohn of a(rw): no eigenvalues, relative accuracy 1e-12. 0 for order 0.
double pole_radius(std::span<const double> a);

// min |A| over the `length`-th roots of unity: near zero, Algorithm 1 and its gradients are ill-conditioned.
double min_abs_denominator(std::span<const double> a, std::size_t length);

// kappa = |a|_1 |1/A|_1 over `length` samples: what rounding in any form with state may be multiplied by.
double condition(std::span<const double> a, std::size_t length);

// The largest condition of the groups.
double condition(const TransferFunction& tf, std::size_t length);

}  // namespace rtf
