// filter, prefill and step: the operators that carry a state.
#include "torch/filter.h"

#include <torch/library.h>

#include "rtf/filter.h"
#include "rtf/recurrence.h"
#include "torch/bridge.h"
#include "torch/dispatch.h"
#include "torch/tape.h"

namespace rtf::ops {

void check_filter_input(const char* operation, const Tensor& u, const Tensor& b) {
  TORCH_CHECK_VALUE(u.dim() == 3 && u.sym_size(2) == b.sym_size(0), "[rtf::", operation, "] u has shape ",
                    u.sym_sizes(), "; (batch, length, ", b.sym_size(0), ") is needed");
}

void check_step_input(const Tensor& u, const Tensor& b) {
  TORCH_CHECK_VALUE(u.dim() == 2 && u.size(1) == b.size(0), "[rtf::step] u has shape ", u.sizes(), "; (batch, ",
                    b.size(0), ") is needed");
}

void check_state(const char* operation, const Tensor& state, int64_t sequences, const Tensor& b) {
  const std::array<int64_t, 3> shape{sequences, b.size(0), b.size(1)};
  TORCH_CHECK_VALUE(state.sizes() == at::IntArrayRef(shape), "[rtf::", operation, "] the state has shape ",
                    state.sizes(), "; ", at::IntArrayRef(shape), " is needed");
  TORCH_CHECK_VALUE(state.scalar_type() == at::kDouble, "[rtf::", operation, "] the state is ", state.scalar_type(),
                    "; states are float64 whatever the samples, so that a stream may be cut anywhere");
}

void check_layout(const char* operation, const OptionalTensor& lengths, const OptionalTensor& offsets) {
  TORCH_CHECK_VALUE(!lengths || !offsets, "[rtf::", operation,
                    "] both lengths and offsets are given; a batch is padded or packed");
}

Quintuple filter_backward(const Tensor& dy, const OptionalTensor& dstate, const Tensor& u, const Tensor& a,
                          const Tensor& b, const Tensor& h0, const OptionalTensor& initial_state,
                          const OptionalTensor& lengths, const OptionalTensor& offsets) {
  RTF_OPERATOR("filter_backward", Quintuple, const Tensor&, const OptionalTensor&, const Tensor&, const Tensor&,
               const Tensor&, const Tensor&, const OptionalTensor&, const OptionalTensor&, const OptionalTensor&);
  return op.call(dy, dstate, u, a, b, h0, initial_state, lengths, offsets);
}

namespace {

// A state as the core takes it; empty when there is none.
Tensor state_values(const char* operation, const OptionalTensor& state, int64_t sequences, const Tensor& b) {
  if (!state) return at::empty({0}, at::TensorOptions(at::kDouble));
  check_state(operation, *state, sequences, b);
  return state->contiguous();
}

// Where the sequences of u lie: packed, padded, or each a whole row. The core takes packed ones; of padded ones the
// samples that count are packed, and unpacked again with zeros after them.
struct Layout {
  std::vector<std::size_t> offsets;
  std::vector<int64_t> lengths;  // of padded sequences
  int64_t sequences;

  Layout(const char* operation, const Tensor& u, const OptionalTensor& padded, const OptionalTensor& packed)
      : offsets(offsets_of(operation, packed, u.size(1))) {
    check_layout(operation, padded, packed);
    if (padded && u.size(0) > 0) {
      offsets.push_back(0);
      for (const std::size_t length : lengths_of(operation, padded, u.size(0), u.size(1))) {
        lengths.push_back(static_cast<int64_t>(length));
        offsets.push_back(offsets.back() + length);
      }
    }
    sequences = static_cast<int64_t>(sequence_count(static_cast<std::size_t>(u.size(0)), offsets));
  }

  Tensor pack(const Tensor& u) const {
    if (lengths.empty()) return u;
    std::vector<Tensor> rows;
    for (std::size_t s = 0; s < lengths.size(); ++s)
      rows.push_back(u.select(0, static_cast<int64_t>(s)).narrow(0, 0, lengths[s]));
    return at::cat(rows).unsqueeze(0);
  }

