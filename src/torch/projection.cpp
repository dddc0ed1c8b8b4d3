#include "torch/projection.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "rtf_torch/operators.h"
#include "torch/tape.h"

namespace rtf::nn {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// (batch, length, channels) and (batch, channels, length), the same numbers.
Tensor turned(const Tensor& x) { return x.transpose(1, 2); }

// One matrix for every sequence of the batch.
Tensor for_each(const Tensor& matrix, const c10::SymInt& batch) {
  return matrix.expand_symint({batch, matrix.sym_size(0), matrix.sym_size(1)});
}

// From this size on one product has work for a whole GPU.
constexpr int64_t large_matrix = int64_t{1} << 21;

// Products of the sequences' matrices, summed; in float32 where they are bfloat16.
Tensor summed_products(const Tensor& left, const Tensor& right) {
  if (!left.is_cuda() || left.size(0) == 0) return at::bmm(left, right).sum(0);
  // That with a type of its own has no derivative.
  if (left.scalar_type() == at::kBFloat16 && !ops::recorded({left, right}))
    return at::bmm(left, right, at::kFloat).sum(0);
  if (left.size(1) * right.size(2) < large_matrix) return at::bmm(left, right).sum(0);
  Tensor sum = at::mm(left[0], right[0]);
  for (int64_t s = 1; s < left.size(0); ++s) sum.addmm_(left[s], right[s]);
  return sum;
}

}  // namespace

Tensor product(const Tensor& x, const Tensor& weight) {
  return turned(at::bmm(for_each(weight, x.sym_size(0)), turned(x)));
}

Tensor product_to_x(const Tensor& dy, const Tensor& weight) {
  // The matrix units read float32 along the sum alone: turned here it costs less than in the product.
  Tensor w = weight.t();
  if (w.scalar_type() == at::kFloat) w = w.contiguous();
  return turned(at::bmm(for_each(w, dy.sym_size(0)), turned(dy)));
}

Tensor product_to_weight(const Tensor& dy, const Tensor& x) { return summed_products(turned(dy), x); }

namespace {

struct ProjectionFunction : torch::autograd::Function<ProjectionFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const std::optional<Tensor>& bias) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    context->save_for_backward({x, weight});
    context->saved_data["bias"] = bias.has_value();
    const int64_t batch = x.size(0), length = x.size(1), outputs = weight.size(0);
    const Tensor w = weight.to(x.scalar_type());
    if (!bias) return product(x, w);
    const Tensor column = bias->to(x.scalar_type()).view({1, outputs, 1});
    return turned(at::baddbmm(column.expand({batch, outputs, length}), for_each(w, batch), turned(x)));
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &dy = gradients[0];
    Tensor dx, dw, db;
    if (context->needs_input_grad(0)) dx = product_to_x(dy, weight.to(dy.scalar_type()));
    if (context->needs_input_grad(1)) dw = product_to_weight(dy, x);
    if (context->saved_data["bias"].toBool())
      db = dy.sum(at::IntArrayRef{0, 1}, /*keepdim=*/false, weight.scalar_type());
    return {dx, dw, db};
  }
};

// 1 / lengths[s] at the first lengths[s] positions of sequence s, else 0: (batch, length).
Tensor pool_weights(const Tensor& lengths, const Tensor& x) {
  const Tensor count = lengths.to(x.device()).unsqueeze(1);
  const Tensor valid = at::arange(x.size(1), count.options()).unsqueeze(0) < count;
  return valid.to(x.scalar_type()) / count.to(x.scalar_type());
}

// Its gradient has the samples of a row side by side, as the blocks want it.
struct PoolFunction : torch::autograd::Function<PoolFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const std::optional<Tensor>& lengths) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    context->saved_data["length"] = x.size(1);
    if (!lengths) return x.mean(1);
    const Tensor weights = pool_weights(*lengths, x);
    context->save_for_backward({weights});
    return at::bmm(turned(x), weights.unsqueeze(2)).squeeze(2);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const Tensor& dy = gradients[0];
    const int64_t length = context->saved_data["length"].toInt();
    const auto saved = context->get_saved_variables();
    Tensor dx = at::empty({dy.size(0), dy.size(1), length}, dy.options());
    if (saved.empty())
      dx.copy_((dy / length).unsqueeze(2).expand_as(dx));
    else
      at::mul_out(dx, dy.unsqueeze(2), saved[0].unsqueeze(1));
    return {turned(dx), Tensor()};
  }
};

// Their gradient, too, with the samples of a row side by side.
struct LastPositionsFunction : torch::autograd::Function<LastPositionsFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& x, int64_t count) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    context->saved_data["length"] = x.size(1);
    return x.narrow(1, x.size(1) - count, count);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const Tensor dy = turned(gradients[0]);
    const int64_t length = context->saved_data["length"].toInt(), count = dy.size(2);
    const Tensor dx = at::empty({dy.size(0), dy.size(1), length}, dy.options());
    dx.narrow(2, 0, length - count).zero_();
    dx.narrow(2, length - count, count).copy_(dy);
    return {turned(dx), Tensor()};
  }
};

}  // namespace

Tensor project(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias) {
  // A single position has its channels side by side in either order.
  if (x.is_cpu() || x.dim() != 3 || x.size(1) == 1)
    return at::linear(x, weight.to(x.scalar_type()), bias ? bias->to(x.scalar_type()) : Tensor());
  if (x.size(2) == 1 && bias) return ops::spread(x.squeeze(2), weight.squeeze(1), *bias);
  return ProjectionFunction::apply(x, weight, bias);
}

Tensor pool(const Tensor& x, const std::optional<Tensor>& lengths) {
  if (!x.is_cpu()) return PoolFunction::apply(x, lengths);
  if (!lengths) return x.mean(1);
  return at::bmm(pool_weights(*lengths, x).unsqueeze(1), x).squeeze(1);
}

Tensor last_positions(const Tensor& x, int64_t count) {
  return x.is_cpu() ? x.narrow(1, x.size(1) - count, count) : LastPositionsFunction::apply(x, count);
}

}  // namespace rtf::nn
