// convolve: the parallel form of the layer, with the core's own gradients.
#include "rtf/convolution.h"

#include <torch/library.h>

#include "torch/bridge.h"
#include "torch/convolution.h"
#include "torch/dispatch.h"
#include "torch/plan_cache.h"
#include "torch/tape.h"

namespace rtf::ops {

void check_convolution(const char* operation, const Tensor& u, const Tensor& kernel, bool bidirectional,
                       const OptionalTensor& lengths, const OptionalTensor& offsets) {
  check_signal(operation, "u", u);
  const bool fits = kernel.dim() == (bidirectional ? 3 : 2) && kernel.sym_size(-2) == u.sym_size(2) &&
                    (!bidirectional || kernel.sym_size(0) == 2);
  TORCH_CHECK_VALUE(fits, "[rtf::", operation, "] the kernel has shape ", kernel.sym_sizes(), "; (",
                    bidirectional ? "2, " : "", u.sym_size(2), ", samples) is needed for ", u.sym_size(2), " channels");
  compute_type(operation, kernel.scalar_type());
  TORCH_CHECK_VALUE(!lengths || !offsets, "[rtf::", operation,
                    "] both lengths and offsets are given; a batch is padded or packed");
}

Pair convolve_backward(const Tensor& dy, const Tensor& u, const Tensor& kernel, bool bidirectional,
                       const OptionalTensor& lengths, const OptionalTensor& offsets) {
  RTF_OPERATOR("convolve_backward", Pair, const Tensor&, const Tensor&, const Tensor&, bool, const OptionalTensor&,
               const OptionalTensor&);
  return op.call(dy, u, kernel, bidirectional, lengths, offsets);
}

namespace {

// What both directions of the operator need, checked.
struct Arguments {
  at::ScalarType type;  // of the arithmetic
  Tensor u, kernel;     // of that type; the kernel contiguous
  std::vector<std::size_t> lengths, offsets;
  std::size_t batch, length, channels, kernel_length;
  Direction direction;

  Arguments(const char* operation, const Tensor& u_, const Tensor& kernel_, bool bidirectional,
            const OptionalTensor& lengths_, const OptionalTensor& offsets_)
      : type(compute_type(operation, u_.scalar_type())),
        u(u_.to(type)),
        kernel(kernel_.to(type).contiguous()),
        direction(bidirectional ? Direction::bidirectional : Direction::causal) {
    check_convolution(operation, u_, kernel_, bidirectional, lengths_, offsets_);
    lengths = lengths_of(operation, lengths_, u.size(0), u.size(1));
    offsets = offsets_of(operation, offsets_, u.size(1));
    batch = sequence_count(static_cast<std::size_t>(u.size(0)), offsets);
    channels = static_cast<std::size_t>(u.size(2));
    kernel_length = static_cast<std::size_t>(kernel.size(-1));
    length = static_cast<std::size_t>(u.size(1));
    if (!offsets.empty()) {
      length = 0;
      for (std::size_t s = 0; s + 1 < offsets.size(); ++s) length = std::max(length, offsets[s + 1] - offsets[s]);
    }
  }

  Sequences sequences() const { return {offsets, lengths}; }

