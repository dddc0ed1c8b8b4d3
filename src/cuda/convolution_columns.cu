// Convolution of rows too long for a block. A row of parts * 1,024 samples is a matrix of `parts` rows: its columns are
// transformed first, then each row of 1,024, in a warp, and the columns again on the way back. What lies between goes
// through scratch memory, some signals at a time, so that it stays in the L2 cache.
#include <algorithm>

#include "cuda/convolution_steps.h"
#include "cuda/launch.h"

namespace rtf::cuda::columns {
namespace {

// The signals that scratch holds at one time: channel by channel, so that a channel's spectrum serves all its sequences.
struct Tile {
  int first_sequence, sequences, first_channel, channels;
  int signals() const { return sequences * channels; }
};

struct Place {
  int b, c;
  __device__ __forceinline__ Place(const Tile& tile, int signal)
      : b(tile.first_sequence + signal % tile.sequences), c(tile.first_channel + signal / tile.sequences) {}
};

__device__ __forceinline__ float2* block_memory() {
  extern __shared__ float4 memory[];
  return reinterpret_cast<float2*>(memory);
}

// What other blocks of the same launch write must not come from this multiprocessor's own cache.
__device__ __forceinline__ float2 load_scratch(const float2* at) {
#ifdef __CUDA_ARCH__
  float2 value;
  asm volatile("ld.global.cg.v2.f32 {%0, %1}, [%2];" : "=f"(value.x), "=f"(value.y) : "l"(at) : "memory");
  return value;
#else
  return *at;
#endif
}

// Columns of parts = 16 * radix points, each in `radix` threads of as many warps; a block of 8 warps takes 32 columns
// or more. Thread w of a column has points w + radix * i, i < 16, in time, and frequencies w + radix * q + 16 * m,
// m < radix, q < 16 / radix.
template <int radix>
struct ColumnFft {
  static constexpr int parts = 16 * radix, size = parts * warp::size;
  static constexpr int warps = radix < 8 ? 8 : radix;  // of a block
  static constexpr int groups = warps / radix;         // of 32 columns in a block
  static constexpr int blocks = warp::size / 32 / groups;
  static constexpr std::size_t shared_bytes = groups * 16 * radix * 32 * sizeof(float2);

  float2* shared;
  int w, column;

  __device__ __forceinline__ explicit ColumnFft(int block) {
    const int lane = threadIdx.x % 32, group = threadIdx.x / 32 / radix;
    w = threadIdx.x / 32 % radix;
    column = (block * groups + group) * 32 + lane;
    shared = block_memory() + group * 16 * radix * 32 + lane;
  }

  __device__ __forceinline__ int first_sample() const { return w * warp::size + column; }
  static constexpr int sample(int i) { return i * radix * warp::size; }
  __device__ __forceinline__ float2& exchange(int k, int from) const { return shared[(k * radix + from) * 32]; }
  // Of the right-angle weight, the part that depends on i.
  template <int i>
  static __device__ __forceinline__ float2 weight() {
    constexpr constant::Root at = constant::root(-i, 64);
    return {at.re, at.im};
  }

  // f(k, factor) between the two stages, the weight of w included.
  template <class F>
  __device__ __forceinline__ void between_stages(F&& f) const {
    constexpr int step = root_count / parts;
    float2 power[4];
    unroll<4>([&](auto j) { power[j] = roots.at[((w << j) * step) & (root_count - 1)]; });
    for_powers<16>(roots.at[(-w * (step / 4)) & (root_count - 1)], power, f);
  }

  // f(index, part, factor) between columns and rows, the weight of the column included.
  template <class F>
  __device__ __forceinline__ void between_passes(F&& f) const {
    constexpr int q_levels = log2_of(16 / radix), m_levels = log2_of(radix);
    float2 q_power[q_levels + 1], m_power[m_levels + 1];
    unroll<q_levels>([&](auto j) { q_power[j] = root(column * (radix << j), size); });
    unroll<m_levels>([&](auto j) { m_power[j] = root(column * (16 << j), size); });
    for_powers<16 / radix>(root(column * (4 * w - 1), 4 * size), q_power, [&](auto q, float2 q_factor) {
      for_powers<radix>(q_factor, m_power, [&](auto m, float2 factor) {
        f(std::integral_constant<int, q * radix + m>(), w + radix * q + 16 * m, factor);
      });
    });
  }

