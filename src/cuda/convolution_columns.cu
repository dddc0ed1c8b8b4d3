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
//
// Signals go in groups: the kernel of a channel, then the sequences of the channel `lead` before it, so that their
// spectrum is ready when they come.
struct Pipeline {
  int batch, channels, lead;
  int lag;          // rows follow the forward columns `lag` signals behind, the inverse columns as far behind
  int* counters;    // zero before the launch: the ticket, then for each signal the finished blocks of each step
  float2* scratch;  // of ring() signals
  float2* spectrum;
  KernelSource kernel;

  enum Step { columns_ahead, rows, columns_back };
  static constexpr int steps = 3;
  __host__ __device__ int group() const { return batch + 1; }
  __host__ __device__ int signals() const { return group() * (channels + lead); }
  __host__ __device__ int ring() const { return steps * lag; }
  __host__ __device__ int stages() const { return signals() + (steps - 1) * lag; }
  __host__ __device__ int counter_count() const { return 1 + steps * signals(); }
  __device__ __forceinline__ int* finished(int step, int signal) const { return counters + 1 + steps * signal + step; }
};

// Which signal it is, if there is one.
struct SignalPlace {
  int b, c;
  bool is_kernel, exists;

  __device__ __forceinline__ SignalPlace(const Pipeline& pipeline, int signal) {
    const int group = signal / pipeline.group();
    b = signal % pipeline.group() - 1;
    is_kernel = b < 0;
    c = is_kernel ? group : group - pipeline.lead;
    exists = signal >= 0 && c >= 0 && c < pipeline.channels;
  }
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
  bool is_kernel, last, exists, ready;

  __device__ __forceinline__ void take(const Pipeline& pipeline, int ticket) {
    const int stage = ticket / stage_tickets, turn = ticket % stage_tickets / each, kind = ticket % each;
    step = kind < 2 ? Pipeline::columns_ahead : kind == 2 ? Pipeline::rows : Pipeline::columns_back;
    block = step == Pipeline::rows ? turn : 2 * turn + (kind == 1 || kind == 4);
    signal = stage - step * pipeline.lag;
    place = signal % pipeline.ring();
    const SignalPlace of(pipeline, signal);
    b = of.b, c = of.c, is_kernel = of.is_kernel;
    last = stage >= pipeline.stages();
    exists = of.exists && !(is_kernel && step == Pipeline::columns_back);
    ready = !exists || is_ready(pipeline);
  }

  // Whether what this needs is finished.
  __device__ __forceinline__ bool is_ready(const Pipeline& pipeline) const {
    if (step == Pipeline::columns_ahead) {
      const int before = signal - pipeline.ring();  // whose scratch this was
      const SignalPlace of(pipeline, before);
      return !of.exists || finished(pipeline, of.is_kernel ? Pipeline::rows : Pipeline::columns_back, before);
    }
    if (step == Pipeline::columns_back) return finished(pipeline, Pipeline::rows, signal);
    return finished(pipeline, Pipeline::columns_ahead, signal) &&
           (is_kernel || finished(pipeline, Pipeline::rows, c * pipeline.group()));
  }

 private:
  static __device__ __forceinline__ bool finished(const Pipeline& pipeline, int step, int signal) {
    const int* counter = pipeline.finished(step, signal);
    int seen;
#ifdef __CUDA_ARCH__
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(seen) : "l"(counter) : "memory");
#else
    seen = *static_cast<const volatile int*>(counter);
#endif
    return seen == (step == Pipeline::rows ? ColumnFft<radix>::row_blocks : ColumnFft<radix>::blocks);
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
  float2* scratch = pipeline.scratch + std::int64_t(work.place) * Columns::size;
  if (work.step == Pipeline::columns_ahead) {
    const Columns at(work.block, memory.memory, memory.table);
    float2 x[16];
    if (work.is_kernel)
      at.load(pipeline.kernel.row(0, work.c, at.first_sample()), x);
    else
      at.load(source.row(work.b, work.c, at.first_sample()), x);
    at.transform(x, scratch);
  } else if (work.step == Pipeline::rows) {
    const WarpRow at(memory.memory);
    const int part = work.block * Columns::warps + at.warp_index;
    float2* row = scratch + part * warp::size;
    float2* k = pipeline.spectrum + (std::int64_t(work.c) * Columns::parts + part) * warp::size;
    float2 x[32];
    at.load(row, x);
    warp::fft_forward(x, at.exchange, at.lane, memory.twiddles);
    if (work.is_kernel) {
      constexpr float scale = 1.f / Columns::size;
      unroll<32>([&](auto m) { x[m] = scale * x[m]; });
      at.store(x, k);
    } else {
      k = keep(k + at.lane);
      unroll<32>([&](auto m) { x[m] = x[m] * load_scratch(k + 32 * m); });
      warp::fft_inverse(x, at.exchange, at.lane, memory.twiddles);
      at.store(x, row);
    }
  } else {
    const Columns at(work.block, memory.memory, memory.table);
    at.inverse_to(scratch, sink.row(work.b, work.c, at.first_sample()));
  }
}

