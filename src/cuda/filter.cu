// Chunks of a sequence are the rows of a matrix of sixteen, and a warp advances by that many at a time:
//   Z = U K         what each chunk adds to the state, started from zero;
//   X               the state before each chunk, a scan of Z with powers of the companion matrix;
//   Y = U T + X O   the chunk's own response, and that of the state before it.
// All of these products run on the tensor cores in double. What a product leaves in a thread's registers is, with the
// indices of the sum in another order, what the next one takes from there.
#include <algorithm>
#include <type_traits>

#include "cuda/device.h"
#include "cuda/filter.h"
#include "cuda/filter_steps.h"
#include "cuda/filter_tables.h"
#include "cuda/launch.h"

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

struct Filters {
  Filter at[2];
};

// The warps of a block share a channel, and its tables. blockIdx.y: which filter.
template <class T, class R, class Shape>
__global__ void __launch_bounds__(32 * most_warps, Shape::order <= 16 ? 2 : 1)
    filter_kernel(const __grid_constant__ Filters filters) {
  const Filter& p = filters.at[blockIdx.y];
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
  const Stream<T, R> first(p, sequence, channel);
  const Stream<T, R> second(p, together == 1 ? sequence : sequence + 1, channel);
  // Of register 2 half + e of a state, and of samples[...][half].
  const auto stream_of = [&](int half) -> const Stream<T, R>& { return together == 1 || half == 0 ? first : second; };
  const int64_t length = together == 1 ? first.length : max(first.length, second.length);
  // Turns before this are whole ones of all sequences, four samples in one access.
  const bool aligned = first.aligned() && second.aligned();
  const int64_t whole_length = aligned ? min(first.length, second.length) / turn * turn : 0;

  const int turned = cuda::turned(p.series), direction = turned == 0 ? 1 : -1;

  // Thread (row, column) has samples 4 column ... of every 16 of the chunk of rows `row` and `row + 8`.
  const auto offset_of = [&](int block, int half) {
    return (row + (together == 1 ? 8 * half : 0)) * chunk + 16 * block + 4 * column;
  };
  // use(block, half, at, left) for each four samples of a turn, of which `left` are left in the sequence.
  const auto each_four = [&](int64_t from, auto use) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int rest = stream_of(half).rest(from, turn);
#pragma unroll
      for (int block = 0; block < blocks; ++block)
        use(block, half, from + offset_of(block, half), rest - offset_of(block, half));
    }
  };
  const auto load = [&](Quad<T>(&samples)[blocks][2], int64_t from, bool whole) {
    if (whole) {
      each_four(from, [&](int block, int half, int64_t at, int) {
        samples[block][half] = *reinterpret_cast<const Quad<T>*>(stream_of(half).u + direction * at);
      });
    } else {
      each_four(from, [&](int block, int half, int64_t at, int left) {
#pragma unroll
        for (int j = 0; j < 4; ++j)
          samples[block][half].at[j] = (j ^ turned) < left ? stream_of(half).u[direction * at + j] : T(0.0f);
      });
    }
  };

  // Early: a chunk's own response is computed ahead of the scan, whose latency it fills, and what it was computed from
  // makes place for the next samples. The largest order has no registers to keep it in.
  constexpr bool early = order <= 32;
  Quad<T> samples[blocks][2];
  if (early) load(samples, 0, whole_length > 0);
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

  // `inner`: this turn and the next are whole ones, and there is nothing to ask.
  const auto advance = [&](auto inner, int64_t from) {
    const bool whole = inner || from < whole_length;
    if (!early) load(samples, from, whole);
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
    if (early && (inner || from + turn < length)) load(samples, from + turn, inner || from + turn < whole_length);

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
    if (!inner)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const Stream<T, R>& stream = stream_of(half);
        const int64_t rest = stream.length - from;
        const int chunk_of_row = row + (together == 1 ? 8 * half : 0);
        if (stream.final_state == nullptr || rest < 0 || rest >= turn || rest / chunk != chunk_of_row) continue;
#pragma unroll
        for (int q = 0; q < tiles; ++q)
#pragma unroll
          for (int e = 0; e < 2; ++e) store_state(stream.final_state, q, e, x[q][2 * half + e]);
      }

