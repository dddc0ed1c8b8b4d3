// Sixteen chunks of one sequence are the rows of a matrix, and a warp advances by that many at a time:
//   Z = U K   what each chunk adds to the state, started from zero;
//   X         the state before each chunk, a scan of Z with powers of the companion matrix;
//   Y = U T + X O   the chunk's own response, and that of the state before it.
// All of these products run on the tensor cores in double. What a product leaves in a thread's registers is, with the
// indices of the sum in another order, what the next one takes from there.
#include "cuda/filter.h"

#include <algorithm>

#include "cuda/device.h"
#include "cuda/matrix_multiply.h"

namespace rtf::cuda {
namespace {

constexpr int chunks = 16, levels = 4, most_warps = 8;
constexpr int fragment = 128;  // numbers of a (16, 8) factor: four a thread

// `order` is padded to 8, 16 or 32: coefficients past the filter's own are zero.
template <int order, int chunk>
struct Tables {
  static constexpr int blocks = chunk / 16, tiles = order / 8, depth = order < 16 ? order : 16, steps = order / depth;

  // Factors as multiply_add takes them.
  double to_state[blocks][tiles][fragment];         // K
  double direct[blocks][2][fragment];               // T, by the distance of two blocks of 16 samples
  double from_state[blocks][steps][2][fragment];    // O
  double power[levels][steps][tiles][fragment];     // companion matrix to the chunk, 2 chunk, 4 chunk, 8 chunk

  // What they are made of.
  double a[order];
  double free[chunk][order];                    // v_t from each state of a single 1: -a companion^t
  double observed[chunk][order];                // y_t from each: b companion^t
  double inverse[chunk + 1], kernel[chunk + 1]; // v_t and y_t after a single sample of 1
  double square[2][order][order];
};

// Which index of a sum over samples, and over states, a thread's j-th number of a factor stands for.
__device__ int sample_at(int column, int j) { return 4 * column + j; }
__device__ int state_at(int column, int j) { return 8 * (j / 2) + 2 * column + j % 2; }
// Which sample of 16 is column `row` of tile `half` of a result: a thread then holds four neighbours.
__device__ int sample_of(int row, int half) { return 4 * (row / 2) + 2 * half + row % 2; }

// value(fragment, column, j, row) for all numbers of these fragments.
template <class Value>
__device__ void fill(double* to, int fragments, Value value) {
  for (int i = threadIdx.x; i < fragments * fragment; i += blockDim.x) {
    const int at = i % fragment, lane = at % 64 / 2;
    to[i] = value(i / fragment, lane % 4, 2 * (at / 64) + at % 2, lane / 4);
  }
}

// rows[t] = row companion^t, thread k of a warp holding number k; the first numbers go to series[t + 1] too.
template <int order, int chunk>
__device__ void companion_powers(double (&rows)[chunk][order], double (&series)[chunk + 1], double row,
                                 double coefficient, int lane) {
#pragma unroll 4
  for (int t = 0; t < chunk; ++t) {
    if (lane < order) rows[t][lane] = row;
    if (lane == 0) series[t + 1] = row;
    const double first = __shfl_sync(~0u, row, 0), next = __shfl_down_sync(~0u, row, 1);
    row = (lane + 1 < order ? next : 0.0) - coefficient * first;
  }
}

template <int order>
__device__ void square(double (&to)[order][order], const double (&from)[order][order], int lane) {
  constexpr int depth = order < 16 ? order : 16;
  const int row = lane / 4, column = lane % 4;
  for (int tile = threadIdx.x / 32; tile < (order + 15) / 16 * (order / 8); tile += blockDim.x / 32) {
    const int top = 16 * (tile / (order / 8)), left = 8 * (tile % (order / 8));
    double c[4] = {};
#pragma unroll
    for (int first = 0; first < order; first += depth) {
      double a[8], b[4];
#pragma unroll
      for (int j = 0; j < depth / 2; ++j) {
        const int at = top + row + 8 * (j % 2);
        a[j] = at < order ? from[at][first + column + 4 * (j / 2)] : 0.0;
      }
#pragma unroll
      for (int j = 0; j < depth / 4; ++j) b[j] = from[first + column + 4 * j][left + row];
      multiply_add<depth>(c, a, b);
    }
#pragma unroll
    for (int j = 0; j < 4; ++j)
      if (top + row + 8 * (j / 2) < order) to[top + row + 8 * (j / 2)][left + 2 * column + j % 2] = c[j];
  }
}

template <int order, int chunk>
__device__ void make_tables(Tables<order, chunk>& t, const Filter& p, int64_t channel) {
  using Table = Tables<order, chunk>;
  const int n = static_cast<int>(p.order), thread = threadIdx.x, threads = blockDim.x, lane = thread % 32;
  const double* a = p.a + channel / (p.channels / p.denominators) * n;
  const double* b = p.b + channel * n;
  // The first warp, and the last, which may be the same.
  const double coefficient = lane < n ? a[lane] : 0.0;
  if (thread < 32) {
    if (lane < order) t.a[lane] = coefficient;
    if (lane == 0) t.inverse[0] = 1.0;
    companion_powers(t.free, t.inverse, -coefficient, coefficient, lane);
  }
  if (thread >= threads - 32) {
    if (lane == 0) t.kernel[0] = p.h0[channel];
    companion_powers(t.observed, t.kernel, lane < n ? b[lane] : 0.0, coefficient, lane);
  }
  __syncthreads();
  fill(t.to_state[0][0], Table::blocks * Table::tiles, [&](int f, int column, int j, int row) {
    const int lag = chunk - 1 - (8 * (f % Table::tiles) + row) - (16 * (f / Table::tiles) + sample_at(column, j));
    return lag >= 0 ? t.inverse[lag] : 0.0;
  });
  fill(t.direct[0][0], 2 * Table::blocks, [&](int f, int column, int j, int row) {
    const int lag = 16 * (f / 2) + sample_of(row, f % 2) - sample_at(column, j);
    return lag >= 0 ? t.kernel[lag] : 0.0;
  });
  fill(t.from_state[0][0][0], 2 * Table::blocks * Table::steps, [&](int f, int column, int j, int row) {
    const int state = 16 * (f / 2 % Table::steps) + state_at(column, j);
    return state < order ? t.observed[16 * (f / (2 * Table::steps)) + sample_of(row, f % 2)][state] : 0.0;
  });
  for (int i = thread; i < order * order; i += threads)
    t.square[0][i / order][i % order] = t.free[chunk - 1 - i / order][i % order];
  for (int level = 0; level < levels; ++level) {
    __syncthreads();
    const auto& power = t.square[level % 2];
    fill(t.power[level][0][0], Table::steps * Table::tiles, [&](int f, int column, int j, int row) {
      const int state = 16 * (f / Table::tiles) + state_at(column, j);
      return state < order ? power[8 * (f % Table::tiles) + row][state] : 0.0;
    });
    if (level + 1 < levels) square<order>(t.square[(level + 1) % 2], power, lane);
  }
  __syncthreads();
}

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
__device__ T sample(double x) {
  if constexpr (sizeof(T) == 2)
    return __float2bfloat16_rn(static_cast<float>(x));
  else
    return static_cast<T>(x);
}

// Rows of a state matrix moved down by `by`, zeros in the first ones.
template <int tiles>
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
      to[q][2 + e] = inside ? high : low;
    }
}