// What a block has to know before it starts is found out while it works: the next ticket, and whether that has to wait.
// It tells that it has finished before it waits for others.
template <int radix, class T>
__global__ __launch_bounds__(32 * ColumnFft<radix>::warps, 16 / ColumnFft<radix>::warps)  //
    void convolve_pipeline(SignalSource<T> source, SignalSink<T, Ends::length> sink, Pipeline pipeline) {
  __shared__ Work<radix> works[2];
  const Memory<radix> memory;
  if (threadIdx.x == 0) works[0].take(pipeline, atomicAdd(pipeline.counters, 1));
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
    // Where to tell; once the threads have met, the first may already write its next work here.
    int* finished = work.exists ? pipeline.finished(work.step, work.signal) : nullptr;
    if (work.exists) do_work(work, source, sink, pipeline, memory);
    if (threadIdx.x == 0) works[turn ^ 1].take(pipeline, next);
    __syncthreads();
    if (finished && threadIdx.x == 32) {
      __threadfence();
      atomicAdd(finished, 1);
    }
  }
}

// As far behind as keeps every block that can run at one time busy with other signals, three times.
Pipeline make_pipeline(const Convolution& sizes, const KernelSource& kernel) {
  Pipeline pipeline = {};
  pipeline.batch = sizes.batch;
  pipeline.channels = sizes.channels;
  pipeline.kernel = kernel;
  with_radix(kernel.size / warp::size, [&](auto radix) {
    const int resident = multiprocessors * (16 / ColumnFft<radix>::warps);
    pipeline.lag = 3 * resident / Work<radix>::stage_tickets + 2;
    pipeline.lead = pipeline.lag / pipeline.group() + 1;
    // Every block takes tickets past the end before it knows, two at most.
    const std::int64_t signals = std::int64_t{pipeline.group()} * (pipeline.channels + pipeline.lead);
    const std::int64_t stages = signals + (Pipeline::steps - 1) * pipeline.lag;
    if (stages * Work<radix>::stage_tickets + 2 * resident > std::numeric_limits<int>::max())
      throw Error(ErrorCode::unsupported, "convolve",
                  std::to_string(signals) + " rows are more than can be counted; a smaller batch is needed");
  });
  return pipeline;
}

template <class T>
void convolve_as(const Convolution& sizes, Signal u, const Pipeline& pipeline, Signal y, cudaStream_t stream) {
  with_radix(pipeline.kernel.size / warp::size, [&](auto radix) {
    using Columns = ColumnFft<radix>;
    launch("convolve", convolve_pipeline<radix, T>, dim3(multiprocessors * (16 / Columns::warps)),
           dim3(32 * Columns::warps), sizeof(float2) * Memory<radix>::size, stream,
           SignalSource<T>{sizes, u, Ends::valid}, SignalSink<T, Ends::length>{sizes, y}, pipeline);
  });
}

}  // namespace

std::size_t convolve_scratch_bytes(const Convolution& sizes, const KernelSource& kernel) {
  const Pipeline pipeline = make_pipeline(sizes, kernel);
  return sizeof(float2) * pipeline.ring() * kernel.size + sizeof(int) * pipeline.counter_count();
}

void convolve(const Convolution& sizes, Signal u, const KernelSource& kernel, float2* spectrum, Signal y,
              float2* scratch, cudaStream_t stream) {
  Pipeline pipeline = make_pipeline(sizes, kernel);
  pipeline.scratch = scratch;
  pipeline.spectrum = spectrum;
  pipeline.counters = reinterpret_cast<int*>(scratch + std::int64_t(pipeline.ring()) * kernel.size);
  check("convolve", cudaMemsetAsync(pipeline.counters, 0, sizeof(int) * pipeline.counter_count(), stream));
  sizes.storage == Storage::float32 ? convolve_as<float>(sizes, u, pipeline, y, stream)
                                    : convolve_as<__nv_bfloat16>(sizes, u, pipeline, y, stream);
}

}  // namespace rtf::cuda::columns
