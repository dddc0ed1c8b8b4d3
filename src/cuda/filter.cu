// Chunks of a sequence are the rows of a matrix of sixteen, and a warp advances by that many at a time:
//   Z = U K         what each chunk adds to the state, started from zero;
//   X               the state before each chunk, a scan of Z with powers of the companion matrix;
//   Y = U T + X O   the chunk's own response, and that of the state before it.
// All of these products run on the tensor cores in double. What a product leaves in a thread's registers is, with the
// indices of the sum in another order, what the next one takes from there.
#include "cuda/filter.h"

#include <algorithm>

#include "cuda/device.h"
#include "cuda/filter_tables.h"

namespace rtf::cuda {
namespace {

constexpr int most_warps = 8;

// How an order is served. Longer chunks for larger ones: the scan over the chunks then costs less beside what is inside
// them. A warp takes the rows from one sequence, or half of them from each of two: one level of the scan less.
template <int order_>
struct Shape {
  static constexpr int order = order_, chunk = order <= 16 ? 32 : 64, together = order <= 16 ? 1 : 2;
  static constexpr int chunks = 16 / together, levels = together == 1 ? 4 : 3, turn = chunks * chunk;
  using Tables = FilterTables<order, chunk, levels>;
};

// Volatile, so that the factors stay in shared memory: read ahead of the loop over the signal they fill all registers.
template <int depth>
__device__ void load_factor(double (&b)[4], const double* from, int lane) {
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(from + 2 * lane));
#pragma unroll
  for (int j = 0; j < depth / 4; j += 2)
    asm volatile("ld.volatile.shared.v2.f64 {%0, %1}, [%2];" : "=d"(b[j]), "=d"(b[j + 1]) : "r"(address + 256 * j));
}

// Four neighbouring samples.
template <class T>
struct alignas(sizeof(T) * 4 > 16 ? 16 : sizeof(T) * 4) Quad {
  T at[4];
};

template <class T>
__device__ void widen(double (&a)[8], const Quad<T> (&samples)[2]) {
#pragma unroll
  for (int j = 0; j < 8; ++j) a[j] = static_cast<double>(samples[j % 2].at[j / 2]);
}

template <class T>
__device__ T sample(double x) {
  if constexpr (sizeof(T) == 2)
    return __float2bfloat16_rn(static_cast<float>(x));
  else
    return static_cast<T>(x);
}

// A state before or after each chunk is a row of sixteen. These rows moved down by `by`, zeros in the first ones; the rows
// of two sequences each on their own.
template <int together, int tiles>
__device__ void move_down(double (&to)[tiles][4], const double (&from)[tiles][4], int by, int lane) {
#pragma unroll
  for (int q = 0; q < tiles; ++q)
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      if (by == 8) {
        to[q][e] = 0;
        to[q][2 + e] = from[q][e];
        continue;
      }
      const bool inside = lane / 4 >= by;
      const double low = __shfl_sync(~0u, from[q][e], (lane - 4 * by) & 31);
      const double high = __shfl_sync(~0u, from[q][2 + e], (lane - 4 * by) & 31);
      to[q][e] = inside ? low : 0.0;
      to[q][2 + e] = inside ? high : together == 1 ? low : 0.0;
    }
}

// Number j of the left factor of a product with the states x, in step `step` of the sum.
template <int tiles>
__device__ double left_factor(const double (&x)[tiles][4], int step, int j) {
  return x[2 * step + j / 4][j % 2 * 2 + j / 2 % 2];
}

// result += x M for the states x and the factors of M.
template <int order>
__device__ void multiply_states(double (&result)[order / 8][4], const double (&x)[order / 8][4], const double* factors,
                                int lane) {
  constexpr int depth = order < 16 ? order : 16, tiles = order / 8;
#pragma unroll
  for (int step = 0; step < order / depth; ++step) {
    double a[8];
#pragma unroll
    for (int j = 0; j < depth / 2; ++j) a[j] = left_factor(x, step, j);
#pragma unroll
    for (int q = 0; q < tiles; ++q) {
      double b[4];
      load_factor<depth>(b, factors + (step * tiles + q) * fragment, lane);
      multiply_add<depth>(result[q], a, b);
    }
  }
}

