// kernel and exact_kernel on the GPU. Nothing here waits for the device, so a CUDA graph can hold it; the values that
// the CPU operators refuse (a denominator that vanishes, a response that overflows) come out not finite.
#include "torch/cuda/kernel.h"

#include <ATen/Functions.h>
#include <torch/library.h>

#include <algorithm>
#include <bit>
#include <vector>

namespace rtf::ops {
namespace {

using at::Tensor;
using Triple = std::tuple<Tensor, Tensor, Tensor>;

at::ScalarType kernel_type(const Tensor& b) { return b.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

void check_arguments(const char* operation, const Tensor& a, const Tensor& b, const Tensor& h0) {
  check_coefficients(operation, a, b, h0);
  TORCH_CHECK_VALUE(b.size(1) <= largest_order, "[rtf::", operation, "] the order is ", b.size(1), "; at most ",
                    largest_order, " is served");
  check_device(operation, "a", a, "b", b);
  check_device(operation, "h0", h0, "b", b);
}

int64_t check_gradient(const char* operation, const Tensor& dk, const Tensor& b) {
  TORCH_CHECK_VALUE(dk.dim() == 2 && dk.size(0) == b.size(0), "[rtf::", operation, "] dk has shape ", dk.sizes(), "; (",
                    b.size(0), ", length) is needed");
  check_device(operation, "dk", dk, "b", b);
  length_of(operation, dk.size(1));
  return dk.size(1);
}

// --- Algorithm 1 at lengths that the fused kernels do not serve -----------------------------------------------------

// Coefficients (rows, order) as points: `leading`, c_1, ..., c_order, folded modulo the length; float64.
Tensor points(const Tensor& coefficients, double leading, int64_t length) {
  Tensor row = at::constant_pad_nd(coefficients.to(at::kDouble), {1, 0}, leading);
  if (row.size(1) <= length) return row;
  const int64_t turns = (row.size(1) + length - 1) / length;
  return at::constant_pad_nd(row, {0, turns * length - row.size(1)}).view({-1, turns, length}).sum(1);
}

Tensor spectrum(const Tensor& row, int64_t length) { return at::fft_rfft(row, length); }

// The other way: coefficient k is point k modulo the length.
Tensor coefficients(const Tensor& row, int64_t order) {
  const int64_t length = row.size(-1), turns = order / length + 1;
  return (turns == 1 ? row : row.repeat({1, turns})).slice(1, 1, order + 1);
}

// body(group, group_end, begin, end) for the channels [begin, end) of each of these groups: several whole groups, or a
// part of one, so that what lies between the transforms stays bounded.
template <class Body>
void for_tiles(int64_t channels, int64_t groups, int64_t length, Body body) {
  constexpr int64_t tile_bytes = 64 << 20;
  const int64_t each = channels / groups, fit = std::max<int64_t>(tile_bytes / (64 * length), 1);
  const int64_t part = std::min(each, fit), step = part < each ? 1 : std::max<int64_t>(fit / each, 1);
  for (int64_t group = 0; group < groups; group += step)
    for (int64_t begin = 0; begin < each; begin += part)
      body(group, std::min(group + step, groups), begin, std::min(begin + part, each));
}

// (channels, x) as (groups, channels of a group, x)
Tensor by_group(const Tensor& rows, int64_t groups) { return rows.view({groups, rows.size(0) / groups, rows.size(1)}); }

Tensor kernel_by_transforms(const Tensor& a, const Tensor& b, const Tensor& h0, int64_t length) {
  const int64_t groups = a.size(0);
  Tensor k = at::empty({b.size(0), length}, b.options().dtype(kernel_type(b)));
  const Tensor numerators = by_group(b, groups), kernels = by_group(k, groups), gains = h0.view({groups, -1});
  for_tiles(b.size(0), groups, length, [&](int64_t group, int64_t group_end, int64_t begin, int64_t end) {
    const auto tile = [&](const Tensor& rows) { return rows.slice(0, group, group_end).slice(1, begin, end); };
    const Tensor denominators = spectrum(points(a.slice(0, group, group_end), 1, length), length).unsqueeze(1);
    const Tensor quotient = spectrum(points(tile(numerators).flatten(0, 1), 0, length), length)
                                .unflatten(0, tile(gains).sizes())
                                .div_(denominators);
    const Tensor response = at::fft_irfft(quotient, length);
    response.select(2, 0).add_(tile(gains));
    tile(kernels).copy_(response);
  });
  return k;
}

Triple kernel_backward_by_transforms(const Tensor& dk, const Tensor& a, const Tensor& b, const Tensor& h0) {
  const int64_t groups = a.size(0), order = a.size(1), length = dk.size(1);
  Tensor db = empty_contiguous(b);
  Tensor da = at::zeros(a.sizes(), a.options().dtype(at::kDouble));
  const Tensor numerators = by_group(b, groups), gradients = by_group(dk, groups), to_b = by_group(db, groups);
  for_tiles(b.size(0), groups, length, [&](int64_t group, int64_t group_end, int64_t begin, int64_t end) {
    const auto tile = [&](const Tensor& rows) { return rows.slice(0, group, group_end).slice(1, begin, end); };
    const std::vector<int64_t> shape{group_end - group, end - begin};
    const Tensor inverse = spectrum(points(a.slice(0, group, group_end), 1, length), length).reciprocal_().unsqueeze(1);
    const Tensor quotient =
        spectrum(points(tile(numerators).flatten(0, 1), 0, length), length).unflatten(0, shape).mul_(inverse);
    const Tensor to_numerator = spectrum(tile(gradients).to(at::kDouble), length).mul_(inverse.conj());
    const Tensor to_denominator = quotient.conj_physical_().mul_(to_numerator).sum(1);
    tile(to_b).copy_(coefficients(at::fft_irfft(to_numerator, length).flatten(0, 1), order).unflatten(0, shape));
    da.slice(0, group, group_end).sub_(coefficients(at::fft_irfft(to_denominator, length), order));
  });
  return {da.to(a.options()), db, dk.select(1, 0).to(h0.options(), /*non_blocking=*/false, /*copy=*/true)};
}

Tensor kernel_cuda(const Tensor& a, const Tensor& b, const Tensor& h0, int64_t length) {
  check_arguments("kernel", a, b, h0);
  length_of("kernel", length);
  const Device device(b);
  const Tensor a_row = a.contiguous(), b_row = b.contiguous(), h0_row = h0.contiguous();
  if (!cuda::wrapped_kernel_serves(length)) return kernel_by_transforms(a_row, b_row, h0_row, length);
  return call([&] {
    const KernelNumbers in(a_row, b_row, h0_row);
    const auto sizes = in.sizes(length);
    Tensor k = at::empty({b.size(0), length}, b.options().dtype(kernel_type(b)));
    const c10::DataPtr scratch = workspace(cuda::wrapped_kernel_workspace(sizes), device);
    cuda::wrapped_kernel(sizes, in.a, in.b, in.h0, numbers(k), scratch.get(), device);
    return k;
  });
}

Triple kernel_backward_cuda(const Tensor& dk, const Tensor& a, const Tensor& b, const Tensor& h0) {
  check_arguments("kernel_backward", a, b, h0);
  const int64_t length = check_gradient("kernel_backward", dk, b);
  compute_type("kernel_backward", dk.scalar_type());
  const Device device(b);
  const Tensor gradient = dk.contiguous(), a_row = a.contiguous(), b_row = b.contiguous();
  if (!cuda::wrapped_kernel_serves(length)) return kernel_backward_by_transforms(gradient, a_row, b_row, h0);
  const Tensor da = empty_contiguous(a), db = empty_contiguous(b), dh0 = empty_contiguous(h0);
  return call([&]() -> Triple {
    const KernelNumbers in(a_row, b_row, h0), out(da, db, dh0);
    const auto sizes = in.sizes(length);
    const c10::DataPtr scratch = workspace(cuda::wrapped_kernel_vjp_workspace(sizes), device);
    cuda::wrapped_kernel_vjp(sizes, numbers(gradient), in.a, in.b, out.a, out.b, out.h0, scratch.get(), device);
    return {da, db, dh0};
  });
}

// --- The exact response: power series in float64 --------------------------------------------------------------------

// The first `length` terms of 1 / (1 + a_1 w + ...) by Newton's doubling. The step from m to 2m terms needs two
// products modulo w^2m, and transforms of 2m points: what wraps around falls on terms that are known already.
Tensor inverse_series(const Tensor& a, int64_t length) {
  const Tensor series = at::constant_pad_nd(a.to(at::kDouble), {1, 0}, 1.0);
  Tensor inverse = series.slice(1, 0, 1);
  for (int64_t m = 1; m < length; m *= 2) {
    const Tensor known = at::fft_rfft(inverse, 2 * m);
    const Tensor product = at::fft_irfft(at::fft_rfft(series.slice(1, 0, 2 * m), 2 * m).mul_(known), 2 * m);
    const Tensor excess = at::fft_rfft(product.slice(1, m), 2 * m).mul_(known);
    inverse = at::cat({inverse, at::fft_irfft(excess, 2 * m).slice(1, 0, m).neg()}, 1);
  }
  return inverse.slice(1, 0, length);
}

// Enough points for products of two series of `length` terms without wrapping around.
int64_t product_points(int64_t length) {
  return static_cast<int64_t>(2 * std::bit_ceil(static_cast<std::uint64_t>(length)));
}

// b_1 w + ... + b_n w^n over 1 + a_1 w + ..., `length` terms, as (groups, channels of a group, length).
Tensor series_quotient(const Tensor& inverse, const Tensor& b, int64_t length) {
  const int64_t size = product_points(length);
  const Tensor numerator = at::constant_pad_nd(b.to(at::kDouble), {1, 0}).slice(1, 0, length);
  const Tensor transformed = by_group(at::fft_rfft(numerator, size), inverse.size(0));
  return at::fft_irfft(transformed.mul(at::fft_rfft(inverse, size).unsqueeze(1)), size).slice(2, 0, length);
}

Tensor exact_kernel_cuda(const Tensor& a, const Tensor& b, const Tensor& h0, int64_t length) {
  check_arguments("exact_kernel", a, b, h0);
  length_of("exact_kernel", length);
  const Device device(b);
  Tensor k = at::empty({b.size(0), length}, b.options().dtype(kernel_type(b)));
  k.copy_(series_quotient(inverse_series(a, length), b, length).flatten(0, 1));
  k.select(1, 0).copy_(h0);
  return k;
}

// db_j = sum_t dk_t g_{t-j} =: p_j with g = 1/A, and da_j = - sum over channels and t of p_t h_{t-j} with h = B/A.
Triple exact_kernel_backward_cuda(const Tensor& dk, const Tensor& a, const Tensor& b, const Tensor& h0) {
  check_arguments("exact_kernel_backward", a, b, h0);
  const int64_t length = check_gradient("exact_kernel_backward", dk, b);
  const Device device(b);
  const int64_t size = product_points(length), order = a.size(1), groups = a.size(0);
  const Tensor inverse = inverse_series(a, length);
  const Tensor quotient = series_quotient(inverse, b, length);
  const auto transform = [&](const Tensor& x) { return at::fft_rfft(x, size); };
  const Tensor gradient = by_group(dk.to(at::kDouble).contiguous(), groups);
  const Tensor p =
      at::fft_irfft(transform(gradient).mul(transform(inverse).conj().unsqueeze(1)), size).slice(2, 0, length);
  const Tensor q = at::fft_irfft(transform(p).mul(transform(quotient).conj()).sum(1), size).slice(1, 0, length);
  const auto terms = [&](const Tensor& rows, const Tensor& like) {  // 1..order; none past the length
    const Tensor found = rows.slice(1, 1, order + 1);
    return at::constant_pad_nd(found, {0, order - found.size(1)}).to(like.options()).contiguous();
  };
  return {terms(q.neg(), a), terms(p.flatten(0, 1), b),
          dk.select(1, 0).to(h0.options(), /*non_blocking=*/false, /*copy=*/true)};
}

}  // namespace

TORCH_LIBRARY_IMPL(rtf, CUDA, m) {
  m.impl("kernel", kernel_cuda);
  m.impl("kernel_backward", kernel_backward_cuda);
  m.impl("exact_kernel", exact_kernel_cuda);
  m.impl("exact_kernel_backward", exact_kernel_backward_cuda);
}

}  // namespace rtf::ops