  template <class Row>
  __device__ __forceinline__ void forward_from(const Row& row, float2* scratch) const {
    float2 x[16];
    unroll<16>([&](auto i) { x[i] = row(sample(i)) * weight<i>(); });
    fft<16, forward>(x);
    between_stages([&](auto k, float2 factor) { exchange(k, w) = x[k] * factor; });
    __syncthreads();
    unroll<16>([&](auto i) { x[i] = exchange(w + i / radix * radix, i % radix); });
    unroll<16 / radix>([&](auto q) { fft<radix, forward>(x + q * radix); });
    float2* to = scratch + column;
    between_passes([&](auto i, int part, float2 factor) { to[part * warp::size] = x[i] * factor; });
  }

  template <class Row>
  __device__ __forceinline__ void inverse_to(const float2* scratch, const Row& row) const {
    const float2* from = scratch + column;
    float2 x[16];
    unroll<16>([&](auto i) {
      x[i] = load_scratch(from + (w + i / radix * radix + 16 * (i % radix)) * warp::size);
    });
    between_passes([&](auto i, int, float2 factor) { x[i] = x[i] * conj(factor); });
    unroll<16 / radix>([&](auto q) { fft<radix, inverse>(x + q * radix); });
    unroll<16>([&](auto i) { exchange(w + i / radix * radix, i % radix) = x[i]; });
    __syncthreads();
    between_stages([&](auto k, float2 factor) { x[k] = exchange(k, w) * conj(factor); });
    fft<16, inverse>(x);
    unroll<16>([&](auto i) { row(sample(i), weight<i>(), x[i]); });
  }
};

template <int radix, class Source>
__global__ __launch_bounds__(32 * ColumnFft<radix>::warps, 32 / ColumnFft<radix>::warps) void columns_forward(
    Source source, Tile tile, float2* scratch) {
  const ColumnFft<radix> at(blockIdx.x);
  const Place place(tile, blockIdx.y);
  at.forward_from(source.row(place.b, place.c, at.first_sample()), scratch + std::int64_t(blockIdx.y) * at.size);
}

template <int radix, class Sink>
__global__ __launch_bounds__(32 * ColumnFft<radix>::warps, 32 / ColumnFft<radix>::warps) void columns_inverse(
    const float2* scratch, Tile tile, Sink sink) {
  const ColumnFft<radix> at(blockIdx.x);
  const Place place(tile, blockIdx.y);
  at.inverse_to(scratch + std::int64_t(blockIdx.y) * at.size, sink.row(place.b, place.c, at.first_sample()));
}

// A warp's 1,024 points in memory.
struct WarpRow {
  float2* exchange;
  int lane, warp_index;

  __device__ __forceinline__ WarpRow() {
    lane = threadIdx.x % 32, warp_index = threadIdx.x / 32;
    exchange = block_memory() + warp_index * warp::buffer;
  }
  __device__ __forceinline__ void load(const float2* from, float2* x) const {
    unroll<32>([&](auto i) { x[i] = load_scratch(from + lane + 32 * i); });
  }
  __device__ __forceinline__ void store(const float2* x, float2* to) const {
    unroll<32>([&](auto i) { to[lane + 32 * i] = x[i]; });
  }
  // In place: forward, times the spectrum, and back.
  __device__ __forceinline__ void convolve(float2* row, const float2* spectrum) const {
    float2 x[32];
    load(row, x);
    warp::fft_forward(x, exchange, lane);
    unroll<32>([&](auto m) { x[m] = x[m] * load_here(spectrum + lane + 32 * m); });
    warp::fft_inverse(x, exchange, lane);
    store(x, row);
  }
};
constexpr int warps = 8;  // of a block
constexpr std::size_t row_bytes = warps * warp::buffer * sizeof(float2);

// All steps of a convolution in one launch: while some blocks transform the columns of one signal, which waits for
// memory, others transform the rows of an earlier one, which computes. Blocks take their work in the order of a ticket,
// and none waits but for work of an earlier ticket: some block has that already, so the wait ends.
struct Pipeline {
  int signals, lag;        // rows follow the forward columns `lag` signals behind, the inverse columns as far behind
  int* counters;           // zero before the launch: the ticket, then for each signal the finished blocks of each step
  float2* scratch;         // of ring() signals
  const float2* spectrum;