#pragma unroll
    for (int block = 0; block < blocks; ++block) {
      double(&out)[2][4] = result[early ? block : 0], a[8], b[4];
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
        const Stream<T, R>& stream = stream_of(half);
        const int offset = offset_of(block, half);
        R* at = stream.y + direction * (from + offset);
        Quad<R> four;
#pragma unroll
        for (int j = 0; j < 4; ++j) four.at[j] = sample<R>(out[j / 2][2 * half + j % 2]);
        if (whole) {
          *reinterpret_cast<Quad<R>*>(at) = four;
        } else {
          const int left = stream.rest(from, turn) - offset;
#pragma unroll
          for (int j = 0; j < 4; ++j)
            if ((j ^ turned) < left) at[j] = four.at[j];
        }
      }
    }
  };
  int64_t from = 0;
#pragma unroll 1
  for (; from + turn < whole_length; from += turn) advance(std::true_type(), from);
#pragma unroll 1
  for (; from < length; from += turn) advance(std::false_type(), from);

#pragma unroll
  for (int s = 0; s < together; ++s) {
    const Stream<T, R>& stream = stream_of(s);
    if (stream.final_state != nullptr) {
      // A whole number of turns: carried. Else the chunk before the end was stored on the way.
      if (stream.length % turn == 0 && stream.length == (length + turn - 1) / turn * turn && row == 0)
#pragma unroll
        for (int q = 0; q < tiles; ++q)
#pragma unroll
          for (int e = 0; e < 2; ++e) store_state(stream.final_state, q, e, carry[s][q][e]);
      __syncwarp();
      if (stream.length % chunk != 0 && n > 0)
        finish_state(stream, stream.length - stream.length % chunk, tables, p.series, n, lane);
    }
    if (stream.exists) clear_rest(p, stream.y - stream.origin(p), stream.length, lane);
  }
}

template <class T, class R, int order>
void run(const Filters& filters, unsigned count, cudaStream_t stream) {
  using Shape = Shape<order>;
  const Filter& p = filters.at[0];
  const int64_t units = (p.sequences + Shape::together - 1) / Shape::together;
  const int64_t warps = std::min<int64_t>(most_warps, units), blocks = p.channels * ((units + warps - 1) / warps);
  launch("filter", filter_kernel<T, R, Shape>, dim3(static_cast<unsigned>(blocks), count),
         dim3(static_cast<unsigned>(32 * warps)), sizeof(typename Shape::Tables), stream, filters);
}

template <class T, class R>
void run(const Filters& filters, unsigned count, cudaStream_t stream) {
  const int64_t order = filters.at[0].order;
  if (order <= 8)
    run<T, R, 8>(filters, count, stream);
  else if (order <= 16)
    run<T, R, 16>(filters, count, stream);
  else if (order <= 32)
    run<T, R, 32>(filters, count, stream);
  else
    run<T, R, 64>(filters, count, stream);
}

void run(const Filters& filters, unsigned count, cudaStream_t stream) {
  const Filter& p = filters.at[0];
  if (p.sequences == 0) return;
  with_type(p.type, [&](auto zero) {
    using T = decltype(zero);
    if (p.y_type == p.type)
      run<T, T>(filters, count, stream);
    else
      run<T, Arithmetic<T>>(filters, count, stream);
  });
}

}  // namespace

int64_t largest_chunked_order() { return largest_shared_memory("filter") >= sizeof(Shape<64>::Tables) ? 64 : 32; }

void filter(const Filter& p, cudaStream_t stream) { run({{p, p}}, 1, stream); }

void filter(const Filter& first, const Filter& second, cudaStream_t stream) { run({{first, second}}, 2, stream); }

}  // namespace rtf::cuda