// result += x M for a state matrix x and the factors of M.
template <int order>
__device__ void multiply_states(double (&result)[order / 8][4], const double (&x)[order / 8][4], const double* factors,
                                int lane) {
  constexpr int depth = order < 16 ? order : 16, tiles = order / 8;
#pragma unroll
  for (int step = 0; step < order / depth; ++step) {
    double a[8];
#pragma unroll
    for (int j = 0; j < depth / 2; ++j) a[j] = x[2 * step + j / 4][j % 2 * 2 + j / 2 % 2];
#pragma unroll
    for (int q = 0; q < tiles; ++q) {
      double b[4];
      load_factor<depth>(b, factors + (step * tiles + q) * fragment, lane);
      multiply_add<depth>(result[q], a, b);
    }
  }
}

// state <- M state for a state that every row holds, with the factors of M.
template <int order>
__device__ void multiply_state(double (&state)[order / 8][2], const double* factors, int lane) {
  constexpr int depth = order < 16 ? order : 16, tiles = order / 8;
  double sum[tiles] = {};
#pragma unroll
  for (int step = 0; step < order / depth; ++step)
#pragma unroll
    for (int q = 0; q < tiles; ++q) {
      double b[4];
      load_factor<depth>(b, factors + (step * tiles + q) * fragment, lane);
#pragma unroll
      for (int j = 0; j < depth / 4; ++j) sum[q] += b[j] * state[2 * step + j / 2][j % 2];
    }
#pragma unroll
  for (int q = 0; q < tiles; ++q) {
    sum[q] += __shfl_xor_sync(~0u, sum[q], 1);
    sum[q] += __shfl_xor_sync(~0u, sum[q], 2);
#pragma unroll
    for (int e = 0; e < 2; ++e) state[q][e] = __shfl_sync(~0u, sum[q], 4 * (2 * (lane % 4) + e));
  }
}

