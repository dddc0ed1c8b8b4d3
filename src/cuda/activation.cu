#include <algorithm>
#include <limits>

#include "cuda/activation.h"
#include "cuda/device.h"
#include "cuda/partial_sums.h"
#include "rtf/error.h"

namespace rtf::cuda {
namespace {

// A thread takes these many channels, whose masks come from one Philox block, at `width` neighbouring positions:
// threads side by side read rows side by side.
constexpr int group = 8;
constexpr int threads = 256;

// To 2 units in the last place; numbers below 2^-126 count as 0.
__device__ float fast_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ float fast_inverse(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
constexpr float log2_e = 1.44269504088896341f;

// Phi and its density phi at x.
template <class A>
struct Normal {
  A distribution, density;
};

// The fit of src/cpu/activation_lanes.cpp: Phi(-|x|) = Q(t) e^{-x^2/2}, t = 1 / (1 + 0.26 |x|).
__device__ Normal<float> normal(float x) {
  const float t = fast_inverse(fmaf(fabsf(x), 0.26f, 1.0f)), exponential = fast_exp2(x * x * (-0.5f * log2_e));
  float sum = 0.030505097272877618f;
  sum = fmaf(sum, t, -0.1528298558069027f);
  sum = fmaf(sum, t, 0.25149342517185624f);
  sum = fmaf(sum, t, -0.15095141958246278f);
  sum = fmaf(sum, t, 0.1609495647249043f);
  sum = fmaf(sum, t, 0.05102694692764177f);
  sum = fmaf(sum, t, 0.10303044407662203f);
  sum = fmaf(sum, t, 0.10301672340365658f);
  sum = fmaf(sum, t, 0.10375906145084002f);
  const float tail = sum * t * exponential;
  return {x < 0 ? tail : 1 - tail, exponential * 0.39894228040143267794f};
}
__device__ Normal<double> normal(double x) {
  return {0.5 * erfc(-x * 0.70710678118654752440), 0.39894228040143267794 * exp(-0.5 * x * x)};
}

// e^{-q} may overflow; the quotient is then 0, as it should be.
__device__ float sigmoid(float q) { return fast_inverse(1.0f + fast_exp2(-log2_e * q)); }
__device__ double sigmoid(double q) { return 1 / (1 + exp(-q)); }

// Where a thread is.
struct Place {
  std::int64_t b, c, l;
  int count;  // channels from c on, at most `group`
};

struct Sizes {
  std::int64_t batch, length, channels;

  __device__ std::int64_t row(std::int64_t b, std::int64_t c, std::int64_t of) const { return (b * of + c) * length; }
};

// The factor of channel k at position i, from the bits that Mask drew.
template <class A>
__device__ A factor(std::uint32_t bits, int k, int i, A kept) {
  return bits >> (8 * i + k) & 1 ? kept : A(0);
}

struct Identity {
  template <class A>
  __device__ static A at(A x) {
    return x;
  }
};
struct Gelu {
  template <class A>
  __device__ static A at(A x) {
    return x * normal(x).distribution;
  }
};

// y = dropout(f(x)).
template <class T, class Function>
struct Map {
  const T* x;
  T* y;

  template <int width>
  __device__ void run(const Place& place, const Sizes& sizes, const Mask& mask) const {
    using A = Arithmetic<T>;
    const std::int64_t first = sizes.row(place.b, place.c, sizes.channels) + place.l;
    Values<A, width> values[group];
#pragma unroll
    for (int k = 0; k < group; ++k)
      if (k < place.count) values[k] = load<A, width>(x + first + k * sizes.length);
    const std::uint32_t bits = mask.draw<width>(place.b, place.l, place.c, sizes.length, sizes.channels);
#pragma unroll
    for (int k = 0; k < group; ++k) {
#pragma unroll
      for (int i = 0; i < width; ++i)
        values[k].at[i] = factor(bits, k, i, static_cast<A>(mask.kept)) * Function::at(values[k].at[i]);
      if (k < place.count) store<A, width>(y + first + k * sizes.length, values[k]);
    }
  }
};

template <class T>
struct GeluBackward {
  const T *x, *dy;
  T* dx;

  template <int width>
  __device__ void run(const Place& place, const Sizes& sizes, const Mask& mask) const {
    using A = Arithmetic<T>;
    const std::int64_t first = sizes.row(place.b, place.c, sizes.channels) + place.l;
    const std::uint32_t bits = mask.draw<width>(place.b, place.l, place.c, sizes.length, sizes.channels);
#pragma unroll
    for (int half = 0; half < group; half += group / 2) {
      Values<A, width> at[group / 2], gradient[group / 2];
#pragma unroll
      for (int k = 0; k < group / 2; ++k)
        if (half + k < place.count) {
          at[k] = load<A, width>(x + first + (half + k) * sizes.length);
          gradient[k] = load<A, width>(dy + first + (half + k) * sizes.length);
        }
#pragma unroll
      for (int k = 0; k < group / 2; ++k) {
#pragma unroll
        for (int i = 0; i < width; ++i) {
          const A value = at[k].at[i];
          const Normal<A> n = normal(value);
          gradient[k].at[i] *=
              factor(bits, half + k, i, static_cast<A>(mask.kept)) * (n.distribution + value * n.density);
        }
        if (half + k < place.count) store<A, width>(dx + first + (half + k) * sizes.length, gradient[k]);
      }
    }
  }
};

// What the gate and its gradient read of one channel: p and q with their bias.
template <class A, int width, class T>
__device__ void load_gate(const T* z, const A* bias, std::int64_t channel, const Sizes& sizes, std::int64_t offset,
                          Values<A, width>& p, Values<A, width>& q) {
  p = load<A, width>(z + offset);
  q = load<A, width>(z + offset + sizes.channels * sizes.length);
  if (bias == nullptr) return;
#pragma unroll
  for (int i = 0; i < width; ++i) {
    p.at[i] += bias[channel];
    q.at[i] += bias[sizes.channels + channel];
  }
}

template <class T, class Outer>
struct Glu {
  const T* z;
  const Arithmetic<T>* bias;
  const Outer* residual;
  Outer* y;

  template <int width>
  __device__ void run(const Place& place, const Sizes& sizes, const Mask& mask) const {
    using A = Arithmetic<T>;
    const std::int64_t from = sizes.row(place.b, place.c, 2 * sizes.channels) + place.l;
    const std::int64_t to = sizes.row(place.b, place.c, sizes.channels) + place.l;
    const std::uint32_t bits = mask.draw<width>(place.b, place.l, place.c, sizes.length, sizes.channels);
#pragma unroll
    for (int half = 0; half < group; half += group / 2) {
      Values<A, width> p[group / 2], q[group / 2], sum[group / 2] = {};
#pragma unroll
      for (int k = 0; k < group / 2; ++k)
        if (half + k < place.count) {
          load_gate(z, bias, place.c + half + k, sizes, from + (half + k) * sizes.length, p[k], q[k]);
          if (residual != nullptr) sum[k] = load<A, width>(residual + to + (half + k) * sizes.length);
        }
#pragma unroll
      for (int k = 0; k < group / 2; ++k) {
#pragma unroll
        for (int i = 0; i < width; ++i)
          sum[k].at[i] += factor(bits, half + k, i, static_cast<A>(mask.kept)) * (p[k].at[i] * sigmoid(q[k].at[i]));
        if (half + k < place.count) store<A, width>(y + to + (half + k) * sizes.length, sum[k]);
      }
    }
  }
};

template <class Body, int width>
__global__ void __launch_bounds__(threads)
    map_kernel(Body body, Sizes sizes, Mask mask, std::uint32_t groups, std::uint32_t steps, std::uint32_t units) {
  const std::uint32_t unit = blockIdx.x * threads + threadIdx.x;
  if (unit >= units) return;
  const std::uint32_t row = unit / steps;
  const Place place{row / groups, std::int64_t{row % groups} * group, std::int64_t{unit % steps} * width,
                    static_cast<int>(min(std::int64_t{group}, sizes.channels - std::int64_t{row % groups} * group))};
  body.template run<width>(place, sizes, mask);
}

// The gradient through the gate. A block keeps to its channels, so that it can sum what goes to the bias:
// partial (splits, 2 channels).
template <class T, class Outer, int width>
__global__ void __launch_bounds__(threads)
    glu_backward_kernel(const T* z, const Arithmetic<T>* bias, const Outer* dy, T* dz, Arithmetic<T>* partial,
                        Sizes sizes, Mask mask, std::uint32_t steps, std::uint32_t units) {
  using A = Arithmetic<T>;
  const std::int64_t channel = std::int64_t{blockIdx.x} * group;
  const int count = static_cast<int>(min(std::int64_t{group}, sizes.channels - channel));
  A sum[2 * group] = {};
  for (std::uint32_t unit = blockIdx.y * threads + threadIdx.x; unit < units; unit += gridDim.y * threads) {
    const std::int64_t b = unit / steps, l = std::int64_t{unit % steps} * width;
    const std::int64_t from = sizes.row(b, channel, sizes.channels) + l;
    const std::int64_t to = sizes.row(b, channel, 2 * sizes.channels) + l;
    const std::uint32_t bits = mask.draw<width>(b, l, channel, sizes.length, sizes.channels);
#pragma unroll
    for (int half = 0; half < group; half += group / 2) {
      Values<A, width> p[group / 2], q[group / 2], gradient[group / 2];
#pragma unroll
      for (int k = 0; k < group / 2; ++k)
        if (half + k < count) {
          load_gate(z, bias, channel + half + k, sizes, to + (half + k) * sizes.length, p[k], q[k]);
          gradient[k] = load<A, width>(dy + from + (half + k) * sizes.length);
        }
#pragma unroll
      for (int k = 0; k < group / 2; ++k) {
        if (half + k >= count) continue;
#pragma unroll
        for (int i = 0; i < width; ++i) {
          const A gate = sigmoid(q[k].at[i]);
          const A to_p = factor(bits, half + k, i, static_cast<A>(mask.kept)) * gradient[k].at[i] * gate;
          q[k].at[i] = to_p * p[k].at[i] * (1 - gate);
          p[k].at[i] = to_p;
          sum[half + k] += p[k].at[i];
          sum[group + half + k] += q[k].at[i];
        }
        T* row = dz + to + (half + k) * sizes.length;
        store<A, width>(row, p[k]);
        store<A, width>(row + sizes.channels * sizes.length, q[k]);
      }
    }
  }
  if (partial == nullptr) return;
  A* to = partial + 2 * sizes.channels * blockIdx.y;
  block_sums<threads>(sum, [&](int j, A total) {
    if (j % group < count) to[j / group * sizes.channels + channel + j % group] = total;
  });
}

struct Grid {
  std::uint32_t groups, steps, splits;
  std::uint32_t units;  // steps of all sequences

  Grid(const char* operation, const ActivationArguments& at, int width) {
    const std::int64_t all = (at.channels + group - 1) / group, along = at.length / width;
    if (at.batch * all * along > std::numeric_limits<std::int32_t>::max())
      throw Error(ErrorCode::unsupported, operation, "a tensor of more than 2^31 pieces of 8 channels");
    groups = static_cast<std::uint32_t>(all);
    steps = static_cast<std::uint32_t>(along);
    units = static_cast<std::uint32_t>(at.batch * along);
    // Enough blocks to fill a GPU; it depends on the sizes alone, so that sums are the same everywhere.
    splits = std::clamp(1024 / groups, 1u, (units + threads - 1) / threads);
  }
};

template <int width, class Body>
void launch_map(const char* operation, const ActivationArguments& at, const Body& body) {
  const Grid grid(operation, at, width);
  const std::uint32_t units = grid.units * grid.groups;
  map_kernel<Body, width><<<(units + threads - 1) / threads, threads, 0, at.stream>>>(
      body, Sizes{at.batch, at.length, at.channels}, Mask(at.dropout), grid.groups, grid.steps, units);
  check(operation, cudaGetLastError());
}

template <class Body>
void map(const char* operation, const ActivationArguments& at, bool vectors, const Body& body) {
  if (vectors)
    launch_map<vector_width>(operation, at, body);
  else
    launch_map<1>(operation, at, body);
}

// compute(T(), Outer()) for the pairs that the gate takes.
template <class Compute>
void with_types(const char* operation, Type type, Type outer, Compute&& compute) {
  if (type == Type::bfloat16 && outer == Type::float32) return compute(__nv_bfloat16(), float());
  if (type != outer) throw Error(ErrorCode::argument, operation, "z and the result have types that do not go together");
  with_type(type, [&](auto zero) { compute(zero, zero); });
}

template <class Function>
void map_function(const char* operation, const ActivationArguments& at) {
  with_type(at.type, [&](auto zero) {
    using T = decltype(zero);
    map(operation, at, vectorizable(at.length, sizeof(T), at.x, at.result),
        Map<T, Function>{static_cast<const T*>(at.x), static_cast<T*>(at.result)});
  });
}

}  // namespace

void dropout(const ActivationArguments& arguments) { map_function<Identity>("dropout", arguments); }
void gelu(const ActivationArguments& arguments) { map_function<Gelu>("gelu", arguments); }

void gelu_backward(const ActivationArguments& at) {
  with_type(at.type, [&](auto zero) {
    using T = decltype(zero);
    map("gelu_backward", at, vectorizable(at.length, sizeof(T), at.x, at.dy, at.result),
        GeluBackward<T>{static_cast<const T*>(at.x), static_cast<const T*>(at.dy), static_cast<T*>(at.result)});
  });
}

void glu(const ActivationArguments& at) {
  with_types("glu", at.type, at.outer, [&](auto zero, auto outer_zero) {
    using T = decltype(zero);
    using Outer = decltype(outer_zero);
    map("glu", at,
        vectorizable(at.length, sizeof(T), at.x) && vectorizable(at.length, sizeof(Outer), at.residual, at.result),
        Glu<T, Outer>{static_cast<const T*>(at.x), static_cast<const Arithmetic<T>*>(at.bias),
                      static_cast<const Outer*>(at.residual), static_cast<Outer*>(at.result)});
  });
}

std::size_t glu_backward_workspace_bytes(const ActivationArguments& at) {
  const Grid grid("glu_backward", at, 1);  // never fewer splits than with vectors
  return std::size_t{grid.splits} * 2 * static_cast<std::size_t>(at.channels) * (at.type == Type::float64 ? 8 : 4);
}

void glu_backward(const ActivationArguments& at, void* bias_gradient, void* workspace) {
  with_types("glu_backward", at.type, at.outer, [&](auto zero, auto outer_zero) {
    using T = decltype(zero);
    using Outer = decltype(outer_zero);
    using A = Arithmetic<T>;
    const Sizes sizes{at.batch, at.length, at.channels};
    A* partial = bias_gradient == nullptr ? nullptr : static_cast<A*>(workspace);
    std::uint32_t splits = 0;
    const auto launch = [&](auto kernel, int width) {
      const Grid grid("glu_backward", at, width);
      splits = grid.splits;
      kernel<<<dim3(grid.groups, grid.splits), threads, 0, at.stream>>>(
          static_cast<const T*>(at.x), static_cast<const A*>(at.bias), static_cast<const Outer*>(at.dy),
          static_cast<T*>(at.result), partial, sizes, Mask(at.dropout), grid.steps, grid.units);
      check("glu_backward", cudaGetLastError());
    };
    if (vectorizable(at.length, sizeof(T), at.x, at.result) && vectorizable(at.length, sizeof(Outer), at.dy))
      launch(glu_backward_kernel<T, Outer, vector_width>, vector_width);
    else
      launch(glu_backward_kernel<T, Outer, 1>, 1);
    if (partial == nullptr) return;
    sum_partials("glu_backward", partial, splits, 2 * at.channels, 2 * at.channels, static_cast<A*>(bias_gradient),
                 at.stream);
  });
}

}  // namespace rtf::cuda
