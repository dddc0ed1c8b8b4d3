// Convolution of rows too long for a block, forward. What lies between columns and rows goes through scratch memory, a
// few signals at a time, so that it stays in the L2 cache.
#include <algorithm>
#include <limits>
#include <string>

#include "cuda/convolution_columns.h"
#include "cuda/launch.h"
#include "rtf/error.h"

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

// One block's share of a step of a signal. Of every five tickets two are for columns, one for rows, and two for columns
// back, since rows take as long as the columns of twice as many blocks.
template <int radix>
struct Work {
  static constexpr int each = 5, stage_tickets = each * ColumnFft<radix>::row_blocks;
  static_assert(ColumnFft<radix>::blocks == 2 * ColumnFft<radix>::row_blocks);
  int step, block, signal;
  int b, c;   // of the signal
  int place;  // in the ring
  bool last, exists, ready;

  __device__ __forceinline__ void take(const Pipeline& pipeline, int batch, int ticket) {
    const int stage = ticket / stage_tickets, turn = ticket % stage_tickets / each, kind = ticket % each;
    step = kind < 2 ? Pipeline::columns_ahead : kind == 2 ? Pipeline::rows : Pipeline::columns_back;
    block = step == Pipeline::rows ? turn : 2 * turn + (kind == 1 || kind == 4);
    signal = stage - step * pipeline.lag;
    last = stage >= pipeline.stages();
    exists = signal >= 0 && signal < pipeline.signals;
    b = signal % batch;
    c = signal / batch;
    place = signal % pipeline.ring();
    ready = !exists || is_ready(pipeline);
  }

  // Whether what this needs is finished.
  __device__ __forceinline__ bool is_ready(const Pipeline& pipeline) const {
    if (step == Pipeline::columns_ahead) {
      const int before = signal - pipeline.ring();  // whose scratch this was
      return before < 0 || count(pipeline.finished(Pipeline::columns_back, before)) == ColumnFft<radix>::blocks;
    }
    if (step == Pipeline::rows)
      return count(pipeline.finished(Pipeline::columns_ahead, signal)) == ColumnFft<radix>::blocks;
    return count(pipeline.finished(Pipeline::rows, signal)) == ColumnFft<radix>::row_blocks;
  }

 private:
  static __device__ __forceinline__ int count(const int* counter) {
#ifdef __CUDA_ARCH__
    int seen;
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(seen) : "l"(counter) : "memory");
    return seen;
#else
    return *static_cast<const volatile int*>(counter);
#endif
  }
};

// The shared memory of a block: for the exchanges of rows or columns, and tables for both.
template <int radix>
struct Memory {
  static constexpr int exchange = std::max(ColumnFft<radix>::warps * warp::buffer, ColumnFft<radix>::exchange);
  static constexpr int size = exchange + warp::size + ColumnFft<radix>::parts;
  float2 *memory, *table;
  warp::TwiddleTable twiddles;

  __device__ __forceinline__ Memory()
      : memory(block_memory()),
        table(memory + exchange + warp::size),
        twiddles(warp::TwiddleTable::make(memory + exchange)) {
    ColumnFft<radix>::fill(table);
  }
};

template <int radix, class T>
__device__ __forceinline__ void do_work(const Work<radix>& work, const SignalSource<T>& source,
                                        const SignalSink<T, Ends::length>& sink, const Pipeline& pipeline,
                                        const Memory<radix>& memory) {
  using Columns = ColumnFft<radix>;
  const int b = work.b, c = work.c;
  float2* scratch = pipeline.scratch + std::int64_t(work.place) * Columns::size;
  if (work.step == Pipeline::columns_ahead) {
    const Columns at(work.block, memory.memory, memory.table);
    at.forward_from(source.row(b, c, at.first_sample()), scratch);
  } else if (work.step == Pipeline::rows) {
    wait_for_previous();
    const WarpRow at(memory.memory);
    const int part = work.block * Columns::warps + at.warp_index;
    const float2* k = keep(pipeline.spectrum + (std::int64_t(c) * Columns::parts + part) * warp::size + at.lane);
    float2 x[32];
    at.load(scratch + part * warp::size, x);
    warp::fft_forward(x, at.exchange, at.lane, memory.twiddles);
    unroll<32>([&](auto m) { x[m] = x[m] * load_here(k + 32 * m); });
    warp::fft_inverse(x, at.exchange, at.lane, memory.twiddles);
    at.store(x, scratch + part * warp::size);
  } else {
    const Columns at(work.block, memory.memory, memory.table);
    at.inverse_to(scratch, sink.row(b, c, at.first_sample()));
  }
}

// What a block has to know before it starts is found out while it works: the next ticket, and whether that has to wait.
// It tells that it has finished before it waits for others.
template <int radix, class T>
__global__ __launch_bounds__(32 * ColumnFft<radix>::warps, 16 / ColumnFft<radix>::warps)  //
    void convolve_pipeline(SignalSource<T> source, SignalSink<T, Ends::length> sink, Pipeline pipeline) {
  __shared__ Work<radix> works[2];
  const Memory<radix> memory;
  if (threadIdx.x == 0) works[0].take(pipeline, source.sizes.batch, atomicAdd(pipeline.counters, 1));
  __syncthreads();
  for (int turn = 0;; turn ^= 1) {
    const Work<radix>& work = works[turn];
    if (work.last) return;
    if (!work.ready) {
      if (threadIdx.x == 0)
        while (!work.is_ready(pipeline)) continue;
      __syncthreads();
    }
    const int next = threadIdx.x == 0 ? atomicAdd(pipeline.counters, 1) : 0;
    if (work.exists) do_work(work, source, sink, pipeline, memory);
    if (threadIdx.x == 0) works[turn ^ 1].take(pipeline, source.sizes.batch, next);
    __syncthreads();
    if (work.exists && threadIdx.x == 32) {
      __threadfence();
      atomicAdd(pipeline.finished(work.step, work.signal), 1);
    }
  }
}

constexpr int multiprocessors = 132;  // of the H200

// As far behind as keeps every block that can run at one time busy with other signals, three times: measured.
Pipeline make_pipeline(const Convolution& sizes, int size) {
  Pipeline pipeline{sizes.batch * sizes.channels, 0, nullptr, nullptr, nullptr};
  with_radix(size / warp::size, [&](auto radix) {
    const int resident = multiprocessors * (16 / ColumnFft<radix>::warps);
    pipeline.lag = 3 * resident / Work<radix>::stage_tickets + 2;
    // Every block takes tickets past the end before it knows, two at most.
    const std::int64_t stages = std::int64_t{pipeline.signals} + (Pipeline::steps - 1) * pipeline.lag;
    if (stages * Work<radix>::stage_tickets + 2 * resident > std::numeric_limits<int>::max())
      throw Error(ErrorCode::unsupported, "convolve",
                  std::to_string(pipeline.signals) + " rows are more than can be counted; a smaller batch is needed");
  });
  return pipeline;
}

template <class T>
void convolve_as(const Convolution& sizes, int size, Signal u, const Pipeline& pipeline, Signal y,
                 cudaStream_t stream) {
  with_radix(size / warp::size, [&](auto radix) {
    using Columns = ColumnFft<radix>;
    launch("convolve", Start::early, convolve_pipeline<radix, T>, dim3(multiprocessors * (16 / Columns::warps)),
           dim3(32 * Columns::warps), sizeof(float2) * Memory<radix>::size, stream,
           SignalSource<T>{sizes, u, Ends::valid}, SignalSink<T, Ends::length>{sizes, y}, pipeline);
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