// One warp a sequence; the warps of a block share a channel, and its tables.
template <class T, int order, int chunk>
__global__ void __launch_bounds__(32 * most_warps, order <= 16 ? 2 : 1) filter_kernel(const Filter p) {
  using Table = Tables<order, chunk>;
  constexpr int blocks = Table::blocks, tiles = Table::tiles, steps = Table::steps, depth = Table::depth;
  extern __shared__ __align__(16) unsigned char memory[];
  Table& tables = *reinterpret_cast<Table*>(memory);
  const int warps = blockDim.x / 32, lane = threadIdx.x % 32, row = lane / 4, column = lane % 4;
  const int64_t groups = (p.sequences + warps - 1) / warps;
  const int64_t channel = blockIdx.x / groups, sequence = blockIdx.x % groups * warps + threadIdx.x / 32;
  make_tables(tables, p, channel);
  if (sequence >= p.sequences) return;

  int64_t first = 0, length = p.length;
  if (p.offsets != nullptr) {
    first = min(max(p.offsets[sequence], int64_t{0}), p.length);
    length = min(max(p.offsets[sequence + 1] - first, int64_t{0}), p.length - first);
  } else if (p.lengths != nullptr) {
    length = min(max(p.lengths[sequence], int64_t{0}), p.length);
  }
  const int64_t lies_in = p.offsets != nullptr ? 0 : sequence;
  const T* u = static_cast<const T*>(p.u) + lies_in * p.u_sequence_stride + channel * p.u_channel_stride + first;
  T* y = static_cast<T*>(p.y) + lies_in * p.y_sequence_stride + channel * p.y_channel_stride + first;
  const int64_t state_row = (sequence * p.channels + channel) * p.order;
  const bool aligned = (reinterpret_cast<uintptr_t>(u) | reinterpret_cast<uintptr_t>(y)) % alignof(Quad<T>) == 0;

  // Thread (row, column) has samples 4 column ... of every 16 of the chunks `row` and `row + 8`.
  const int mine = row * chunk + 4 * column;
  Quad<T> samples[blocks][2];
  const auto load = [&](int64_t from) {
    const int rest = static_cast<int>(min(length - from, int64_t{chunks * chunk}));
    const T* at = u + from + mine;
    const bool whole = aligned && rest == chunks * chunk;
#pragma unroll
    for (int block = 0; block < blocks; ++block)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int offset = 8 * half * chunk + 16 * block;
        if (whole) {
          samples[block][half] = *reinterpret_cast<const Quad<T>*>(at + offset);
        } else {
#pragma unroll
          for (int j = 0; j < 4; ++j)
            samples[block][half].at[j] = mine + offset + j < rest ? at[offset + j] : T(0.0f);
        }
      }
  };

  double carry[tiles][2];  // the state before the next chunk, in every row
#pragma unroll
  for (int q = 0; q < tiles; ++q)
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int k = 8 * q + 2 * column + e;
      carry[q][e] = p.initial_state != nullptr && k < p.order ? p.initial_state[state_row + k] : 0.0;
    }

  load(0);
  for (int64_t from = 0; from < length; from += chunks * chunk) {
    double z[tiles][4] = {}, result[blocks][2][4] = {};
#pragma unroll
    for (int block = 0; block < blocks; ++block) {
      double a[8], b[4];
#pragma unroll
      for (int j = 0; j < 8; ++j) a[j] = static_cast<double>(samples[block][j % 2].at[j / 2]);
#pragma unroll
      for (int q = 0; q < tiles; ++q) {
        load_factor<16>(b, tables.to_state[block][q], lane);
        multiply_add<16>(z[q], a, b);
      }
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int to = block; to < blocks; ++to) {
          load_factor<16>(b, tables.direct[to - block][half], lane);
          multiply_add<16>(result[to][half], a, b);
        }
    }
    if (from + chunks * chunk < length) load(from + chunks * chunk);

    // The state after each chunk: the one before the first enters there, then a scan.
    double entering[tiles][2];
#pragma unroll
    for (int q = 0; q < tiles; ++q)
#pragma unroll
      for (int e = 0; e < 2; ++e) entering[q][e] = carry[q][e];
    multiply_state<order>(entering, tables.power[0][0][0], lane);
    if (row == 0)
