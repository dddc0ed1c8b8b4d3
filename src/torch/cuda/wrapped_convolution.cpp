// wrapped_convolve on the GPU. Where the fused kernels serve both of its steps they are launched here, with one
// allocation for all scratch and no views of the coefficients: of a small layer the host asks for as long as the GPU
// computes. Signals are turned over, where they have to be, beside kernels of the coefficients, which leave most of the
// GPU idle.
#include "torch/wrapped_convolution.h"

#include <torch/library.h>

#include <algorithm>
#include <optional>

#include "cuda/convolution.h"
#include "torch/cuda/convolution.h"
#include "torch/cuda/kernel.h"

namespace rtf::ops {
namespace {

bool is_single(const Tensor& x) { return x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16; }

// Whether all is float32 or bfloat16, on one GPU, and of shapes that the fused kernels take. What is wrong with others
// is said by the operators that they are composed of.
bool can_be_fused(const Tensor& u, const Tensor& a, const OptionalTensor& b, const Tensor& h0, int64_t length) {
  if (u.dim() != 3 || a.dim() != 2 || h0.dim() != 1 || (b && b->dim() != 2)) return false;
  const int64_t channels = h0.size(0), denominators = b ? a.size(0) : a.size(0) - channels;
  if (channels < 1 || denominators < 1 || channels % denominators != 0) return false;
  if (b && (b->size(0) != channels || b->size(1) != a.size(1))) return false;
  for (const Tensor& x : {a, h0, b.value_or(h0)})
    if (!is_single(x) || x.device() != u.device()) return false;
  return u.is_cuda() && is_single(u) && u.numel() > 0 && a.size(1) <= largest_order &&
         cuda::wrapped_kernel_serves(length);
}

OptionalTensor contiguous_or_none(const OptionalTensor& x) { return x ? OptionalTensor(x->contiguous()) : x; }

// y, the kernels and, where they are to be kept, the rows of u, which is contiguous then; nothing where fused code does
// not serve both steps.
std::optional<Triple> fused(const Tensor& u, const Tensor& a, const OptionalTensor& b, const Tensor& h0, int64_t length,
                            bool bidirectional, const OptionalTensor& lengths, bool keep_rows) {
  if (!can_be_fused(u, a, b, h0, length)) return {};
  const Device device(u);
  const Tensor a_rows = a.contiguous(), gains = h0.contiguous();
  const OptionalTensor b_rows = contiguous_or_none(b);
  const KernelNumbers in(a_rows, b_rows, gains);
  const Tensor k = empty_on(u.device(), {in.channels, length}, at::kFloat);
  const ConvolutionArguments at("convolve", u, taps(k, bidirectional), bidirectional, lengths, {});
  if (at.unfused) return {};
  const Tensor rows = keep_rows ? empty_length_last(u, u.scalar_type()) : Tensor();
  return call([&]() -> Triple {
    const auto sizes = in.sizes(length);
    Pieces pieces;
    const Tensor y = keep_rows ? empty_contiguous(u) : empty_result(u, u.scalar_type());
    const Rows from = keep_rows ? Rows(u, rows) : Rows(u, pieces), to(y, pieces);
    // For one step, then for the other.
    const std::size_t space =
        pieces.add(std::max(cuda::wrapped_kernel_workspace(sizes), cuda::convolve_workspace_bytes(at.sizes)));
    pieces.allocate(device);
    cuda::wrapped_kernel(sizes, in.a, in.b, in.h0, numbers(k), pieces.at(space), device);
    cuda::convolve(at.sizes, from.input(), k.const_data_ptr<float>(), to.rows(), pieces.at(space), device,
                   /*beside=*/true);
    return {to.written(device), k, rows};
  });
}

Pair wrapped_convolve_cuda(const Tensor& u, const Tensor& a, const OptionalTensor& b, const Tensor& h0, int64_t length,
                           bool bidirectional, const OptionalTensor& lengths) {
  const auto found = fused(u, a, b, h0, length, bidirectional, lengths, /*keep_rows=*/false);
  if (!found) return composed_wrapped_convolve(u, a, b, h0, length, bidirectional, lengths);
  return {std::get<0>(*found), std::get<1>(*found)};
}

Triple wrapped_convolve_rows_cuda(const Tensor& u, const Tensor& a, const OptionalTensor& b, const Tensor& h0,
                                  int64_t length, bool bidirectional, const OptionalTensor& lengths) {
  std::optional<Triple> found;
  if (u.is_contiguous()) found = fused(u, a, b, h0, length, bidirectional, lengths, /*keep_rows=*/true);
  return found ? *found : composed_wrapped_convolve_rows(u, a, b, h0, length, bidirectional, lengths);
}

Quadruple wrapped_convolve_backward_cuda(const Tensor& dy, const Tensor& u, const Tensor& a, const OptionalTensor& b,
                                         const Tensor& h0, const Tensor& k, bool bidirectional,
                                         const OptionalTensor& lengths, bool contiguous) {
  const auto composed = [&] {
    return composed_wrapped_convolve_backward(dy, u, a, b, h0, k, bidirectional, lengths, contiguous);
  };
  const bool same = dy.sizes() == u.sizes() && dy.device() == u.device() && k.scalar_type() == at::kFloat;
  if (!same || k.dim() != 2 || !can_be_fused(u, a, b, h0, k.size(1)) || k.size(0) != h0.size(0)) return composed();
  const Device device(u);
  const ConvolutionArguments at("convolve_backward", u, taps(k, bidirectional), bidirectional, lengths, {});
  if (at.unfused) return composed();
  const Tensor a_rows = a.contiguous(), gradient = as_type(dy, u.scalar_type());
  const OptionalTensor b_rows = contiguous_or_none(b);
  const Tensor da = empty_contiguous(a), dh0 = empty_contiguous(h0);
  const Tensor db = b ? empty_contiguous(*b) : empty_on(a.device(), {0}, a.scalar_type());
  return call([&]() -> Quadruple {
    const KernelNumbers in(a_rows, b_rows, h0), out(da, b ? OptionalTensor(db) : b, dh0);
    const auto sizes = in.sizes(k.size(1));
    Pieces pieces;
    const Tensor du = contiguous ? empty_contiguous(u) : empty_result(u, u.scalar_type());
    const Rows from(gradient, pieces), with(u, pieces), to(du, pieces);
    const std::size_t space = pieces.add(
        std::max(cuda::convolve_backward_workspace_bytes(at.sizes), cuda::wrapped_kernel_vjp_workspace(sizes)));
    const std::size_t to_k = pieces.add(k.nbytes());
    pieces.allocate(device);
    auto* dk = static_cast<float*>(pieces.at(to_k));
    cuda::convolve_backward(at.sizes, from.input(), with.input(), at.kernel.const_data_ptr<float>(), to.rows(), dk,
                            pieces.at(space), device);
    cuda::wrapped_kernel_vjp(sizes, {dk, cuda::Type::float32}, in.a, in.b, out.a, out.b, out.h0, pieces.at(space),
                             device, /*beside=*/true);
    return {to.written(device, /*beside=*/true), da, db, dh0};
  });
}

}  // namespace

TORCH_LIBRARY_IMPL(rtf, CUDA, m) {
  m.impl("wrapped_convolve", wrapped_convolve_cuda);
  m.impl("wrapped_convolve_rows", wrapped_convolve_rows_cuda);
  m.impl("wrapped_convolve_backward", wrapped_convolve_backward_cuda);
}

}  // namespace rtf::ops
