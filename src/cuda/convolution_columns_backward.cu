// The spectrum of long kernels, and the gradients of the convolution of rows too long for a block. Forward and inverse
// columns go through scratch memory, some signals at a time, so that it stays in the L2 cache.
#include <algorithm>
#include <bit>

#include "cuda/convolution_columns.h"
#include "cuda/launch.h"

namespace rtf::cuda::columns {
namespace {

// The signals that scratch holds at one time: channel by channel, so that a channel's spectrum serves all its
// sequences.
struct Tile {
  int first_sequence, sequences, first_channel, channels;
  int signals() const { return sequences * channels; }
};

struct Place {
  int b, c;
  __device__ __forceinline__ Place(const Tile& tile, int signal)
      : b(tile.first_sequence + signal % tile.sequences), c(tile.first_channel + signal / tile.sequences) {}
};

template <int radix, class Source>
__global__ __launch_bounds__(32 * ColumnFft<radix>::warps, 32 / ColumnFft<radix>::warps)  //
    void columns_forward(Source source, Tile tile, float2* scratch) {
  wait_for_previous();
  let_next_start();
  using Fft = ColumnFft<radix>;
  Fft::fill(block_memory() + Fft::exchange);
  __syncthreads();
  const Fft at(blockIdx.x, block_memory(), block_memory() + Fft::exchange);
  const Place place(tile, blockIdx.y);
  float2 x[16];
  at.load(source.row(place.b, place.c, at.first_sample()), x);
  at.transform(x, scratch + std::int64_t(blockIdx.y) * at.size);
}

template <int radix, class Sink>
__global__ __launch_bounds__(32 * ColumnFft<radix>::warps, 32 / ColumnFft<radix>::warps)  //
    void columns_inverse(const float2* scratch, Tile tile, Sink sink) {
  wait_for_previous();
  let_next_start();  // not sooner: see convolve_backward
  using Fft = ColumnFft<radix>;
  Fft::fill(block_memory() + Fft::exchange);
  __syncthreads();
  const Fft at(blockIdx.x, block_memory(), block_memory() + Fft::exchange);
  const Place place(tile, blockIdx.y);
  at.inverse_to(scratch + std::int64_t(blockIdx.y) * at.size, sink.row(place.b, place.c, at.first_sample()));
}

constexpr int warps = 8;  // of a block that transforms rows
constexpr std::size_t row_bytes = warps * warp::buffer * sizeof(float2);

// In place: rows of scratch one way, scaled.
template <int sign>
__global__ __launch_bounds__(32 * warps, 2) void rows_transform(float2* scratch, int rows, float scale) {
  wait_for_previous();
  let_next_start();
  const WarpRow at(block_memory());
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

// A team of warps has one part of one channel: they take the sequences in turn, then their sums are added in the order
// of the warps. The sums are in shared memory, so that dy is on its way while u is transformed.
__global__ __launch_bounds__(32 * warps, 1) void rows_backward(float2* dy, const float2* u, int parts, Tile tile,
                                                               int team, const float2* spectrum, float2* sum) {
  wait_for_previous();
  let_next_start();
  const WarpRow at(block_memory());
  float2* shares = block_memory() + warps * warp::buffer;
  const auto twiddles = warp::TwiddleTable::make(shares + warps * warp::size);
  __syncthreads();
  float2* share = shares + at.warp_index * warp::size + at.lane;
  const int part = blockIdx.x * (warps / team) + at.warp_index / team, c = blockIdx.y;
  const float2* k = spectrum + (std::int64_t(tile.first_channel + c) * parts + part) * warp::size + at.lane;
  unroll<32>([&](auto m) { share[32 * m] = {0.f, 0.f}; });
#pragma unroll 1
  for (int b = at.warp_index % team; b < tile.sequences; b += team) {
    const std::int64_t row = (std::int64_t(c * tile.sequences + b) * parts + part) * warp::size;
    float2 x[32], g[32];
    at.load(u + row, x);
    at.load(dy + row, g);
    warp::fft_forward(x, at.exchange, at.lane, twiddles);
    warp::fft_forward(g, at.exchange, at.lane, twiddles);
    unroll<32>([&](auto m) {
      share[32 * m] = share[32 * m] + conj(x[m]) * g[m];
      g[m] = conj(load_here(k + 32 * m)) * g[m];
    });
    warp::fft_inverse(g, at.exchange, at.lane, twiddles);
    at.store(g, dy + row);
  }
  __syncthreads();
  const std::int64_t place = (std::int64_t(tile.first_channel + c) * parts + blockIdx.x * (warps / team)) * warp::size;
  for (int i = threadIdx.x; i < warps / team * warp::size; i += 32 * warps) {
    float2 total = tile.first_sequence > 0 ? sum[place + i] : float2{0.f, 0.f};
    const float2* from = shares + i / warp::size * team * warp::size + i % warp::size;
    for (int w = 0; w < team; ++w) total = total + from[w * warp::size];
    sum[place + i] = total;
  }
}
constexpr std::size_t rows_backward_bytes = row_bytes + (warps + 1) * warp::size * sizeof(float2);

template <class Source>
void forward_pass(const char* operation, int parts, const Source& source, const Tile& tile, float2* scratch,
                  cudaStream_t stream) {
  with_radix(parts, [&](auto radix) {
    launch(operation, Start::early, columns_forward<radix, Source>, dim3(ColumnFft<radix>::blocks, tile.signals()),
           dim3(32 * ColumnFft<radix>::warps), sizeof(float2) * ColumnFft<radix>::shared, stream, source, tile,
           scratch);
  });
}

template <class Sink>
void inverse_pass(const char* operation, int parts, const float2* scratch, const Tile& tile, const Sink& sink,
                  cudaStream_t stream) {
  with_radix(parts, [&](auto radix) {
    launch(operation, Start::early, columns_inverse<radix, Sink>, dim3(ColumnFft<radix>::blocks, tile.signals()),
           dim3(32 * ColumnFft<radix>::warps), sizeof(float2) * ColumnFft<radix>::shared, stream, scratch, tile, sink);
  });
}

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
void backward_as(const Convolution& sizes, int size, Signal dy, Signal u, const float2* spectrum, Signal du,
                 float2* sum, float2* scratch, cudaStream_t stream) {
  const int parts = size / warp::size, signals = signals_in(backward_scratch_bytes / 2, size);
  float2 *scratch_dy = scratch, *scratch_u = scratch + std::int64_t(signals) * size;
  for_tiles(sizes, signals, [&](const Tile& tile) {
    const char* operation = "convolve_backward";
    forward_pass(operation, parts, SignalSource<T>{sizes, u, Ends::valid}, tile, scratch_u, stream);
    forward_pass(operation, parts, SignalSource<T>{sizes, dy, Ends::length}, tile, scratch_dy, stream);
    const int team = std::min<int>(warps, std::bit_ceil(static_cast<unsigned>(tile.sequences)));
    launch(operation, Start::early, rows_backward, dim3(parts * team / warps, tile.channels), dim3(32 * warps),
           rows_backward_bytes, stream, scratch_dy, scratch_u, parts, tile, team, spectrum, sum);
    inverse_pass(operation, parts, scratch_dy, tile, SignalSink<T, Ends::valid>{sizes, du}, stream);
  });
}

template <int sign>
void transform_rows(const char* operation, float2* rows, const Tile& tile, int size, cudaStream_t stream) {
  const int count = tile.channels * (size / warp::size);
  launch(operation, Start::early, rows_transform<sign>, dim3((count + warps - 1) / warps), dim3(32 * warps), row_bytes,
         stream, rows, count, 1.f / size);
}

// A kernel has one sequence. run(tile, its spectra) for as many channels as stay in the cache between two passes.
template <class F>
void for_kernel_tiles(int channels, int size, float2* spectra, F&& run) {
  const int most = signals_in(16 << 20, size);
  for (int c = 0; c < channels; c += most)
    run(Tile{0, 1, c, std::min(most, channels - c)}, spectra + std::int64_t(c) * size);
}

}  // namespace

void spectrum(const KernelSource& kernel, float2* out, cudaStream_t stream) {
  for_kernel_tiles(kernel.channels, kernel.size, out, [&](const Tile& tile, float2* rows) {
    forward_pass("convolve", kernel.size / warp::size, kernel, tile, rows, stream);
    transform_rows<forward>("convolve", rows, tile, kernel.size, stream);
  });
}

void backward(const Convolution& sizes, int size, Signal dy, Signal u, const float2* spectrum, Signal du, float2* sum,
              float2* scratch, cudaStream_t stream) {
  sizes.storage == Storage::float32
      ? backward_as<float>(sizes, size, dy, u, spectrum, du, sum, scratch, stream)
      : backward_as<__nv_bfloat16>(sizes, size, dy, u, spectrum, du, sum, scratch, stream);
}

void gradient(float2* sum, const KernelSink& kernel, cudaStream_t stream) {
  for_kernel_tiles(kernel.channels, kernel.size, sum, [&](const Tile& tile, float2* rows) {
    transform_rows<inverse>("convolve_backward", rows, tile, kernel.size, stream);
    inverse_pass("convolve_backward", kernel.size / warp::size, rows, tile, kernel, stream);
  });
}

}  // namespace rtf::cuda::columns