  static constexpr int counter_count(int signals) { return 1 + 3 * signals; }
  __host__ __device__ int ring() const { return 3 * lag; }
  enum Step { columns_ahead, rows, columns_back };
  __device__ __forceinline__ int* finished(Step step, int signal) const { return counters + 1 + 3 * signal + step; }
};

// For every thread of the block.
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
__device__ __forceinline__ void finish(int* counter) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    atomicAdd(counter, 1);
  }
}

template <int radix, class T>
__global__ __launch_bounds__(32 * ColumnFft<radix>::warps, 16 / ColumnFft<radix>::warps) void convolve_pipeline(
    SignalSource<T> source, SignalSink<T> sink, Pipeline pipeline) {
  using Columns = ColumnFft<radix>;
  constexpr int column_blocks = Columns::blocks, row_blocks = Columns::parts / Columns::warps;
  static_assert(column_blocks == 2 * row_blocks);
  __shared__ int ticket;
  if (threadIdx.x == 0) ticket = atomicAdd(pipeline.counters, 1);
  __syncthreads();
  // Of every five blocks two transform columns, one rows and two columns back.
  const int stage = ticket / (5 * row_blocks), block = ticket % (5 * row_blocks) / 5, kind = ticket % 5;
  const auto step = kind < 2 ? Pipeline::columns_ahead : kind < 3 ? Pipeline::rows : Pipeline::columns_back;
  const int signal = stage - step * pipeline.lag;
  if (signal < 0 || signal >= pipeline.signals) return;
  const int batch = source.sizes.batch, b = signal % batch, c = signal / batch;
  float2* scratch = pipeline.scratch + std::int64_t(signal % pipeline.ring()) * Columns::size;
  if (step == Pipeline::columns_ahead) {
    const int before = signal - pipeline.ring();  // whose scratch this is
    if (before >= 0) wait_for(pipeline.finished(Pipeline::columns_back, before), column_blocks);
    const Columns at(2 * block + kind);
    at.forward_from(source.row(b, c, at.first_sample()), scratch);
  } else if (step == Pipeline::rows) {
    wait_for(pipeline.finished(Pipeline::columns_ahead, signal), column_blocks);
    const WarpRow at;
    const int part = block * Columns::warps + at.warp_index;
    at.convolve(scratch + part * warp::size,
                pipeline.spectrum + (std::int64_t(c) * Columns::parts + part) * warp::size);
  } else {
    wait_for(pipeline.finished(Pipeline::rows, signal), row_blocks);
    const Columns at(2 * block + kind - 3);
    at.inverse_to(scratch, sink.row(b, c, at.first_sample()));
  }
  finish(pipeline.finished(step, signal));
}

// In place: rows of scratch one way, scaled.
template <int sign>
__global__ __launch_bounds__(32 * warps, 2) void rows_transform(float2* scratch, int rows, float scale) {
  const WarpRow at;
  const int index = blockIdx.x * warps + at.warp_index;
  if (index >= rows) return;
  float2* row = scratch + std::int64_t(index) * warp::size;
  float2 x[32];
  at.load(row, x);
  if constexpr (sign == forward)
    warp::fft_forward(x, at.exchange, at.lane);
  else
    warp::fft_inverse(x, at.exchange, at.lane);
  unroll<32>([&](auto i) { x[i] = scale * x[i]; });
  at.store(x, row);
}

