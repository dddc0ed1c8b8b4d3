// Power series and polynomials in double, short products directly and long ones by FFT.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace rtf {

// The first `size` coefficients of x * y.
std::vector<double> multiply(std::span<const double> x, std::span<const double> y, std::size_t size);

// sum |x_i|.
double l1_norm(std::span<const double> x);

// The e with 2^(e-1) <= max |x_i| < 2^e; 0 when all are zero. Divided by 2^e, squares fit a double.
int binary_exponent(std::span<const double> x);

// 1, a_1, ..., a_n.
std::vector<double> with_leading_one(std::span<const double> a);

// 1 / (1 + a_1 w + ... + a_n w^n) mod w^length by Newton doubling.
std::vector<double> inverse_series(std::span<const double> a, std::size_t length);

// The same by the recurrence, term by term: O(order * length).
std::vector<double> inverse_series_recurrence(std::span<const double> a, std::size_t length);

// The cheaper of the two.
std::vector<double> inverse_series_automatic(std::span<const double> a, std::size_t length);

// sum_{k=1}^{n} b_k w^k / A mod w^length by long division: O(order * length).
std::vector<double> divide_series(std::span<const double> b, std::span<const double> a, std::size_t length);

// Coefficients c_0..c_{n-1} of z^exponent mod D(z) = z^n + a_1 z^{n-1} + ... + a_n, by repeated squaring; n >= 1.
std::vector<double> power_modulo(std::size_t exponent, std::span<const double> a);

}  // namespace rtf
