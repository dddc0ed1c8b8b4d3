#include "cuda/denominator_sum.h"
#include "cuda/launch.h"
#include "cuda/number_rows.h"

namespace rtf::cuda {
namespace {

constexpr int columns = 32, parts = 16;

// A block has 32 coefficients of a group: `parts` threads each sum every parts-th term, then one adds their sums.
__global__ void __launch_bounds__(columns* parts) sum_terms(const DenominatorSum p) {
  __shared__ double partial[parts][columns];
  const int64_t k = static_cast<int64_t>(blockIdx.x) * columns + threadIdx.x, group = blockIdx.y;
  double sum = 0;
  if (k < p.order)
    for (int64_t term = threadIdx.y; term < p.terms_per_group; term += parts)
      sum += p.terms[(group * p.terms_per_group + term) * p.order + k];
  partial[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || k >= p.order) return;
  for (int part = 1; part < parts; ++part) sum += partial[part][threadIdx.x];
  if (p.before) sum += p.before[group * p.order + k];
  store_number(p.sums, group * p.order + k, sum);
}

}  // namespace

void sum_denominators(const DenominatorSum& sum, cudaStream_t stream) {
  if (sum.order == 0) return;
  const dim3 grid(static_cast<unsigned>((sum.order + columns - 1) / columns), static_cast<unsigned>(sum.groups));
  launch("kernel_backward", sum_terms, grid, dim3(columns, parts), 0, stream, sum);
}

}  // namespace rtf::cuda
