// The choice of a method and the order of the steps.
#include <algorithm>
#include <string>

#include "cuda/convolution.h"
#include "cuda/convolution_steps.h"
#include "cuda/device.h"
#include "rtf/error.h"

namespace rtf::cuda {
namespace {

// The number that takes the least time when the blocks run in waves over the H200's multiprocessors. Writing a group's
// share and adding it up later costs about as much as half a sequence.
int sequences_in_group(const Convolution& sizes, int size) {
  const std::int64_t resident = multiprocessors * std::max(1, 8 * warp::size / size);
  int best = 1;
  double least = 0;
  for (int group = 1; group <= std::min(sizes.batch, 64); ++group) {
    const std::int64_t blocks = std::int64_t(sizes.channels) * ((sizes.batch + group - 1) / group);
    const double time = static_cast<double>((blocks + resident - 1) / resident) * (group + 0.5);
    if (group == 1 || time < least) best = group, least = time;
  }
  return best;
}

enum class Pass { ahead, backward };

// Everything that follows from the sizes, and from what a block can have on this device.
struct Plan {
  int size;  // of the transform
  Method method;
  int group;  // sequences whose share of the kernel's gradient one block sums
  int groups;
  std::size_t spectrum_bytes, sum_bytes;

  Plan(const char* operation, const Convolution& sizes, Pass pass) {
    const bool forced = sizes.method != Method::automatic;
    const int longest = !forced || sizes.method == Method::columns ? longest_convolution
                        : sizes.method == Method::block            ? block::longest
                                                                   : cluster::longest;
    if (sizes.length > longest)
      throw Error(forced ? ErrorCode::argument : ErrorCode::unsupported, operation,
                  "length is " + std::to_string(sizes.length) + "; " +
                      (forced ? "this method takes" : "the CUDA kernels take") + " up to " + std::to_string(longest));
    const int shortest = !forced || sizes.method == Method::block ? warp::size : 2 * block::longest;
    size = shortest;
    while (size < sizes.length) size *= 2;
    if (!forced && pass == Pass::backward && size <= block::longest &&
        block::backward_shared_bytes(size) > largest_shared_memory(operation))
      size = 2 * block::longest;  // the shortest of the columns
    // The first that takes the length is the fastest at every batch: measured, docs/benchmarks.md ("Figures").
    method = forced                                                    ? sizes.method
             : size <= block::longest                                  ? Method::block
             : size <= cluster::longest && compiled_capability() >= 90 ? Method::cluster
                                                                       : Method::columns;
    group = sequences_in_group(sizes, size);
    groups = method == Method::block ? (sizes.batch + group - 1) / group : 1;
    spectrum_bytes = sizeof(float2) * sizes.channels * size;
    sum_bytes = groups * spectrum_bytes;
  }
};

KernelSource kernel_source(const Convolution& sizes, const Plan& plan, const float* kernel) {
  const int lags = sizes.bidirectional ? std::min(sizes.kernel_length, sizes.length - 1) : 0;
  return {kernel, sizes.channels, sizes.kernel_length, std::min(sizes.kernel_length, sizes.length), lags, plan.size};
}

// Puts the rows of an input in place.
void make_rows(const Input& input, cudaStream_t stream, bool beside = false) {
  if (input.turn) transpose(*input.turn, stream, beside);
}

}  // namespace

std::size_t convolve_workspace_bytes(const Convolution& sizes) {
  const Plan plan("convolve", sizes, Pass::ahead);
  return plan.spectrum_bytes + (plan.method == Method::columns
                                    ? columns::convolve_scratch_bytes(sizes, kernel_source(sizes, plan, nullptr))
                                    : 0);
}

std::size_t convolve_backward_workspace_bytes(const Convolution& sizes) {
  const Plan plan("convolve_backward", sizes, Pass::backward);
  return plan.spectrum_bytes + plan.sum_bytes + (plan.method == Method::block ? 0 : columns::backward_scratch_bytes);
}

void convolve(const Convolution& sizes, const Input& u, const float* kernel, Signal y, void* workspace,
              cudaStream_t stream, bool beside) {
  const Plan plan("convolve", sizes, Pass::ahead);
  auto* spectrum = static_cast<float2*>(workspace);
  const KernelSource source = kernel_source(sizes, plan, kernel);
  make_rows(u, stream, beside);
  if (plan.method == Method::block) {
    block::spectrum(source, spectrum, stream);
    block::convolve(sizes, plan.size, u.rows, spectrum, y, stream);
  } else if (plan.method == Method::cluster) {
    columns::spectrum(source, spectrum, stream);
    cluster::convolve(sizes, u.rows, spectrum, y, stream);
  } else {
    auto* scratch = spectrum + plan.spectrum_bytes / sizeof(float2);
    columns::convolve(sizes, u.rows, source, spectrum, y, scratch, stream);
  }
}

void convolve_backward(const Convolution& sizes, const Input& dy, const Input& u, const float* kernel, Signal du,
                       float* dk, void* workspace, cudaStream_t stream) {
  const Plan plan("convolve_backward", sizes, Pass::backward);
  auto* spectrum = static_cast<float2*>(workspace);
  auto* sum = spectrum + plan.spectrum_bytes / sizeof(float2);
  auto* scratch = sum + plan.sum_bytes / sizeof(float2);
  // The kernel's samples past the transform have no part in y.
  const std::size_t kernels = sizes.bidirectional ? 2 : 1;
  if (sizes.kernel_length > plan.size)
    check("convolve_backward",
          cudaMemsetAsync(dk, 0, sizeof(float) * kernels * sizes.channels * sizes.kernel_length, stream));
  const KernelSource source = kernel_source(sizes, plan, kernel);
  const KernelSink sink{dk,          sizes.channels, sizes.kernel_length, source.used,
                        source.lags, plan.size,      sizes.bidirectional};
  make_rows(u, stream);
  if (plan.method == Method::block) {
    block::spectrum(source, spectrum, stream);
    make_rows(dy, stream, /*beside=*/true);
    block::backward(sizes, plan.size, plan.group, dy.rows, u.rows, spectrum, du, sum, stream);
    block::gradient(sum, plan.groups, sink, stream);
  } else {
    make_rows(dy, stream);
    columns::spectrum(source, spectrum, stream);
    columns::backward(sizes, plan.size, dy.rows, u.rows, spectrum, du, sum, scratch, stream);
    columns::gradient(sum, sink, stream);
  }
}

}  // namespace rtf::cuda
