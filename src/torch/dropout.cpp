// Dropout whose mask depends on (seed, step, layer, index) alone: resuming, replaying and other devices draw the same.
#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "rtf/random.h"
#include "torch/dispatch.h"

namespace rtf::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Four elements share a draw of Philox, one word each.
constexpr int64_t words = 4;
constexpr int64_t grain = 4096;

// factor[i] = 1/(1-p) with probability 1-p, else 0, for i < count.
template <class T>
void draw(T* factor, int64_t count, double p, uint64_t seed, uint64_t step, int64_t layer) {
  const auto threshold = static_cast<uint64_t>(p * 0x1p32);
  const T kept = static_cast<T>(1 / (1 - p));
  at::parallel_for(0, (count + words - 1) / words, grain, [&](int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block) {
      const auto index = static_cast<uint64_t>(block);
      const auto drawn = philox({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
                                 static_cast<uint32_t>(step), static_cast<uint32_t>(layer)},
                                {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
      for (int64_t k = 0; k < std::min(words, count - block * words); ++k)
        factor[block * words + k] = drawn[k] >= threshold ? kept : T(0);
    }
  });
}

Tensor mask(const Tensor& x, at::IntArrayRef shape, double p, const Tensor& generator, int64_t layer) {
  Tensor result = at::empty(shape, x.options());
  const auto* state = generator.const_data_ptr<int64_t>();
  AT_DISPATCH_FLOATING_TYPES_AND(at::kBFloat16, x.scalar_type(), "rtf::dropout", [&] {
    draw(result.data_ptr<scalar_t>(), result.numel(), p, static_cast<uint64_t>(state[0]),
         static_cast<uint64_t>(state[1]), layer);
  });
  return result;
}

Tensor dropout_cpu(const Tensor& x, double p, const Tensor& generator, int64_t layer, bool tied) {
  TORCH_CHECK_VALUE(p >= 0 && p < 1, "[rtf::dropout] p is ", p, "; it must be from 0 to below 1");
  TORCH_CHECK_VALUE(generator.scalar_type() == at::kLong && generator.numel() == 2 && generator.is_contiguous(),
                    "[rtf::dropout] the generator has shape ", generator.sizes(), " and type ", generator.scalar_type(),
                    "; two int64 numbers, seed and step, are needed");
  TORCH_CHECK_VALUE(!tied || x.dim() == 3, "[rtf::dropout] x has shape ", x.sizes(),
                    "; tied dropout needs (batch, length, channels)");
  const Tensor factor =
      tied ? mask(x, {x.size(0), 1, x.size(2)}, p, generator, layer) : mask(x, x.sizes(), p, generator, layer);
  return at::mul(x, factor);
}

Tensor dropout_meta(const Tensor& x, double, const Tensor&, int64_t, bool) { return at::empty_like(x); }

// Linear in x: the gradient goes through the same mask, drawn again rather than kept.
struct DropoutFunction : torch::autograd::Function<DropoutFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& x, double p, const Tensor& generator, int64_t layer,
                        bool tied) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    // A copy: the caller moves its generator on before the backward pass may run.
    context->save_for_backward({generator.clone()});
    context->saved_data["p"] = p;
    context->saved_data["layer"] = layer;
    context->saved_data["tied"] = tied;
    return dropout(x, p, generator, layer, tied);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    auto& data = context->saved_data;
    return {dropout(gradients[0], data["p"].toDouble(), context->get_saved_variables()[0], data["layer"].toInt(),
                    data["tied"].toBool()),
            Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

Tensor dropout_autograd(const Tensor& x, double p, const Tensor& generator, int64_t layer, bool tied) {
  return DropoutFunction::apply(x, p, generator, layer, tied);
}

}  // namespace

TORCH_LIBRARY_IMPL(rtf, CPU, m) { m.impl("dropout", dropout_cpu); }
TORCH_LIBRARY_IMPL(rtf, Meta, m) { m.impl("dropout", dropout_meta); }
TORCH_LIBRARY_IMPL(rtf, Autograd, m) { m.impl("dropout", dropout_autograd); }

}  // namespace rtf::ops