// One part of one channel: its warps take the sequences in turn, then their sums are added in the order of the warps.
__global__ __launch_bounds__(32 * warps, 1) void rows_backward(float2* dy, const float2* u, int parts, Tile tile,
                                                              const float2* spectrum, float2* sum) {
  const WarpRow at;
  const int part = blockIdx.x, c = blockIdx.y;
  const std::int64_t place = (std::int64_t(tile.first_channel + c) * parts + part) * warp::size;
  const float2* k = spectrum + place + at.lane;
  float2 share[32] = {};
  for (int b = at.warp_index; b < tile.sequences; b += warps) {
    const std::int64_t row = (std::int64_t(c * tile.sequences + b) * parts + part) * warp::size;
    float2 x[32], g[32];
    at.load(u + row, x);
    warp::fft_forward(x, at.exchange, at.lane);
    at.load(dy + row, g);
    warp::fft_forward(g, at.exchange, at.lane);
    unroll<32>([&](auto m) {
      share[m] = share[m] + conj(x[m]) * g[m];
      g[m] = conj(load_here(k + 32 * m)) * g[m];
    });
    warp::fft_inverse(g, at.exchange, at.lane);
    at.store(g, dy + row);
  }
  __syncwarp();
  unroll<32>([&](auto m) { at.exchange[at.lane + 32 * m] = share[m]; });
  __syncthreads();
  const float2* shares = at.exchange - at.warp_index * warp::buffer;
  for (int i = threadIdx.x; i < warp::size; i += 32 * warps) {
    float2 total = tile.first_sequence > 0 ? sum[place + i] : float2{0.f, 0.f};
    for (int w = 0; w < warps; ++w) total = total + shares[w * warp::buffer + i];
    sum[place + i] = total;
  }
}

// run(std::integral_constant<int, radix>) for columns of `parts` points.
template <class F>
void with_radix(int parts, F&& run) {
  switch (parts / 16) {
    case 2: return run(std::integral_constant<int, 2>());
    case 4: return run(std::integral_constant<int, 4>());
    case 8: return run(std::integral_constant<int, 8>());
    default: return run(std::integral_constant<int, 16>());
  }
}

template <class Source>
void forward_pass(const char* operation, int parts, const Source& source, const Tile& tile, float2* scratch,
                  cudaStream_t stream) {
  with_radix(parts, [&](auto radix) {
    launch(operation, columns_forward<radix, Source>, dim3(ColumnFft<radix>::blocks, tile.signals()),
           dim3(32 * ColumnFft<radix>::warps),
           ColumnFft<radix>::shared_bytes, stream, source, tile, scratch);
  });
}

template <class Sink>
void inverse_pass(const char* operation, int parts, const float2* scratch, const Tile& tile, const Sink& sink,
                  cudaStream_t stream) {
  with_radix(parts, [&](auto radix) {
    launch(operation, columns_inverse<radix, Sink>, dim3(ColumnFft<radix>::blocks, tile.signals()),
           dim3(32 * ColumnFft<radix>::warps),
           ColumnFft<radix>::shared_bytes, stream, scratch, tile, sink);
  });
}

int row_blocks(std::int64_t rows) { return static_cast<int>((rows + warps - 1) / warps); }

// run(tile) for every tile of at most `signals` signals, the sequences of a channel in order.
template <class F>
void for_tiles(const Convolution& sizes, int signals, F&& run) {
  const int sequences = std::min(sizes.batch, signals);
  const int channels = std::clamp(signals / std::max(sizes.batch, 1), 1, 65535 / sequences);
  for (int c = 0; c < sizes.channels; c += channels)
    for (int b = 0; b < sizes.batch; b += sequences)
      run(Tile{b, std::min(sequences, sizes.batch - b), c, std::min(channels, sizes.channels - c)});
}

int signals_in(std::size_t bytes, int size) {
  return static_cast<int>(std::max<std::size_t>(1, bytes / sizeof(float2) / size));
}

// As far behind as keeps every block that can run at one time busy with another signal.
int lag_of(int parts) {
  const int warps_of_block = std::max(8, parts / 16), resident = 132 * (16 / warps_of_block);
  return resident / (5 * parts / warps_of_block) + 2;
}

template <class T>
void convolve_as(const Convolution& sizes, int size, Signal u, const float2* spectrum, Signal y, float2* scratch,
                 cudaStream_t stream) {
  const int signals = sizes.batch * sizes.channels, parts = size / warp::size;
  Pipeline pipeline{signals, lag_of(parts), nullptr, scratch, spectrum};
  pipeline.counters = reinterpret_cast<int*>(scratch + std::int64_t(pipeline.ring()) * size);
  check("convolve", cudaMemsetAsync(pipeline.counters, 0, sizeof(int) * Pipeline::counter_count(signals), stream));
  with_radix(parts, [&](auto radix) {
    using Columns = ColumnFft<radix>;
    constexpr int row_blocks = Columns::parts / Columns::warps;
    launch("convolve", convolve_pipeline<radix, T>, dim3(5 * row_blocks * (signals + 2 * pipeline.lag)),
           dim3(32 * Columns::warps), sizeof(float2) * Columns::warps * warp::buffer, stream,
           SignalSource<T>{sizes, u, Ends::valid}, SignalSink<T>{sizes, y, Ends::length}, pipeline);
  });
}

