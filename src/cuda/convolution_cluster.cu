// Convolution of rows that fit the shared memory of two blocks, forward. Sample t1 * 16,384 + t2 is column t2 of a
// matrix: a block transforms a slice of the columns, each of as many points as there are blocks, and sends frequency f1
// to block f1, which transforms a row of 16,384; and all of it back. Clusters of four and eight blocks spend their time
// on what they send.
#include "cuda/cluster.h"
#include "cuda/convolution_block.h"
#include "cuda/convolution_steps.h"
#include "cuda/launch.h"

namespace rtf::cuda::cluster {
namespace {

constexpr int blocks = 2, radix = 16, part = block::longest, threads = 32 * radix;
static_assert(longest == blocks * part);

// A thread has columns thread + 512 * j, j < 32 / blocks, of its block's slice.
class Columns {
 public:
  static constexpr int size = blocks * part, columns = 32 / blocks;
  static constexpr int factors = 1 + log2_of(blocks), shared = factors * threads;

  __device__ __forceinline__ Columns(float2* memory, int rank)
      : factors_(memory + threadIdx.x), first_(rank * (part / blocks) + threadIdx.x) {
    factor(0, root<4 * size>(-first_));
    for (int l = 0; l < log2_of(blocks); ++l) factor(1 + l, root<size>(first_ << l));
  }

  __device__ __forceinline__ int first() const { return first_; }
  static constexpr int sample(int j, int t1) { return threads * j + part * t1; }

  template <class Row>
  __device__ __forceinline__ void load(const Row& row, float2* x) const {
    unroll<columns>(
        [&](auto j) { unroll<blocks>([&](auto t1) { x[j * blocks + t1] = row(sample(j, t1)) * weight<t1>(); }); });
  }
  __device__ __forceinline__ void transform(float2* x) const {
    for_columns([&](auto j, float2 first, const float2* power) {
      fft<blocks, forward>(x + j * blocks);
      for_powers<blocks>(first, power, [&](auto f, float2 w) { x[j * blocks + f] = x[j * blocks + f] * w; });
    });
  }
  __device__ __forceinline__ void transform_back(float2* x) const {
    for_columns([&](auto j, float2 first, const float2* power) {
      for_powers<blocks>(first, power, [&](auto f, float2 w) { x[j * blocks + f] = x[j * blocks + f] * conj(w); });
      fft<blocks, inverse>(x + j * blocks);
    });
  }
  template <class Row>
  __device__ __forceinline__ void store(const float2* x, const Row& row) const {
    unroll<columns>(
        [&](auto j) { unroll<blocks>([&](auto t1) { row(sample(j, t1), weight<t1>(), x[j * blocks + t1]); }); });
  }

 private:
  template <int t1>
  static __device__ __forceinline__ float2 weight() {
    constexpr float2 w = constant::root(-t1, 4 * blocks).as<float2>();
    return w;
  }
  // f(j, first, power): the factor of frequency f is first * power[0]^f, the weight of the column included.
  template <class F>
  __device__ __forceinline__ void for_columns(F&& f) const {
    const float2 first = factor(0);
    float2 power[log2_of(blocks)];
    unroll<log2_of(blocks)>([&](auto l) { power[l] = factor(1 + l); });
    unroll<columns>([&](auto j) {
      float2 step[log2_of(blocks)];
      unroll<log2_of(blocks)>([&](auto l) { step[l] = turn<forward, (j << l), 32 * blocks>(power[l]); });
      f(j, turn<forward, -j, 128 * blocks>(first), step);
    });
  }
  __device__ __forceinline__ float2 factor(int i) const {
    const volatile float2* at = factors_ + threads * i;
    return {at->x, at->y};
  }
  __device__ __forceinline__ void factor(int i, float2 value) { factors_[threads * i] = value; }

  float2* factors_;
  int first_;
};

template <class T>
__global__ __launch_bounds__(threads, 1)  //
    void convolve_kernel(SignalSource<T> source, SignalSink<T, Ends::length> sink, const float2* spectrum,
                         int rows_per_cluster) {
  using Fft = BlockFft<radix, 1, false>;
  float2* memory = block_memory();
  const Fft fft(memory);
  const int rank = cluster_rank(), batch = source.sizes.batch;
  const Columns columns(memory + Fft::shared, rank);
  const int groups = (batch + rows_per_cluster - 1) / rows_per_cluster, cluster = blockIdx.x / blocks;
  const int c = cluster / groups, first = cluster % groups * rows_per_cluster;
  const int last = min(first + rows_per_cluster, batch), warp_index = threadIdx.x / 32;
  const float2* k =
      spectrum + (std::int64_t(c) * radix * blocks + rank + blocks * warp_index) * warp::size + fft.lane();
  cluster_arrive();
  for (int b = first; b < last; ++b) {
    float2 x[32];
    columns.load(source.row(b, c, columns.first()), x);
    columns.transform(x);
    cluster_wait();  // the others need nothing more of what they overwrite
    unroll<blocks>([&](auto f) {
      const Remote to(memory + columns.first(), f);
      unroll<columns.columns>([&](auto j) { to.store(threads * j, x[j * blocks + f]); });
    });
    cluster_arrive();
    cluster_wait();
    unroll<32>([&](auto i) { x[i] = memory[threadIdx.x + Fft::sample(i)]; });
    __syncthreads();
    fft.transform(x);
    wait_for_previous();
    unroll<32>([&](auto m) { x[m] = x[m] * load_here(k + 32 * m); });
    fft.transform_back(x);
    __syncthreads();
    unroll<32>([&](auto i) { memory[threadIdx.x + Fft::sample(i)] = x[i]; });
    cluster_arrive();
    cluster_wait();
    unroll<blocks>([&](auto f) {
      const Remote from(memory + columns.first(), f);
      unroll<columns.columns>([&](auto j) { x[j * blocks + f] = from.load(threads * j); });
    });
    cluster_arrive();
    columns.transform_back(x);
    columns.store(x, sink.row(b, c, columns.first()));
  }
  cluster_wait();  // no block ends while another reads its memory
}

template <class T>
void convolve_as(const Convolution& sizes, Signal u, const float2* spectrum, Signal y, cudaStream_t stream) {
  constexpr int rows_per_cluster = 4;
  const int clusters = (sizes.batch + rows_per_cluster - 1) / rows_per_cluster * sizes.channels;
  launch("convolve", Start::early, Cluster{blocks}, convolve_kernel<T>, dim3(blocks * clusters), dim3(threads),
         sizeof(float2) * (BlockFft<radix, 1, false>::shared + Columns::shared), stream,
         SignalSource<T>{sizes, u, Ends::valid}, SignalSink<T, Ends::length>{sizes, y}, spectrum, rows_per_cluster);
}

}  // namespace

void convolve(const Convolution& sizes, Signal u, const float2* spectrum, Signal y, cudaStream_t stream) {
  sizes.storage == Storage::float32 ? convolve_as<float>(sizes, u, spectrum, y, stream)
                                    : convolve_as<__nv_bfloat16>(sizes, u, spectrum, y, stream);
}

}  // namespace rtf::cuda::cluster