  void unpack(const Tensor& from, const Tensor& to) const {
    if (lengths.empty()) {
      to.copy_(from);
      return;
    }
    for (std::size_t s = 0; s < lengths.size(); ++s) {
      const Tensor row = to.select(0, static_cast<int64_t>(s));
      row.narrow(0, 0, lengths[s]).copy_(from.select(0, 0).narrow(0, static_cast<int64_t>(offsets[s]), lengths[s]));
      row.narrow(0, lengths[s], to.size(1) - lengths[s]).zero_();
    }
  }
};

Pair filter_cpu(const Tensor& u, const Tensor& a, const Tensor& b, const Tensor& h0,
                const OptionalTensor& initial_state, const OptionalTensor& lengths, const OptionalTensor& offsets) {
  const CoefficientTensors c("filter", a, b, h0);
  const auto type = compute_type("filter", u.scalar_type());
  check_filter_input("filter", u, b);
  const Layout layout("filter", u, lengths, offsets);
  const Tensor in = layout.pack(u.to(type)), start = state_values("filter", initial_state, layout.sequences, b);
  const Tensor y = empty_result(u, u.scalar_type());
  const Tensor out = layout.lengths.empty() && type == u.scalar_type() ? y : at::empty_like(in);
  const Tensor end = at::empty({layout.sequences, b.size(0), b.size(1)}, at::TensorOptions(at::kDouble));
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    filter<T>(c.plain(), signal<const T>(in), signal<T>(out), values<const double>(start), values<double>(end),
              FilterMethod::automatic, layout.offsets);
  });
  if (!out.is_same(y)) layout.unpack(out, y);
  return {y, end};
}

Quintuple filter_backward_cpu(const Tensor& dy, const OptionalTensor& dstate, const Tensor& u, const Tensor& a,
                              const Tensor& b, const Tensor& h0, const OptionalTensor& initial_state,
                              const OptionalTensor& lengths, const OptionalTensor& offsets) {
  const CoefficientTensors c("filter_backward", a, b, h0);
  const auto type = compute_type("filter_backward", u.scalar_type());
  check_filter_input("filter_backward", u, b);
  check_shape("filter_backward", "dy", dy, u.sizes());
  const Layout layout("filter_backward", u, lengths, offsets);
  const Tensor in = layout.pack(u.to(type)), gradient = layout.pack(dy.to(type));
  const Tensor start = state_values("filter_backward", initial_state, layout.sequences, b);
  const Tensor end = state_values("filter_backward", dstate, layout.sequences, b);
  const Tensor du = empty_result(u, u.scalar_type()),
               dstart = at::empty({layout.sequences, b.size(0), b.size(1)}, end.options());
  const Tensor out = layout.lengths.empty() && type == u.scalar_type() ? du : at::empty_like(in);
  CoefficientsGradient coefficients;
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    auto through = filter_vjp<T>(c.plain(), signal<const T>(in), values<const double>(start), signal<const T>(gradient),
                                 values<const double>(end), signal<T>(out), layout.offsets);
    std::copy(through.initial_state.begin(), through.initial_state.end(), values<double>(dstart).begin());
    coefficients = std::move(through.coefficients);
  });
  if (!out.is_same(du)) layout.unpack(out, du);
  auto [da, db, dh0] = gradient_tensors(coefficients, a, b, h0);
  return {du, da, db, dh0, dstart};
}

c10::SymInt sequence_count_symbolic(const Tensor& u, const OptionalTensor& offsets) {
  return offsets ? offsets->sym_size(0) - 1 : u.sym_size(0);
}

Tensor state_meta(const Tensor& u, const Tensor& b, const OptionalTensor& offsets) {
  return at::empty_symint({sequence_count_symbolic(u, offsets), b.sym_size(0), b.sym_size(1)},
                          b.options().dtype(at::kDouble));
}

Pair filter_meta(const Tensor& u, const Tensor& a, const Tensor& b, const Tensor& h0, const OptionalTensor&,
                 const OptionalTensor&, const OptionalTensor& offsets) {
  check_coefficients("filter", a, b, h0);
  check_filter_input("filter", u, b);
  return {empty_result(u, u.scalar_type()), state_meta(u, b, offsets)};
}

Quintuple filter_backward_meta(const Tensor&, const OptionalTensor&, const Tensor& u, const Tensor& a, const Tensor& b,
                               const Tensor& h0, const OptionalTensor&, const OptionalTensor&,
                               const OptionalTensor& offsets) {
  const auto like = [](const Tensor& x) { return at::empty_like(x, at::MemoryFormat::Contiguous); };
  return {empty_result(u, u.scalar_type()), like(a), like(b), like(h0), state_meta(u, b, offsets)};
}

Quintuple filter_backward_autograd(const Tensor& dy, const OptionalTensor& dstate, const Tensor& u, const Tensor& a,
                                   const Tensor& b, const Tensor& h0, const OptionalTensor& initial_state,
                                   const OptionalTensor& lengths, const OptionalTensor& offsets) {
  const auto result = record(
      "filter_backward", {dy, kept(dstate), u, a, b, h0, kept(initial_state)},
      {dy, kept(dstate), u, a, b, h0, kept(initial_state), kept(lengths), kept(offsets)},
      [&]() -> variable_list {
        auto [du, da, db, dh0, dstart] = filter_backward(dy, dstate, u, a, b, h0, initial_state, lengths, offsets);
        return {du, da, db, dh0, dstart};
      },
      filter_second_derivatives);
  return {result[0], result[1], result[2], result[3], result[4]};
}

