// Convolution of rows too long for a block, forward. What lies between columns and rows goes through scratch memory, a
// few signals at a time, so that it stays in the L2 cache.
#include <algorithm>

#include "cuda/convolution_columns.h"
#include "cuda/launch.h"

namespace rtf::cuda::columns {
namespace {

// All steps of a convolution in one launch: while some blocks transform the columns of one signal, which waits for
// memory, others transform the rows of an earlier one, which computes. Blocks take their work in the order of a ticket,
// and none waits but for work of earlier tickets. The least of those that are not finished is being worked on, and
// waits for nothing: so there is always progress.
struct Pipeline {
  int signals, lag;  // rows follow the forward columns `lag` signals behind, the inverse columns as far behind
  int* counters;     // zero before the launch: the ticket, then for each signal the finished blocks of each step
  float2* scratch;   // of ring() signals
  const float2* spectrum;

  enum Step { columns_ahead, rows, columns_back };
  static constexpr int steps = 3;
  __host__ __device__ int ring() const { return steps * lag; }
  __host__ __device__ int stages() const { return signals + (steps - 1) * lag; }
  __host__ __device__ int counter_count() const { return 1 + steps * signals; }
  __device__ __forceinline__ int* finished(int step, int signal) const { return counters + 1 + steps * signal + step; }
};

// Waits until `count` blocks have finished; for every thread of the block.
__device__ __forceinline__ void wait_for(const int* counter, int count) {
#ifdef __CUDA_ARCH__
  if (threadIdx.x == 0) {
    int seen;
    do asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(seen) : "l"(counter) : "memory");
    while (seen < count);
  }
#endif
  __syncthreads();
}

template <int radix, class T>
__global__ __launch_bounds__(32 * ColumnFft<radix>::warps, 16 / ColumnFft<radix>::warps)  //
    void convolve_pipeline(SignalSource<T> source, SignalSink<T> sink, Pipeline pipeline) {
  using Columns = ColumnFft<radix>;
  constexpr int blocks = Columns::blocks;
  __shared__ int tickets[2];
  if (threadIdx.x == 0) tickets[0] = atomicAdd(pipeline.counters, 1);
  __syncthreads();
  for (int turn = 0;; turn ^= 1) {
    const int ticket = tickets[turn];
    const int stage = ticket / (Pipeline::steps * blocks), step = ticket % Pipeline::steps;
    const int block = ticket % (Pipeline::steps * blocks) / Pipeline::steps;
    if (stage >= pipeline.stages()) return;
    // The next ticket is on its way while this one is worked on.
    const int next = threadIdx.x == 0 ? atomicAdd(pipeline.counters, 1) : 0;
    const int signal = stage - step * pipeline.lag;
    const bool exists = signal >= 0 && signal < pipeline.signals;
    if (exists) {
      const int batch = source.sizes.batch, b = signal % batch, c = signal / batch;
      float2* scratch = pipeline.scratch + std::int64_t(signal % pipeline.ring()) * Columns::size;
      if (step == Pipeline::columns_ahead) {
        const int before = signal - pipeline.ring();  // whose scratch this was
        if (before >= 0) wait_for(pipeline.finished(Pipeline::columns_back, before), blocks);
        const Columns at(block);
        at.forward_from(source.row(b, c, at.first_sample()), scratch);
      } else if (step == Pipeline::rows) {
        wait_for(pipeline.finished(Pipeline::columns_ahead, signal), blocks);
        wait_for_previous();
        const WarpRow at;
        const int part = block * Columns::warps + at.warp_index;
        const float2* k = pipeline.spectrum + (std::int64_t(c) * Columns::parts + part) * warp::size + at.lane;
        float2 x[32];
        at.load(scratch + part * warp::size, x);
        warp::fft_forward(x, at.exchange, at.lane);
        unroll<32>([&](auto m) { x[m] = x[m] * load_here(k + 32 * m); });
        warp::fft_inverse(x, at.exchange, at.lane);
        at.store(x, scratch + part * warp::size);
      } else {
        wait_for(pipeline.finished(Pipeline::rows, signal), blocks);
        const Columns at(block);
        at.inverse_to(scratch, sink.row(b, c, at.first_sample()));
      }
    }
    if (threadIdx.x == 0) tickets[turn ^ 1] = next;
    __syncthreads();
    // Another warp than the one that asks for tickets and waits.
    if (exists && threadIdx.x == 32) {
      __threadfence();
      atomicAdd(pipeline.finished(step, signal), 1);
    }
  }
}

constexpr int multiprocessors = 132;  // of the H200

// As far behind as keeps every block that can run at one time busy with other signals, twice.
Pipeline make_pipeline(const Convolution& sizes, int size) {
  const int parts = size / warp::size, warps = std::max(4, parts / 32);
  const int resident = multiprocessors * (16 / warps), blocks = Pipeline::steps * parts / warps;
  return {sizes.batch * sizes.channels, 2 * resident / blocks + 2, nullptr, nullptr, nullptr};
}

template <class T>
void convolve_as(const Convolution& sizes, int size, Signal u, const Pipeline& pipeline, Signal y,
                 cudaStream_t stream) {
  with_radix(size / warp::size, [&](auto radix) {
    using Columns = ColumnFft<radix>;
    launch("convolve", Start::early, convolve_pipeline<radix, T>, dim3(multiprocessors * (16 / Columns::warps)),
           dim3(32 * Columns::warps), Columns::shared_bytes, stream, SignalSource<T>{sizes, u, Ends::valid},
           SignalSink<T>{sizes, y, Ends::length}, pipeline);
  });
}

}  // namespace

std::size_t convolve_scratch_bytes(const Convolution& sizes, int size) {
  const Pipeline pipeline = make_pipeline(sizes, size);
  return sizeof(float2) * pipeline.ring() * size + sizeof(int) * pipeline.counter_count();
}

void convolve(const Convolution& sizes, int size, Signal u, const KernelSource& kernel, float2* spectrum, Signal y,
              float2* scratch, cudaStream_t stream) {
  Pipeline pipeline = make_pipeline(sizes, size);
  pipeline.scratch = scratch;
  pipeline.spectrum = spectrum;
  pipeline.counters = reinterpret_cast<int*>(scratch + std::int64_t(pipeline.ring()) * size);
  check("convolve", cudaMemsetAsync(pipeline.counters, 0, sizeof(int) * pipeline.counter_count(), stream));
  columns::spectrum(kernel, spectrum, stream);
  sizes.storage == Storage::float32 ? convolve_as<float>(sizes, size, u, pipeline, y, stream)
                                    : convolve_as<__nv_bfloat16>(sizes, size, u, pipeline, y, stream);
}

}  // namespace rtf::cuda::columns
