// Where the transforms of a convolution read from and write to: rows of a signal, and the kernel of a channel.
// `row(b, c, first)` is sequence b and channel c from sample `first` on, which is a thread's own: further samples are a
// constant away, and need no register of their own. The transform is longer than the row.
#pragma once

#include <cuda_bf16.h>

#include "cuda/convolution.h"
#include "cuda/fft.h"

namespace rtf::cuda {

// Samples are read and written once: they should leave the caches to the spectra.
__device__ __forceinline__ float load_sample(const float* at) { return __ldcs(at); }
__device__ __forceinline__ float load_sample(const __nv_bfloat16* at) {
  return __uint_as_float(static_cast<unsigned>(__ldcs(reinterpret_cast<const unsigned short*>(at))) << 16);
}
__device__ __forceinline__ void store_sample(float* at, float value) { __stcs(at, value); }
__device__ __forceinline__ void store_sample(__nv_bfloat16* at, float value) {
  __stcs(reinterpret_cast<unsigned short*>(at), __bfloat16_as_ushort(__float2bfloat16_rn(value)));
}

// A pointer to be kept as it is, not computed again for each access.
template <class T>
__device__ __forceinline__ T* keep(T* pointer) {
  asm volatile("" : "+l"(pointer));
  return pointer;
}

// The place of sequence b, and how many samples it has.
struct Sequence {
  std::int64_t start;
  int length, valid;  // the input counts up to `valid`

  __device__ __forceinline__ Sequence(const Convolution& sizes, std::int64_t batch_stride, int b) {
    start = sizes.offsets ? sizes.offsets[b] : b * batch_stride;
    length = sizes.offsets ? static_cast<int>(sizes.offsets[b + 1] - sizes.offsets[b]) : sizes.length;
    valid = sizes.lengths ? static_cast<int>(min(sizes.lengths[b], static_cast<std::int64_t>(length))) : length;
  }
};

enum class Ends { length, valid };  // which of a sequence's two ends counts

template <class T>
struct SignalSource {
  Convolution sizes;
  Signal signal;
  Ends ends;

  struct Row {
    const T* data;
    int end;
    __device__ __forceinline__ float operator()(int t) const { return t < end ? load_sample(data + t) : 0.f; }
  };
  __device__ __forceinline__ Row row(int b, int c, int first) const {
    const Sequence at(sizes, signal.batch_stride, b);
    return {keep(static_cast<const T*>(signal.data) + at.start + c * signal.channel_stride + first),
            (ends == Ends::valid ? at.valid : at.length) - first};
  }
};

// Writes up to the length; zeros past the end that counts.
template <class T, Ends ends>
struct SignalSink {
  Convolution sizes;
  Signal signal;

  struct Row {
    T* data;
    int length, end;
    __device__ __forceinline__ void put(int t, float value) const {
      if (t < length) store_sample(data + t, ends == Ends::length || t < end ? value : 0.f);
    }
    __device__ __forceinline__ void operator()(int t, float2 weight, float2 value) const {
      put(t, real_dot(weight, value));
    }
  };
  __device__ __forceinline__ Row row(int b, int c, int first) const {
    const Sequence at(sizes, signal.batch_stride, b);
    return {keep(static_cast<T*>(signal.data) + at.start + c * signal.channel_stride + first), at.length - first,
            at.valid - first};
  }
};

// The kernel forward in time at its place, -i times the one backward in time at size - lag.
struct KernelSource {
  const float* kernel;
  int channels, kernel_length, used, lags, size;  // lags: of the backward kernel, 0 when there is none

  struct Row {
    const float *forward_kernel, *backward_kernel;
    int used, lags, size;
    __device__ __forceinline__ float2 operator()(int t) const {
      const int lag = size - t;
      return {t < used ? load_sample(forward_kernel + t) : 0.f,
              lag <= lags ? -load_sample(backward_kernel + lag - 1) : 0.f};
    }
  };
  __device__ __forceinline__ Row row(int, int c, int first) const {
    const float* at = kernel + std::int64_t(c) * kernel_length;
    return {at + first, at + std::int64_t(channels) * kernel_length, used - first, lags, size - first};
  }
};

// The gradient of both kernels; samples that no output sees get zero.
struct KernelSink {
  float* kernel;
  int channels, kernel_length, used, lags, size;
  bool bidirectional;

  struct Row {
    float *forward_kernel, *backward_kernel;
    int left, kernel_length, used, lags, size;
    bool bidirectional;
    __device__ __forceinline__ void operator()(int t, float2 weight, float2 value) const {
      const float2 gradient = conj(weight) * value;
      const int lag = size - t;
      if (t < left) forward_kernel[t] = t < used ? gradient.x : 0.f;
      if (bidirectional && lag <= kernel_length) backward_kernel[lag - 1] = lag <= lags ? -gradient.y : 0.f;
    }
  };
  __device__ __forceinline__ Row row(int, int c, int first) const {
    float* at = kernel + std::int64_t(c) * kernel_length;
    return {at + first,
            at + std::int64_t(channels) * kernel_length,
            kernel_length - first,
            kernel_length,
            used - first,
            lags,
            size - first,
            bidirectional};
  }
};

}  // namespace rtf::cuda