Pair filter_autograd(const Tensor& u, const Tensor& a, const Tensor& b, const Tensor& h0,
                     const OptionalTensor& initial_state, const OptionalTensor& lengths,
                     const OptionalTensor& offsets) {
  const auto result = record(
      "filter", {u, a, b, h0, kept(initial_state)}, {u, a, b, h0, kept(initial_state), kept(lengths), kept(offsets)},
      [&]() -> variable_list {
        auto [y, end] = filter(u, a, b, h0, initial_state, lengths, offsets);
        return {y, end};
      },
      [](const variable_list& saved, const variable_list& gradients) -> variable_list {
        const Tensor dy = or_zero(gradients[0], saved[0]);
        auto [du, da, db, dh0, dstart] = filter_backward(dy, given(gradients[1]), saved[0], saved[1], saved[2],
                                                         saved[3], given(saved[4]), given(saved[5]), given(saved[6]));
        return {du, da, db, dh0, saved[4].defined() ? dstart : Tensor()};
      });
  return {result[0], result[1]};
}

Pair step_cpu(const Tensor& u, const Tensor& a, const Tensor& b, const Tensor& h0, const Tensor& state) {
  const CoefficientTensors c("step", a, b, h0);
  const auto type = compute_type("step", u.scalar_type());
  check_step_input(u, b);
  const Tensor next = state_values("step", state, u.size(0), b).clone();
  const Tensor in = u.to(type).contiguous(), y = at::empty(u.sizes(), u.options().dtype(type));
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    step<T>(c.plain(), values<const T>(in), values<double>(next), values<T>(y));
  });
  return {y.to(u.scalar_type()), next};
}

Pair step_meta(const Tensor& u, const Tensor& a, const Tensor& b, const Tensor& h0, const Tensor& state) {
  check_coefficients("step", a, b, h0);
  return {at::empty_like(u, at::MemoryFormat::Contiguous), at::empty_like(state, at::MemoryFormat::Contiguous)};
}

// y = b.x + h0 u and x' = (u - a.x, x shifted): the transposed map, in differentiable operations.
variable_list step_backward(const variable_list& saved, const variable_list& gradients) {
  const Tensor u = saved[0].to(at::kDouble), b = saved[2].to(at::kDouble), h0 = saved[3].to(at::kDouble);
  const Tensor &a = saved[1], &x = saved[4];
  const auto order = b.sym_size(1);
  const Tensor dy = gradients[0].defined() ? gradients[0].to(at::kDouble) : at::zeros_like(u);
  const Tensor dnext = or_zero(gradients[1], x);
  const Tensor denominators = spread_rows(a.to(at::kDouble), b.sym_size(0));
  Tensor dx = dy.unsqueeze(-1) * b, da = at::zeros_like(a), du = dy * h0;
  if (order > 0) {
    const Tensor dv = dnext.select(-1, 0);
    du = du + dv;
    dx = dx - dv.unsqueeze(-1) * denominators + at::constant_pad_nd(dnext.slice(-1, 1), {0, 1});
    da = -gathered_rows((dv.unsqueeze(-1) * x).sum(0), a.sym_size(0));
  }
  const Tensor db = (dy.unsqueeze(-1) * x).sum(0), dh0 = (dy * u).sum(0);
  return {du.to(saved[0].scalar_type()), da.to(a.scalar_type()), db.to(saved[2].scalar_type()),
          dh0.to(saved[3].scalar_type()), dx};
}

Pair step_autograd(const Tensor& u, const Tensor& a, const Tensor& b, const Tensor& h0, const Tensor& state) {
  const auto result = record(
      "step", {u, a, b, h0, state}, {u, a, b, h0, state},
      [&]() -> variable_list {
        auto [y, next] = step(u, a, b, h0, state);
        return {y, next};
      },
      step_backward);
  return {result[0], result[1]};
}

Pair prefill_composite(const Tensor& u, const Tensor& a, const Tensor& b, const Tensor& h0, const OptionalTensor& state,
                       const OptionalTensor& lengths) {
  return filter(u, a, b, h0, state, lengths);
}

}  // namespace

TORCH_LIBRARY_IMPL(rtf, CPU, m) {
  m.impl("filter", filter_cpu);
  m.impl("filter_backward", filter_backward_cpu);
  m.impl("step", step_cpu);
}
TORCH_LIBRARY_IMPL(rtf, Meta, m) {
  m.impl("filter", filter_meta);
  m.impl("filter_backward", filter_backward_meta);
  m.impl("step", step_meta);
}
TORCH_LIBRARY_IMPL(rtf, Autograd, m) {
  m.impl("filter", filter_autograd);
  m.impl("filter_backward", filter_backward_autograd);
  m.impl("step", step_autograd);
}
TORCH_LIBRARY_IMPL(rtf, CompositeImplicitAutograd, m) { m.impl("prefill", prefill_composite); }

}  // namespace rtf::ops
