// Right-angle convolution on the GPU (docs/math.md, section 6): modulo z^m = i, m a power of two of at least the
// length.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "cuda/transpose.h"

namespace rtf::cuda {

enum class Storage { float32, bfloat16 };

// Rows of samples that lie side by side; strides in samples.
struct Signal {
  void* data;
  std::int64_t batch_stride, channel_stride;
};

// Rows to be read, and what is to be turned over first where they are not there yet: if possible beside kernels that
// leave most of the GPU idle.
struct Input {
  Signal rows;
  std::optional<Turn> turn;

  Input(Signal where, std::optional<Turn> first = {}) : rows(where), turn(first) {}
};

// How a row is transformed: within one block, within a cluster of blocks, or as columns and rows with what lies between
// them in the L2 cache. There is no backward pass within a cluster.
enum class Method { automatic, block, cluster, columns };

struct Convolution {
  int batch;   // sequences
  int length;  // of the longest
  int channels;
  int kernel_length;  // samples of a kernel, of which those past the length are not used
  bool bidirectional;
  Storage storage;
  const std::int64_t* lengths;  // on the device: where each sequence's input ends; or null
  const std::int64_t* offsets;  // on the device: batch + 1 places of packed sequences in a signal of batch 1; or null
  Method method = Method::automatic;
};

// The longest sequence that the kernels take.
constexpr int longest_convolution = 1 << 18;

std::size_t convolve_workspace_bytes(const Convolution& sizes);
std::size_t convolve_backward_workspace_bytes(const Convolution& sizes);

// `kernel` is (channels, kernel_length), or (2, channels, kernel_length) when bidirectional, float32 and contiguous.
// `beside`: the kernel before this on the stream has made `kernel` and nothing else, and started after all before it.
void convolve(const Convolution& sizes, const Input& u, const float* kernel, Signal y, void* workspace,
              cudaStream_t stream, bool beside = false);

// Gradients to u and to the kernel, overwritten. Its last kernel lets the next start when du is there and dk is not.
void convolve_backward(const Convolution& sizes, const Input& dy, const Input& u, const float* kernel, Signal du,
                       float* dk, void* workspace, cudaStream_t stream);

}  // namespace rtf::cuda
