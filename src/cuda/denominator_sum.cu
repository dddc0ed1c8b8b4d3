#include <algorithm>

#include "cuda/denominator_sum.h"
#include "cuda/launch.h"
#include "cuda/number_rows.h"

namespace rtf::cuda {
namespace {

constexpr int columns = 32, parts = 16;

struct Sums {
  DenominatorSum at[3];
};

// A block has 32 coefficients of a group: `parts` threads each sum every parts-th term, then one adds their sums.
// blockIdx.z: which sum.
__global__ void __launch_bounds__(columns* parts) sum_terms(const __grid_constant__ Sums sums) {
  const DenominatorSum& p = sums.at[blockIdx.z];
  const int64_t blocks = ceil_div(p.order, columns);  // of a group
  if (blockIdx.x >= p.groups * blocks) return;
  __shared__ double partial[parts][columns];
  const int64_t k = blockIdx.x % blocks * columns + threadIdx.x, group = blockIdx.x / blocks;
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

void sum_denominators(const char* operation, const DenominatorSum& sum, cudaStream_t stream) {
  sum_denominators(operation, {sum}, stream);
}

void sum_denominators(const char* operation, std::initializer_list<DenominatorSum> sums, cudaStream_t stream) {
  Sums all = {};
  std::copy(sums.begin(), sums.end(), all.at);
  int64_t blocks = 0;
  for (const DenominatorSum& sum : sums) blocks = std::max(blocks, sum.groups * ceil_div(sum.order, columns));
  if (blocks == 0) return;
  // Along x: there may be more groups, and more coefficients, than the other dimensions take.
  const dim3 grid(static_cast<unsigned>(blocks), 1, static_cast<unsigned>(sums.size()));
  launch(operation, sum_terms, grid, dim3(columns, parts), 0, stream, all);
}

}  // namespace rtf::cuda
