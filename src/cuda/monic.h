// Filters divided by the first coefficient of their denominators, and the gradient of that.
#pragma once

#include "cuda/wrapped_kernel.h"

namespace rtf::cuda {

// (b_0 + b_1 w + ...) / (a_0 + a_1 w + ...) of each channel as h0 + (b_1 w + ... + b_n w^n) / (1 + a_1 w + ...). What
// is past the columns is zero; b has one row for all channels or one for each; all is contiguous.
struct Monic {
  int64_t channels, denominators, a_columns, b_rows, b_columns, order;
  Numbers a, b;
};

// a (denominators, order), b (channels, order), h0 (channels)
void monic(const Monic& filters, double* a, double* b, double* h0, cudaStream_t stream);

// From the gradients of those to that of the coefficients, in their types: to_a like a, and to_b like b where that has
// a row for each channel, else (denominators, columns of b), still to be added up. `gains` is scratch, (channels).
void monic_vjp(const Monic& filters, const double* da, const double* db, const double* dh0, double* gains, Numbers to_a,
               Numbers to_b, cudaStream_t stream);

}  // namespace rtf::cuda
