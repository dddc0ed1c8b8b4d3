// Algorithm 1 and its gradient. Rows of up to 2^14 samples stay on chip, a block a channel: transform a and b, divide,
// transform back, one launch. Longer ones: wrapped_kernel_long.cu.
#include <algorithm>

#include "cuda/denominator_sum.h"
#include "cuda/launch.h"
#include "cuda/real_row.h"
#include "cuda/wrapped_kernel.h"
#include "cuda/wrapped_kernel_long.h"

namespace rtf::cuda {
namespace {

constexpr std::size_t shared_limit = (RTF_CUDA_CAPABILITY >= 90 ? 227 : 163) * 1024;

// Arrays of one spectrum each: in shared memory behind the exchange as far as they fit, the others in the workspace.
template <int length, int count>
struct Slots {
  using Row = RealRow<length>;
  static constexpr int in_shared =
      std::min<int>(count, static_cast<int>((shared_limit - Row::exchange_bytes) / Row::spectrum_bytes));
  static constexpr std::size_t shared_bytes = Row::exchange_bytes + in_shared * Row::spectrum_bytes;
  static constexpr std::size_t workspace_bytes = (count - in_shared) * Row::spectrum_bytes;  // of each block

  __device__ static double2* at(int index, char* shared, char* workspace) {
    char* bytes = index < in_shared
                      ? shared + Row::exchange_bytes + index * Row::spectrum_bytes
                      : workspace + blockIdx.x * workspace_bytes + (index - in_shared) * Row::spectrum_bytes;
    return reinterpret_cast<double2*>(bytes);
  }
};

// Work in pieces of up to `channels` channels of one group, so that large groups share their denominator's transform.
struct Chunks {
  int64_t channels, per_group, total;
};

struct Arguments {
  KernelSizes sizes;
  Chunks chunks;
  Numbers a, b, h0, kernel;
  Numbers dk, da, db, dh0;  // of the gradient
  char* slots;
};

struct ChannelRange {
  int64_t group, first, count;
};

__device__ ChannelRange channels_of(const Arguments& p, int64_t chunk) {
  const int64_t each = p.sizes.channels / p.sizes.groups, group = chunk / p.chunks.per_group;
  const int64_t begin = chunk % p.chunks.per_group * p.chunks.channels;
  return {group, group * each + begin, min(p.chunks.channels, each - begin)};
}

__device__ NumberRow coefficients(Numbers numbers, int64_t row, int64_t order, double leading) {
  return {numbers, row * order, static_cast<int>(order), 1, leading};
}

template <int length>
__global__ void __launch_bounds__(RealRow<length>::threads, RealRow<length>::blocks) kernel_rows(const Arguments p) {
  using Slot = Slots<length, 1>;
  extern __shared__ __align__(16) char shared[];
  let_next_start();
  if constexpr (length > 8192) {  // on their way while the tables are made; shorter rows come sooner than this pays
    const ChannelRange range = channels_of(p, blockIdx.x);
    prefetch(coefficients(p.a, range.group, p.sizes.order, 1));
    prefetch(coefficients(p.b, range.first, p.sizes.order, 0));
  }
  RealRow<length> row(shared);
  double2* inverse_a = Slot::at(0, shared, p.slots);
  for (int64_t chunk = blockIdx.x; chunk < p.chunks.total; chunk += gridDim.x) {
    const ChannelRange range = channels_of(p, chunk);
    // One copy of the transforms' code for the denominator and every channel: fetching it costs as much as running it.
#pragma unroll 1
    for (int64_t step = 0; step <= range.count; ++step) {
      const int64_t channel = range.first + step - 1;
      row.forward(step == 0 ? coefficients(p.a, range.group, p.sizes.order, 1)
                            : coefficients(p.b, channel, p.sizes.order, 0));
      if (step == 0) {
        row.combine(inverse_a, [](double2& x, double2& y, bool edge) { y = invert(x, edge); });
        continue;
      }
      row.combine(inverse_a, [](double2& x, double2& y, bool edge) { x = multiply(x, y, edge); });
      row.inverse();
      if (threadIdx.x == 0) row.z[0].x += load_number(p.h0, channel);
#pragma unroll
      for (int i = 0; i < row.numbers; ++i) {
        const int64_t at = channel * (length / 2) + threadIdx.x + i * row.stride;
        if (p.kernel.type == Type::float32)
          static_cast<float2*>(p.kernel.data)[at] = make_float2(row.z[i].x, row.z[i].y);
        else
          static_cast<double2*>(p.kernel.data)[at] = row.z[i];
      }
    }
  }
}

// With G the transform of dk: dB = G / conj(A), dA = - sum over channels of dB conj(B / A).
template <int length>
__global__ void __launch_bounds__(RealRow<length>::threads, RealRow<length>::blocks)
    kernel_rows_vjp(const Arguments p) {
  using Slot = Slots<length, 3>;
  extern __shared__ __align__(16) char shared[];
  let_next_start();
  RealRow<length> row(shared);
  // The quotient comes before dk is there; in the workspace, which may be in use until then, it cannot.
  if constexpr (Slot::in_shared < 2) wait_for_previous();
  double2* inverse_a = Slot::at(0, shared, p.slots);
  double2* quotient = Slot::at(1, shared, p.slots);
  double2* sum = Slot::at(2, shared, p.slots);
  const int64_t order = p.sizes.order;
  for (int64_t chunk = blockIdx.x; chunk < p.chunks.total; chunk += gridDim.x) {
    const ChannelRange range = channels_of(p, chunk);
#pragma unroll 1
    for (int64_t step = 0; step <= 2 * range.count; ++step) {
      const int64_t channel = range.first + (step - 1) / 2;
      const bool numerator = step % 2 == 1;
      if (step == 2) wait_for_previous();
      row.forward(step == 0   ? coefficients(p.a, range.group, order, 1)
                  : numerator ? coefficients(p.b, channel, order, 0)
                              : NumberRow{p.dk, channel * length, length, 0, 0});
      if (step == 0) {
        row.combine(inverse_a, [](double2& x, double2& y, bool edge) { y = invert(x, edge); });
        continue;
      }
      if (numerator) {
        row.combine(inverse_a, [](double2& x, double2& y, bool edge) { x = multiply(x, y, edge); });
        row.combine(quotient, [](double2& x, double2& y, bool) { y = x; });
        continue;
      }
      const bool first = step == 2, last = step == 2 * range.count;
      row.combine(inverse_a, [](double2& x, double2& y, bool edge) { x = multiply(x, conjugate(y, edge), edge); });
      row.combine(quotient, [](double2& x, double2& y, bool edge) { y = multiply(x, conjugate(y, edge), edge); });
#pragma unroll
      for (int i = 0; i < row.numbers; ++i) {
        const int at = threadIdx.x + i * row.stride;
        sum[at] = first ? -1.0 * quotient[at] : sum[at] - quotient[at];
      }
#pragma unroll 1
      for (int result = 0; result < (last ? 2 : 1); ++result) {
        if (result == 1) row.combine(sum, [](double2& x, double2& y, bool) { x = y; });
        row.inverse();
        row.store(result == 0 ? coefficients(p.db, channel, order, 0) : coefficients(p.da, chunk, order, 0));
      }
      if (threadIdx.x == 0) store_number(p.dh0, channel, load_number(p.dk, channel * length));
    }
  }
}

template <int length, int slots>
int64_t resident_blocks(const char* operation, void (*kernel)(const Arguments)) {
  static const int64_t count = [&] {
    constexpr std::size_t bytes = Slots<length, slots>::shared_bytes;
    allow_shared_memory(operation, reinterpret_cast<const void*>(kernel), bytes);
    int device = 0, processors = 0, blocks = 0;
    check(operation, cudaGetDevice(&device));
    check(operation, cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
    check(operation, cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, RealRow<length>::threads, bytes));
    return static_cast<int64_t>(processors) * std::max(blocks, 1);
  }();
  return count;
}

// How one of the two kernels runs for some sizes.
struct Launch {
  const char* operation;
  void (*kernel)(const Arguments);
  int threads;
  std::size_t shared_bytes, slot_bytes;
  Chunks chunks;
  int64_t blocks;