// M x for a state x that every row holds.
template <int order>
__device__ void multiply_state(double (&result)[order / 8][2], const double (&x)[order / 8][2], const double* factors,
                               int lane) {
  constexpr int depth = order < 16 ? order : 16, tiles = order / 8;
#pragma unroll
  for (int q = 0; q < tiles; ++q) {
    double sum = 0;
#pragma unroll
    for (int step = 0; step < order / depth; ++step) {
      double b[4];
      load_factor<depth>(b, factors + (step * tiles + q) * fragment, lane);
#pragma unroll
      for (int j = 0; j < depth / 4; ++j) sum += b[j] * x[2 * step + j / 2][j % 2];
    }
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
#pragma unroll
    for (int e = 0; e < 2; ++e) result[q][e] = __shfl_sync(~0u, sum, 4 * (2 * (lane % 4) + e));
  }
}

// The response of 16 samples, of every chunk, to the 16 samples `a`.
__device__ inline void add_direct(double (&result)[2][4], const double (&a)[8], const double (&factors)[2][fragment],
                                  int lane) {
#pragma unroll
  for (int tile = 0; tile < 2; ++tile) {
    double b[4];
    load_factor<16>(b, factors[tile], lane);
    multiply_add<16>(result[tile], a, b);
  }
}

// One sequence and channel.
template <class T>
struct Stream {
  const T* u = nullptr;
  T* y = nullptr;
  int64_t length = 0;
  const double* initial_state = nullptr;
  double* final_state = nullptr;
  bool aligned = false;

  __device__ Stream(const Filter& p, int64_t sequence, int channel) {
    if (sequence >= p.sequences) return;
    int64_t first = 0, row = sequence;
    length = p.length;
    if (p.offsets != nullptr) {
      row = 0;
      first = min(max(p.offsets[sequence], int64_t{0}), p.length);
      length = min(max(p.offsets[sequence + 1] - first, int64_t{0}), p.length - first);
    } else if (p.lengths != nullptr) {
      length = min(max(p.lengths[sequence], int64_t{0}), p.length);
    }
    u = static_cast<const T*>(p.u) + row * p.u_sequence_stride + channel * p.u_channel_stride + first;
    y = static_cast<T*>(p.y) + row * p.y_sequence_stride + channel * p.y_channel_stride + first;
    aligned = (reinterpret_cast<uintptr_t>(u) | reinterpret_cast<uintptr_t>(y)) % alignof(Quad<T>) == 0;
    const int64_t state = (sequence * p.channels + channel) * p.order;
    if (p.initial_state != nullptr) initial_state = p.initial_state + state;
    if (p.final_state != nullptr) final_state = p.final_state + state;
  }

  // Samples from here to the end of a turn or of the sequence.
  __device__ int rest(int64_t from, int turn) const {
    return static_cast<int>(min(max(length - from, int64_t{0}), int64_t{turn}));
  }
};

// The state, which final_state holds, after the samples from `from` to the end, one after the other.
template <class T, int order>
__device__ void finish_state(const Stream<T>& stream, int64_t from, const double (&a)[order], int n, int lane) {
  constexpr int each = (order + 31) / 32;
  double x[each], coefficient[each];
#pragma unroll
  for (int i = 0; i < each; ++i) {
    x[i] = lane + 32 * i < n ? stream.final_state[lane + 32 * i] : 0.0;
    coefficient[i] = lane + 32 * i < order ? a[lane + 32 * i] : 0.0;
  }
#pragma unroll 1
  for (int64_t t = from; t < stream.length; ++t) {
    double back = 0;
#pragma unroll
    for (int i = 0; i < each; ++i) back += coefficient[i] * x[i];
#pragma unroll
    for (int half = 16; half > 0; half /= 2) back += __shfl_xor_sync(~0u, back, half);
#pragma unroll
    for (int i = each - 1; i >= 0; --i) {
      const double before = __shfl_up_sync(~0u, x[i], 1);
      const double across =
          i > 0 ? __shfl_sync(~0u, x[i > 0 ? i - 1 : 0], 31) : static_cast<double>(stream.u[t]) - back;
      x[i] = lane == 0 ? across : before;
    }
  }
#pragma unroll
  for (int i = 0; i < each; ++i)
    if (lane + 32 * i < n) stream.final_state[lane + 32 * i] = x[i];
}