template <class T>
void backward_as(const Convolution& sizes, int size, Signal dy, Signal u, const float2* spectrum, Signal du,
                 float2* sum, float2* scratch, cudaStream_t stream) {
  const int parts = size / warp::size, signals = signals_in(backward_scratch_bytes / 2, size);
  float2 *scratch_dy = scratch, *scratch_u = scratch + std::int64_t(signals) * size;
  for_tiles(sizes, signals, [&](const Tile& tile) {
    const char* operation = "convolve_backward";
    forward_pass(operation, parts, SignalSource<T>{sizes, u, Ends::valid}, tile, scratch_u, stream);
    forward_pass(operation, parts, SignalSource<T>{sizes, dy, Ends::length}, tile, scratch_dy, stream);
    launch(operation, rows_backward, dim3(parts, tile.channels), dim3(32 * warps), row_bytes, stream, scratch_dy,
           scratch_u, parts, tile, spectrum, sum);
    inverse_pass(operation, parts, scratch_dy, tile, SignalSink<T>{sizes, du, Ends::valid}, stream);
  });
}

template <int sign>
void transform_rows(const char* operation, float2* rows, int channels, int size, cudaStream_t stream) {
  const int count = channels * (size / warp::size);
  launch(operation, rows_transform<sign>, dim3(row_blocks(count)), dim3(32 * warps), row_bytes, stream, rows, count,
         1.f / size);
}

// A kernel has one sequence.
template <class F>
void for_kernel_tiles(int channels, F&& run) {
  for (int c = 0; c < channels; c += 65535) run(Tile{0, 1, c, std::min(65535, channels - c)});
}

}  // namespace

std::size_t convolve_scratch_bytes(const Convolution& sizes, int size) {
  const Pipeline pipeline{sizes.batch * sizes.channels, lag_of(size / warp::size), nullptr, nullptr, nullptr};
  return sizeof(float2) * pipeline.ring() * size + sizeof(int) * Pipeline::counter_count(pipeline.signals);
}

void spectrum(const KernelSource& kernel, float2* out, cudaStream_t stream) {
  for_kernel_tiles(kernel.channels, [&](const Tile& tile) {
    forward_pass("convolve", kernel.size / warp::size, kernel, tile, out + std::int64_t(tile.first_channel) * kernel.size,
                 stream);
  });
  transform_rows<forward>("convolve", out, kernel.channels, kernel.size, stream);
}

void convolve(const Convolution& sizes, int size, Signal u, const float2* spectrum, Signal y, float2* scratch,
              cudaStream_t stream) {
  sizes.storage == Storage::float32 ? convolve_as<float>(sizes, size, u, spectrum, y, scratch, stream)
                                    : convolve_as<__nv_bfloat16>(sizes, size, u, spectrum, y, scratch, stream);
}

void backward(const Convolution& sizes, int size, Signal dy, Signal u, const float2* spectrum, Signal du, float2* sum,
              float2* scratch, cudaStream_t stream) {
  sizes.storage == Storage::float32
      ? backward_as<float>(sizes, size, dy, u, spectrum, du, sum, scratch, stream)
      : backward_as<__nv_bfloat16>(sizes, size, dy, u, spectrum, du, sum, scratch, stream);
}

void gradient(float2* sum, const KernelSink& kernel, cudaStream_t stream) {
  transform_rows<inverse>("convolve_backward", sum, kernel.channels, kernel.size, stream);
  for_kernel_tiles(kernel.channels, [&](const Tile& tile) {
    inverse_pass("convolve_backward", kernel.size / warp::size, sum + std::int64_t(tile.first_channel) * kernel.size, tile,
                 kernel, stream);
  });
}

}  // namespace rtf::cuda::columns