  std::size_t workspace() const { return blocks * slot_bytes; }
};

template <int length, int slots>
Launch plan_launch(const char* operation, const KernelSizes& sizes, void (*kernel)(const Arguments)) {
  const int64_t resident = resident_blocks<length, slots>(operation, kernel), each = sizes.channels_per_group();
  Chunks chunks;
  chunks.channels = std::clamp<int64_t>(ceil_div(sizes.channels, resident), 1, each);
  chunks.per_group = ceil_div(each, chunks.channels);
  chunks.total = chunks.per_group * sizes.groups;
  using Slot = Slots<length, slots>;
  return {operation,
          kernel,
          RealRow<length>::threads,
          Slot::shared_bytes,
          Slot::workspace_bytes,
          chunks,
          std::min(chunks.total, resident)};
}

template <int length>
Launch plan_launch(const KernelSizes& sizes, bool gradient) {
  return gradient ? plan_launch<length, 3>("kernel_backward", sizes, kernel_rows_vjp<length>)
                  : plan_launch<length, 1>("kernel", sizes, kernel_rows<length>);
}

Launch plan_launch(const KernelSizes& sizes, bool gradient) {
  return with_one_of<1024, 2048, 4096, 8192, 16384>(static_cast<int>(sizes.length),
                                                    [&](auto length) { return plan_launch<length>(sizes, gradient); });
}

// kernel_rows not early: blocks that start beside the ones before them pile up on some processors (measured: a quarter
// slower). kernel_rows_vjp early behind the gradient of a convolution: a whole pass of a layer from 2 % slower to 8 %
// faster, 1,024 to 16,384 samples.
void run(const Launch& plan, const Arguments& arguments, cudaStream_t stream, Start start = Start::after) {
  cuda::launch(plan.operation, start, plan.kernel, static_cast<unsigned>(plan.blocks), plan.threads, plan.shared_bytes,
               stream, arguments);
}

constexpr int64_t longest_row = 1 << 14;

std::size_t partial_bytes(const KernelSizes& sizes, const Chunks& chunks) {
  return chunks.per_group == 1 ? 0 : chunks.total * sizes.order * sizeof(double);
}

}  // namespace

bool wrapped_kernel_serves(int64_t length) {
  return length >= 1 << 10 && length <= longest_long_row && (length & (length - 1)) == 0;
}

std::size_t wrapped_kernel_workspace(const KernelSizes& sizes) {
  return sizes.length > longest_row ? long_workspace(sizes) : plan_launch(sizes, false).workspace();
}

std::size_t wrapped_kernel_vjp_workspace(const KernelSizes& sizes) {
  if (sizes.length > longest_row) return long_vjp_workspace(sizes);
  const Launch launch = plan_launch(sizes, true);
  return launch.workspace() + partial_bytes(sizes, launch.chunks);
}

void wrapped_kernel(const KernelSizes& sizes, Numbers a, Numbers b, Numbers h0, Numbers kernel, void* workspace,
                    cudaStream_t stream) {
  if (sizes.length > longest_row) return long_kernel(sizes, a, b, h0, kernel, workspace, stream);
  const Launch launch = plan_launch(sizes, false);
  run(launch, {sizes, launch.chunks, a, b, h0, kernel, {}, {}, {}, {}, static_cast<char*>(workspace)}, stream);
}

void wrapped_kernel_vjp(const KernelSizes& sizes, Numbers dk, Numbers a, Numbers b, Numbers da, Numbers db, Numbers dh0,
                        void* workspace, cudaStream_t stream, bool beside) {
  if (sizes.length > longest_row) return long_kernel_vjp(sizes, dk, a, b, da, db, dh0, workspace, stream);
  const Launch launch = plan_launch(sizes, true);
  Numbers partial = da;  // of each chunk; the sum over those of a group comes after
  if (launch.chunks.per_group > 1) partial = {static_cast<char*>(workspace) + launch.workspace(), Type::float64};
  run(launch, {sizes, launch.chunks, a, b, {}, {}, dk, partial, db, dh0, static_cast<char*>(workspace)}, stream,
      beside ? Start::early : Start::after);
  if (launch.chunks.per_group > 1)
    sum_denominators(
        "kernel_backward",
        {static_cast<const double*>(partial.data), nullptr, da, sizes.groups, launch.chunks.per_group, sizes.order},
        stream);
}

}  // namespace rtf::cuda