// The warps of a block share a channel, and its tables.
template <class T, class Shape>
__global__ void __launch_bounds__(32 * most_warps, Shape::order <= 16 ? 2 : 1) filter_kernel(const Filter p) {
  using Tables = typename Shape::Tables;
  constexpr int order = Shape::order, chunk = Shape::chunk, together = Shape::together, turn = Shape::turn;
  constexpr int blocks = Tables::blocks, tiles = Tables::tiles, steps = Tables::steps, depth = Tables::depth;
  extern __shared__ __align__(16) unsigned char memory[];
  Tables& tables = *reinterpret_cast<Tables*>(memory);
  const int warps = blockDim.x / 32, lane = threadIdx.x % 32, row = lane / 4, column = lane % 4;
  const int channels = static_cast<int>(p.channels), channel = static_cast<int>(blockIdx.x) % channels;
  const int n = static_cast<int>(p.order);
  const int64_t sequence =
      together * (static_cast<int64_t>(static_cast<int>(blockIdx.x) / channels) * warps + threadIdx.x / 32);
  const Stream<T> first(p, sequence, channel);
  const Stream<T> second(p, together == 1 ? sequence : sequence + 1, channel);
  // Of register 2 half + e of a state, and of samples[...][half].
  const auto stream_of = [&](int half) -> const Stream<T>& { return together == 1 || half == 0 ? first : second; };
  const int64_t length = together == 1 ? first.length : max(first.length, second.length);

  // Thread (row, column) has samples 4 column ... of every 16 of the chunk of rows `row` and `row + 8`.
  const auto offset_of = [&](int block, int half) {
    return (row + (together == 1 ? 8 * half : 0)) * chunk + 16 * block + 4 * column;
  };
  const auto load = [&](Quad<T> (&samples)[blocks][2], int64_t from) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const Stream<T>& stream = stream_of(half);
      const int rest = stream.rest(from, turn);
#pragma unroll
      for (int block = 0; block < blocks; ++block) {
        const int offset = offset_of(block, half);
        const T* at = stream.u + from + offset;
        if (stream.aligned && rest == turn) {
          samples[block][half] = *reinterpret_cast<const Quad<T>*>(at);
        } else {
#pragma unroll
          for (int j = 0; j < 4; ++j) samples[block][half].at[j] = offset + j < rest ? at[j] : T(0.0f);
        }
      }
    }
  };

  // Early: a chunk's own response is computed ahead of the scan, whose latency it fills, and what it was computed from
  // makes place for the next samples. The largest order has no registers to keep it in.
  constexpr bool early = order <= 32;
  Quad<T> samples[blocks][2];
  if (early) load(samples, 0);
  make_tables(tables, p, channel);
  if (sequence >= p.sequences) return;

  double carry[together][tiles][2];  // the state before the next chunk, in every row
#pragma unroll
  for (int s = 0; s < together; ++s)
#pragma unroll
    for (int q = 0; q < tiles; ++q)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const double* start = stream_of(s).initial_state;
        const int k = 8 * q + 2 * column + e;
        carry[s][q][e] = start != nullptr && k < n ? start[k] : 0.0;
      }
  const auto store_state = [&](double* to, int q, int e, double value) {
    if (8 * q + 2 * column + e < n) to[8 * q + 2 * column + e] = value;
  };

#pragma unroll 1
  for (int64_t from = 0; from < length; from += turn) {
    if (!early) load(samples, from);
    double z[tiles][4] = {}, result[early ? blocks : 1][2][4] = {};
#pragma unroll
    for (int block = 0; block < blocks; ++block) {
      double a[8], b[4];
      widen(a, samples[block]);
#pragma unroll
      for (int q = 0; q < tiles; ++q) {
        load_factor<16>(b, tables.to_state[block][q], lane);
        multiply_add<16>(z[q], a, b);
      }
      if (early)
#pragma unroll
        for (int to = block; to < blocks; ++to) add_direct(result[early ? to : 0], a, tables.direct[to - block], lane);
    }
    if (early && from + turn < length) load(samples, from + turn);

    // The state after each chunk: the one before the first enters there, then a scan.
#pragma unroll
    for (int s = 0; s < together; ++s) {
      double entering[tiles][2];
      multiply_state<order>(entering, carry[s], tables.power[0][0][0], lane);
#pragma unroll
      for (int q = 0; q < tiles; ++q)
#pragma unroll
        for (int e = 0; e < 2; ++e)
          if (row == 0) z[q][2 * s + e] += entering[q][e];
    }
    double x[tiles][4];
#pragma unroll
    for (int level = 0; level < Shape::levels; ++level) {
      move_down<together>(x, z, 1 << level, lane);
      multiply_states<order>(z, x, tables.power[level][0][0], lane);
    }
    // And before each.
    move_down<together>(x, z, 1, lane);
#pragma unroll
    for (int s = 0; s < together; ++s)
#pragma unroll
      for (int q = 0; q < tiles; ++q)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          if (row == 0) x[q][2 * s + e] = carry[s][q][e];
          carry[s][q][e] = __shfl_sync(~0u, z[q][(together == 1 ? 2 : 2 * s) + e], 28 + column);
        }

    // Where a sequence ends inside the turn, the state before its last chunk.
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const Stream<T>& stream = stream_of(half);
      const int rest = static_cast<int>(min(stream.length - from, int64_t{turn}));
      if (stream.final_state == nullptr || rest < 0 || rest == turn || rest / chunk != row + (together == 1 ? 8 * half : 0))
        continue;
