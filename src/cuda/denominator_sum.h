// The gradient of a shared denominator: a sum over what its channels contribute, in a fixed order.
#pragma once

#include <initializer_list>

#include "cuda/wrapped_kernel.h"

namespace rtf::cuda {

// sums (groups, order) = `before` (groups, order), unless it is null, plus the sum of terms (groups, terms_per_group,
// order) over its middle dimension. `sums` may be `before`.
struct DenominatorSum {
  const double* terms;
  const double* before;
  Numbers sums;
  int64_t groups, terms_per_group, order;
};

void sum_denominators(const char* operation, const DenominatorSum& sum, cudaStream_t stream);

// Up to three of them in one launch.
void sum_denominators(const char* operation, std::initializer_list<DenominatorSum> sums, cudaStream_t stream);

}  // namespace rtf::cuda
