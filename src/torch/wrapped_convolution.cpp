// wrapped_convolve: kernel and convolve in one node of autograd. Small layers on a GPU take as long as the host takes
// to ask for them. wrapped_convolve_rows is the same of samples that a GPU turns over, which it returns: the gradient
// reads them again.
#include "torch/wrapped_convolution.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include "torch/bridge.h"
#include "torch/convolution.h"
#include "torch/kernel.h"
#include "torch/memory_order.h"
#include "torch/tape.h"

namespace rtf::ops {
namespace {

// Those that share a tensor are its rows, the numerators last.
Pair denominators_and_numerators(const Tensor& a, const OptionalTensor& b, const Tensor& h0) {
  if (b) return {a, *b};
  TORCH_CHECK_VALUE(h0.dim() == 1 && a.dim() == 2 && a.sym_size(0) > h0.sym_size(0),
                    "[rtf::wrapped_convolve] a and b in one have shape ", a.sym_sizes(), " and h0 has ", h0.sym_sizes(),
                    "; (denominators + channels, order) and (channels) are needed");
  const auto denominators = a.sym_size(0) - h0.sym_size(0);
  return {a.slice_symint(0, 0, denominators), a.slice_symint(0, denominators)};
}

}  // namespace

Tensor taps(const Tensor& k, bool bidirectional) {
  if (!bidirectional) return k;
  TORCH_CHECK_VALUE(k.dim() == 2 && k.sym_size(0) % 2 == 0, "[rtf::wrapped_convolve] the kernels have shape ",
                    k.sym_sizes(), "; two directions have an even number of rows");
  return k.reshape_symint({2, k.sym_size(0) / 2, k.sym_size(1)});
}

Pair composed_wrapped_convolve(const Tensor& u, const Tensor& a, const OptionalTensor& b, const Tensor& h0,
                               c10::SymInt length, bool bidirectional, const OptionalTensor& lengths) {
  const auto [below, above] = denominators_and_numerators(a, b, h0);
  const Tensor k = kernel(below, above, h0, std::move(length));
  return {convolve(u, taps(k, bidirectional), bidirectional, lengths), k};
}

Triple composed_wrapped_convolve_rows(const Tensor& u, const Tensor& a, const OptionalTensor& b, const Tensor& h0,
                                      c10::SymInt length, bool bidirectional, const OptionalTensor& lengths) {
  check_signal("wrapped_convolve_rows", "u", u);
  const Tensor rows = length_last(u);
  const auto [y, k] = wrapped_convolve(rows, a, b, h0, std::move(length), bidirectional, lengths);
  return {channels_last(y), k, rows};
}

Quadruple composed_wrapped_convolve_backward(const Tensor& dy, const Tensor& u, const Tensor& a,
                                             const OptionalTensor& b, const Tensor& h0, const Tensor& k,
                                             bool bidirectional, const OptionalTensor& lengths, bool contiguous) {
  const auto [below, above] = denominators_and_numerators(a, b, h0);
  auto [du, dk] = convolve_backward(dy, u, taps(k, bidirectional), bidirectional, lengths);
  if (contiguous) du = channels_last(du);
  auto [da, db, dh0] = kernel_backward(bidirectional ? dk.flatten(0, 1) : dk, below, above, h0);
  if (b) return {du, da, db, dh0};
  return {du, at::cat({da, db}), at::empty({0}, a.options()), dh0};
}

namespace {

Triple wrapped_convolve_rows(const Tensor& u, const Tensor& a, const OptionalTensor& b, const Tensor& h0,
                             c10::SymInt length, bool bidirectional, const OptionalTensor& lengths) {
  RTF_OPERATOR("wrapped_convolve_rows", Triple, const Tensor&, const Tensor&, const OptionalTensor&, const Tensor&,
               c10::SymInt, bool, const OptionalTensor&);
  return op.call(u, a, b, h0, std::move(length), bidirectional, lengths);
}

Quadruple call_backward(const Tensor& dy, const Tensor& u, const Tensor& a, const OptionalTensor& b, const Tensor& h0,
                        const Tensor& k, bool bidirectional, const OptionalTensor& lengths, bool contiguous) {
  RTF_OPERATOR("wrapped_convolve_backward", Quadruple, const Tensor&, const Tensor&, const Tensor&,
               const OptionalTensor&, const Tensor&, const Tensor&, bool, const OptionalTensor&, bool);
  return op.call(dy, u, a, b, h0, k, bidirectional, lengths, contiguous);
}

// The rows are kept in place of u.
Triple wrapped_convolve_rows_autograd(const Tensor& u, const Tensor& a, const OptionalTensor& b, const Tensor& h0,
                                      c10::SymInt length, bool bidirectional, const OptionalTensor& lengths) {
  const auto result = record(
      "wrapped_convolve", {u, a, kept(b), h0}, {a, kept(b), h0, kept(lengths)},
      [&]() -> variable_list {
        auto [y, k, rows] = wrapped_convolve_rows(u, a, b, h0, length, bidirectional, lengths);
        return {y, k, rows};
      },
      [bidirectional](const variable_list& saved, const variable_list& gradients) -> variable_list {
        auto [du, da, db, dh0] = call_backward(gradients[0], saved[5], saved[0], given(saved[1]), saved[2], saved[4],
                                               bidirectional, given(saved[3]), /*contiguous=*/true);
        return {du, da, saved[1].defined() ? db : Tensor(), dh0};
      },
      /*differentiable=*/1, /*copy=*/5);
  return {result[0], result[1], result[2]};
}

Pair wrapped_convolve_autograd(const Tensor& u, const Tensor& a, const OptionalTensor& b, const Tensor& h0,
                               c10::SymInt length, bool bidirectional, const OptionalTensor& lengths) {
  const bool frozen = !recorded({a, kept(b), h0});
  // A GPU's kernels read rows of samples.
  if (!frozen && u.is_cuda() && u.dim() == 3 && u.is_contiguous() && u.sym_stride(1) != 1) {
    const auto [y, k, rows] = wrapped_convolve_rows_autograd(u, a, b, h0, length, bidirectional, lengths);
    return {y, k};
  }
  const auto result = record(
      "wrapped_convolve", {u, a, kept(b), h0}, {u, a, kept(b), h0, kept(lengths)},
      [&]() -> variable_list {
        auto [y, k] = wrapped_convolve(u, a, b, h0, length, bidirectional, lengths);
        return {y, k};
      },
      [bidirectional, frozen](const variable_list& saved, const variable_list& gradients) -> variable_list {
        if (frozen) {
          const Tensor k = taps(saved[5], bidirectional);
          return {
              std::get<0>(convolve_backward(gradients[0], saved[0], k, bidirectional, given(saved[4]))), {}, {}, {}};
        }
        auto [du, da, db, dh0] = call_backward(gradients[0], saved[0], saved[1], given(saved[2]), saved[3], saved[5],
                                               bidirectional, given(saved[4]), /*contiguous=*/false);
        return {du, da, saved[2].defined() ? db : Tensor(), dh0};
      },
      /*differentiable=*/1);
  return {result[0], result[1]};
}

// For second derivatives the kernel is computed once more, by what has them.
Quadruple wrapped_convolve_backward_autograd(const Tensor& dy, const Tensor& u, const Tensor& a,
                                             const OptionalTensor& b, const Tensor& h0, const Tensor& k,
                                             bool bidirectional, const OptionalTensor& lengths, bool contiguous) {
  return either(
      "wrapped_convolve_backward", {dy, u, a, kept(b), h0},
      [&] { return call_backward(dy, u, a, b, h0, k, bidirectional, lengths, contiguous); },
      [&] {
        const auto [below, above] = denominators_and_numerators(a, b, h0);
        return composed_wrapped_convolve_backward(dy, u, a, b, h0, kernel(below, above, h0, k.sym_size(1)),
                                                  bidirectional, lengths, contiguous);
      });
}

}  // namespace

TORCH_LIBRARY_IMPL(rtf, CompositeExplicitAutograd, m) {
  m.impl("wrapped_convolve", composed_wrapped_convolve);
  m.impl("wrapped_convolve_rows", composed_wrapped_convolve_rows);
  m.impl("wrapped_convolve_backward", composed_wrapped_convolve_backward);
}
TORCH_LIBRARY_IMPL(rtf, Autograd, m) {
  m.impl("wrapped_convolve", wrapped_convolve_autograd);
  m.impl("wrapped_convolve_rows", wrapped_convolve_rows_autograd);
  m.impl("wrapped_convolve_backward", wrapped_convolve_backward_autograd);
}

}  // namespace rtf::ops