#pragma unroll
      for (int q = 0; q < tiles; ++q)
#pragma unroll
        for (int e = 0; e < 2; ++e) store_state(stream.final_state, q, e, x[q][2 * half + e]);
    }

#pragma unroll
    for (int block = 0; block < blocks; ++block) {
      double (&out)[2][4] = result[early ? block : 0], a[8], b[4];
      if (!early) {
#pragma unroll
        for (int i = 0; i < 8; ++i) out[i / 4][i % 4] = 0;
#pragma unroll
        for (int before = 0; before <= block; ++before) {
          widen(a, samples[before]);
          add_direct(out, a, tables.direct[block - before], lane);
        }
      }
#pragma unroll
      for (int step = 0; step < steps; ++step) {
#pragma unroll
        for (int j = 0; j < depth / 2; ++j) a[j] = left_factor(x, step, j);
#pragma unroll
        for (int tile = 0; tile < 2; ++tile) {
          load_factor<depth>(b, tables.from_state[block][step][tile], lane);
          multiply_add<depth>(out[tile], a, b);
        }
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const Stream<T>& stream = stream_of(half);
        const int rest = stream.rest(from, turn), offset = offset_of(block, half);
        T* at = stream.y + from + offset;
        Quad<T> four;
#pragma unroll
        for (int j = 0; j < 4; ++j) four.at[j] = sample<T>(out[j / 2][2 * half + j % 2]);
        if (stream.aligned && rest == turn) {
          *reinterpret_cast<Quad<T>*>(at) = four;
        } else {
#pragma unroll
          for (int j = 0; j < 4; ++j)
            if (offset + j < rest) at[j] = four.at[j];
        }
      }
    }
  }

#pragma unroll
  for (int s = 0; s < together; ++s) {
    const Stream<T>& stream = stream_of(s);
    if (stream.final_state != nullptr) {
      // A whole number of turns: carried. Else the chunk before the end was stored on the way.
      if (stream.length % turn == 0 && stream.length == (length + turn - 1) / turn * turn && row == 0)
#pragma unroll
        for (int q = 0; q < tiles; ++q)
#pragma unroll
          for (int e = 0; e < 2; ++e) store_state(stream.final_state, q, e, carry[s][q][e]);
      __syncwarp();
      if (stream.length % chunk != 0 && n > 0)
        finish_state<T, order>(stream, stream.length - stream.length % chunk, tables.a, n, lane);
    }
    if (p.offsets == nullptr && stream.y != nullptr)
      for (int64_t t = stream.length + lane; t < p.length; t += 32) stream.y[t] = T(0.0f);
  }
}

template <class T, int order>
void launch(const Filter& p, cudaStream_t stream) {
  using Shape = Shape<order>;
  const int64_t units = (p.sequences + Shape::together - 1) / Shape::together;
  const int64_t warps = std::min<int64_t>(most_warps, units), blocks = p.channels * ((units + warps - 1) / warps);
  constexpr std::size_t bytes = sizeof(typename Shape::Tables);
  const auto kernel = filter_kernel<T, Shape>;
  allow_shared_memory("filter", kernel, bytes);
  kernel<<<static_cast<unsigned>(blocks), static_cast<unsigned>(32 * warps), bytes, stream>>>(p);
}

template <class T>
void launch(const Filter& p, cudaStream_t stream) {
  if (p.order <= 8)
    launch<T, 8>(p, stream);
  else if (p.order <= 16)
    launch<T, 16>(p, stream);
  else if (p.order <= 32)
    launch<T, 32>(p, stream);
  else
    launch<T, 64>(p, stream);
}

}  // namespace

int64_t largest_chunked_order() {
  int device = 0, bytes = 0;
  check("filter", cudaGetDevice(&device));
  check("filter", cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  return static_cast<std::size_t>(bytes) >= sizeof(Shape<64>::Tables) ? 64 : 32;
}

void filter(const Filter& p, cudaStream_t stream) {
  if (p.sequences == 0) return;
  switch (p.type) {
    case Type::float32:
      launch<float>(p, stream);
      break;
    case Type::bfloat16:
      launch<__nv_bfloat16>(p, stream);
      break;
    case Type::float64:
      launch<double>(p, stream);
      break;
  }
  check("filter", cudaGetLastError());
}

}  // namespace rtf::cuda
