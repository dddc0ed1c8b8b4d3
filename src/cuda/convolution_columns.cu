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

// A column of parts = 16 * radix points lies in `radix` threads, one in each warp; a block takes 32 columns. Thread w
// has points w + radix * i, i < 16, in time, and frequencies w + radix * q + 16 * m, m < radix, q < 16 / radix.
template <int radix>
struct ColumnFft {
  static constexpr int parts = 16 * radix, size = parts * warp::size;
  static constexpr std::size_t shared_bytes = 16 * radix * 32 * sizeof(float2);

  float2* shared;
  int lane, w, column;

  __device__ __forceinline__ ColumnFft() {
    extern __shared__ float4 memory[];
    shared = reinterpret_cast<float2*>(memory);
    lane = threadIdx.x % 32, w = threadIdx.x / 32, column = blockIdx.x * 32 + lane;
  }

  __device__ __forceinline__ int first_sample() const { return w * warp::size + column; }
  static constexpr int sample(int i) { return i * radix * warp::size; }
  __device__ __forceinline__ float2& exchange(int k, int from) const { return shared[(k * radix + from) * 32 + lane]; }
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
};

template <int radix, class Source>
__global__ __launch_bounds__(32 * radix, 32 / radix) void columns_forward(Source source, Tile tile, float2* scratch) {
  const ColumnFft<radix> at;
  const Place place(tile, blockIdx.y);
  const auto row = source.row(place.b, place.c, at.first_sample());
  float2 x[16];
  unroll<16>([&](auto i) { x[i] = row(at.sample(i)) * at.template weight<i>(); });
  fft<16, forward>(x);
  at.between_stages([&](auto k, float2 factor) { at.exchange(k, at.w) = x[k] * factor; });
  __syncthreads();
  unroll<16>([&](auto i) { x[i] = at.exchange(at.w + i / radix * radix, i % radix); });
  unroll<16 / radix>([&](auto q) { fft<radix, forward>(x + q * radix); });
  float2* to = scratch + std::int64_t(blockIdx.y) * at.size + at.column;
  at.between_passes([&](auto i, int part, float2 factor) { to[part * warp::size] = x[i] * factor; });
}

template <int radix, class Sink>
__global__ __launch_bounds__(32 * radix, 32 / radix) void columns_inverse(const float2* scratch, Tile tile, Sink sink) {
  const ColumnFft<radix> at;
  const Place place(tile, blockIdx.y);
  const float2* from = scratch + std::int64_t(blockIdx.y) * at.size + at.column;
  float2 x[16];
  unroll<16>([&](auto i) {
    x[i] = __ldcg(from + (at.w + i / radix * radix + 16 * (i % radix)) * warp::size);
  });
  at.between_passes([&](auto i, int, float2 factor) { x[i] = x[i] * conj(factor); });
  unroll<16 / radix>([&](auto q) { fft<radix, inverse>(x + q * radix); });
  unroll<16>([&](auto i) { at.exchange(at.w + i / radix * radix, i % radix) = x[i]; });
  __syncthreads();
  at.between_stages([&](auto k, float2 factor) { x[k] = at.exchange(k, at.w) * conj(factor); });
  fft<16, inverse>(x);
  const auto to = sink.row(place.b, place.c, at.first_sample());
  unroll<16>([&](auto i) { to(at.sample(i), at.template weight<i>(), x[i]); });
}

// A warp's 1,024 points in memory.
struct WarpRow {
  float2* exchange;
  int lane, warp_index;

  __device__ __forceinline__ WarpRow() {
    extern __shared__ float4 memory[];
    lane = threadIdx.x % 32, warp_index = threadIdx.x / 32;
    exchange = reinterpret_cast<float2*>(memory) + warp_index * warp::buffer;
  }
  __device__ __forceinline__ void load(const float2* from, float2* x) const {
    unroll<32>([&](auto i) { x[i] = load_here(from + lane + 32 * i); });
  }
  __device__ __forceinline__ void store(const float2* x, float2* to) const {
    unroll<32>([&](auto i) { to[lane + 32 * i] = x[i]; });
  }
};
constexpr int warps = 8;  // of a block
constexpr std::size_t row_bytes = warps * warp::buffer * sizeof(float2);

// In place: rows of scratch forward, times the spectrum, and back. Warps of one block share a row of the spectrum.
__global__ __launch_bounds__(32 * warps, 2) void rows_convolve(float2* scratch, int parts, Tile tile,
                                                              const float2* spectrum) {
  const WarpRow at;
  const int index = blockIdx.x * warps + at.warp_index;
  const int b = index % tile.sequences, part = index / tile.sequences % parts, c = index / tile.sequences / parts;
  if (c >= tile.channels) return;
  float2* row = scratch + (std::int64_t(c * tile.sequences + b) * parts + part) * warp::size;
  const float2* k = spectrum + (std::int64_t(tile.first_channel + c) * parts + part) * warp::size + at.lane;
  float2 x[32];
  at.load(row, x);
  warp::fft_forward(x, at.exchange, at.lane);
  unroll<32>([&](auto m) { x[m] = x[m] * load_here(k + 32 * m); });
  warp::fft_inverse(x, at.exchange, at.lane);
  at.store(x, row);
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
    launch(operation, columns_forward<radix, Source>, dim3(warp::size / 32, tile.signals()), dim3(32 * radix),
           ColumnFft<radix>::shared_bytes, stream, source, tile, scratch);
  });
}

template <class Sink>
void inverse_pass(const char* operation, int parts, const float2* scratch, const Tile& tile, const Sink& sink,
                  cudaStream_t stream) {
  with_radix(parts, [&](auto radix) {
    launch(operation, columns_inverse<radix, Sink>, dim3(warp::size / 32, tile.signals()), dim3(32 * radix),
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

template <class T>
void convolve_as(const Convolution& sizes, int size, Signal u, const float2* spectrum, Signal y, float2* scratch,
                 cudaStream_t stream) {
  const int parts = size / warp::size;
  for_tiles(sizes, signals_in(scratch_bytes, size), [&](const Tile& tile) {
    forward_pass("convolve", parts, SignalSource<T>{sizes, u, Ends::valid}, tile, scratch, stream);
    launch("convolve", rows_convolve, dim3(row_blocks(std::int64_t(tile.signals()) * parts)), dim3(32 * warps),
           row_bytes, stream, scratch, parts, tile, spectrum);
    inverse_pass("convolve", parts, scratch, tile, SignalSink<T>{sizes, y, Ends::length}, stream);
  });
}

template <class T>
void backward_as(const Convolution& sizes, int size, Signal dy, Signal u, const float2* spectrum, Signal du,
                 float2* sum, float2* scratch, cudaStream_t stream) {
  const int parts = size / warp::size, signals = signals_in(scratch_bytes / 2, size);
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