  template <class T>
  std::shared_ptr<const ConvolutionPlan<T>> plan() const {
    using Key = std::array<std::size_t, 5>;
    static PlanCache<Key, ConvolutionPlan<T>> plans;
    const Key key{batch, length, channels, kernel_length, direction == Direction::bidirectional};
    return plans.get(key, [&] { return ConvolutionPlan<T>(batch, length, channels, kernel_length, direction); });
  }
};

// The same bytes reinterpreted when u already has the type of the arithmetic; bfloat16 is converted around the core.
Tensor convolve_cpu(const Tensor& u, const Tensor& kernel, bool bidirectional, const OptionalTensor& lengths,
                    const OptionalTensor& offsets) {
  const Arguments at("convolve", u, kernel, bidirectional, lengths, offsets);
  Tensor y = empty_result(u, u.scalar_type());
  Tensor out = at.type == u.scalar_type() ? y : at::empty_like(at.u);
  with_type(at.type, [&](auto zero) {
    using T = decltype(zero);
    const auto plan = at.plan<T>();
    convolve(*plan, signal<const T>(at.u), values<const T>(at.kernel), signal<T>(out), at.sequences(),
             Scratch(plan->workspace_bytes(executor())), executor());
  });
  return out.is_same(y) ? y : y.copy_(out);
}

Pair convolve_backward_cpu(const Tensor& dy, const Tensor& u, const Tensor& kernel, bool bidirectional,
                           const OptionalTensor& lengths, const OptionalTensor& offsets) {
  const Arguments at("convolve_backward", u, kernel, bidirectional, lengths, offsets);
  check_shape("convolve_backward", "dy", dy, u.sizes());
  const Tensor gradient = dy.to(at.type);
  const Tensor du = empty_result(u, u.scalar_type()), dk = at::empty_like(at.kernel);
  const Tensor out = at.type == u.scalar_type() ? du : at::empty_like(at.u);
  with_type(at.type, [&](auto zero) {
    using T = decltype(zero);
    const auto plan = at.plan<T>();
    convolve_vjp(*plan, signal<const T>(at.u), values<const T>(at.kernel), signal<const T>(gradient), signal<T>(out),
                 values<T>(dk), at.sequences(), Scratch(plan->vjp_workspace_bytes(executor())), executor());
  });
  if (!out.is_same(du)) du.copy_(out);
  return {du, dk.to(kernel.scalar_type())};
}

Tensor convolve_meta(const Tensor& u, const Tensor& kernel, bool bidirectional, const OptionalTensor& lengths,
                     const OptionalTensor& offsets) {
  check_convolution("convolve", u, kernel, bidirectional, lengths, offsets);
  return empty_result(u, u.scalar_type());
}

Pair convolve_backward_meta(const Tensor&, const Tensor& u, const Tensor& kernel, bool, const OptionalTensor&,
                            const OptionalTensor&) {
  return {empty_result(u, u.scalar_type()), at::empty_like(kernel, at::MemoryFormat::Contiguous)};
}

Tensor convolve_autograd(const Tensor& u, const Tensor& kernel, bool bidirectional, const OptionalTensor& lengths,
                         const OptionalTensor& offsets) {
  return record(
      "convolve", {u, kernel}, {u, kernel, kept(lengths), kept(offsets)},
      [&] { return variable_list{convolve(u, kernel, bidirectional, lengths, offsets)}; },
      [bidirectional](const variable_list& saved, const variable_list& gradients) -> variable_list {
        auto [du, dk] =
            convolve_backward(gradients[0], saved[0], saved[1], bidirectional, given(saved[2]), given(saved[3]));
        return {du, dk};
      })[0];
}

// Second derivatives need no new mathematics: the convolution is linear in u and in the kernel, so the gradient of its
// gradient is made of the same two operators.
variable_list second_derivatives(const variable_list& saved, const variable_list& gradients, bool bidirectional) {
  const Tensor &dy = saved[0], &u = saved[1], &kernel = saved[2], &along_u = gradients[0], &along_k = gradients[1];
  const auto lengths = given(saved[3]), offsets = given(saved[4]);
  Tensor to_dy, to_u, to_k;
  if (along_u.defined()) {
    to_dy = convolve(along_u, kernel, bidirectional, lengths, offsets);
    to_k = std::get<1>(convolve_backward(dy, along_u, kernel, bidirectional, lengths, offsets));
  }
  if (along_k.defined()) {
    to_dy = sum_of(to_dy, convolve(u, along_k, bidirectional, lengths, offsets));
    to_u = std::get<0>(convolve_backward(dy, u, along_k, bidirectional, lengths, offsets));
  }
  return {to_dy, to_u, to_k};
}

Pair convolve_backward_autograd(const Tensor& dy, const Tensor& u, const Tensor& kernel, bool bidirectional,
                                const OptionalTensor& lengths, const OptionalTensor& offsets) {
  const auto result = record(
      "convolve_backward", {dy, u, kernel}, {dy, u, kernel, kept(lengths), kept(offsets)},
      [&]() -> variable_list {
        auto [du, dk] = convolve_backward(dy, u, kernel, bidirectional, lengths, offsets);
        return {du, dk};
      },
      [bidirectional](const variable_list& saved, const variable_list& gradients) {
        return second_derivatives(saved, gradients, bidirectional);
      });
  return {result[0], result[1]};
}

}  // namespace

TORCH_LIBRARY_IMPL(rtf, CPU, m) {
  m.impl("convolve", convolve_cpu);
  m.impl("convolve_backward", convolve_backward_cpu);
}
TORCH_LIBRARY_IMPL(rtf, Meta, m) {
  m.impl("convolve", convolve_meta);
  m.impl("convolve_backward", convolve_backward_meta);
}
TORCH_LIBRARY_IMPL(rtf, Autograd, m) {
  m.impl("convolve", convolve_autograd);
  m.impl("convolve_backward", convolve_backward_autograd);
}

}  // namespace rtf::ops