#pragma unroll
      for (int q = 0; q < tiles; ++q)
#pragma unroll
        for (int e = 0; e < 2; ++e) z[q][e] += entering[q][e];
    double x[tiles][4];
#pragma unroll
    for (int level = 0; level < levels; ++level) {
      move_down(x, z, 1 << level, lane);
      multiply_states<order>(z, x, tables.power[level][0][0], lane);
    }
    // And before each.
    move_down(x, z, 1, lane);
#pragma unroll
    for (int q = 0; q < tiles; ++q)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        if (row == 0) x[q][e] = carry[q][e];
        carry[q][e] = __shfl_sync(~0u, z[q][2 + e], 28 + column);
      }

    const int last = static_cast<int>((length - from) / chunk);  // the chunk that the sequence ends in
    if (p.final_state != nullptr && last < chunks && last % 8 == row) {
#pragma unroll
      for (int q = 0; q < tiles; ++q)
#pragma unroll
        for (int e = 0; e < 2; ++e)
          if (8 * q + 2 * column + e < p.order)
            p.final_state[state_row + 8 * q + 2 * column + e] = last < 8 ? x[q][e] : x[q][2 + e];
    }

    const int rest = static_cast<int>(min(length - from, int64_t{chunks * chunk}));
    const bool whole = aligned && rest == chunks * chunk;
    T* at = y + from + mine;
#pragma unroll
    for (int block = 0; block < blocks; ++block) {
#pragma unroll
      for (int step = 0; step < steps; ++step) {
        double a[8], b[4];
#pragma unroll
        for (int j = 0; j < depth / 2; ++j) a[j] = x[2 * step + j / 4][j % 2 * 2 + j / 2 % 2];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          load_factor<depth>(b, tables.from_state[block][step][half], lane);
          multiply_add<depth>(result[block][half], a, b);
        }
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        Quad<T> out;
#pragma unroll
        for (int j = 0; j < 4; ++j) out.at[j] = sample<T>(result[block][j / 2][2 * half + j % 2]);
        const int offset = 8 * half * chunk + 16 * block;
        if (whole) {
          *reinterpret_cast<Quad<T>*>(at + offset) = out;
        } else {
#pragma unroll
          for (int j = 0; j < 4; ++j)
            if (mine + offset + j < rest) at[offset + j] = out.at[j];
        }
      }
    }
  }

  if (p.final_state != nullptr) {
    double* state = p.final_state + state_row;
    if (length % (chunks * chunk) == 0 && row == 0)
#pragma unroll
      for (int q = 0; q < tiles; ++q)
#pragma unroll
        for (int e = 0; e < 2; ++e)
          if (8 * q + 2 * column + e < p.order) state[8 * q + 2 * column + e] = carry[q][e];
    // The samples of a chunk that is not whole, one after the other.
    if (length % chunk != 0 && p.order > 0) {
      __syncwarp();
      double x = lane < p.order ? state[lane] : 0.0;
      const double coefficient = lane < order ? tables.a[lane] : 0.0;
      for (int64_t t = length - length % chunk; t < length; ++t) {
        double back = coefficient * x;
#pragma unroll
        for (int half = 16; half > 0; half /= 2) back += __shfl_xor_sync(~0u, back, half);
        const double before = __shfl_up_sync(~0u, x, 1);
        x = lane == 0 ? static_cast<double>(u[t]) - back : before;
      }
      if (lane < p.order) state[lane] = x;
    }
  }
  if (p.offsets == nullptr)
    for (int64_t t = length + lane; t < p.length; t += 32) y[t] = T(0.0f);
}

template <class T, int order, int chunk>
void launch(const Filter& p, cudaStream_t stream) {
  const int64_t warps = std::min<int64_t>(most_warps, p.sequences);
  const int64_t blocks = p.channels * ((p.sequences + warps - 1) / warps);
  constexpr std::size_t bytes = sizeof(Tables<order, chunk>);
  const auto kernel = filter_kernel<T, order, chunk>;
  allow_shared_memory("filter", kernel, bytes);
  kernel<<<static_cast<unsigned>(blocks), static_cast<unsigned>(32 * warps), bytes, stream>>>(p);
}

// Longer chunks for larger orders: the scan over the chunks then costs less than what is inside them.
template <class T>
void launch(const Filter& p, cudaStream_t stream) {
  if (p.order <= 8)
    launch<T, 8, 32>(p, stream);
  else if (p.order <= 16)
    launch<T, 16, 32>(p, stream);
  else
    launch<T, 32, 64>(p, stream);
}

}  // namespace

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
