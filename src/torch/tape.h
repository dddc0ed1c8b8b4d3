// Autograd of an operator, made as torch makes that of its own: torch.func, which refuses torch::autograd::Function,
// takes these operators.
#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>

#include "rtf_torch/operators.h"

namespace rtf::ops {

using torch::autograd::variable_list;

// Gradients to the inputs from what was kept and the gradients to the outputs; an undefined one is zero, and not all
// are.
using Backward = std::function<variable_list(const variable_list& kept, const variable_list& gradients)>;

class Tape : public torch::autograd::Node {
 public:
  Tape(const char* operation, const variable_list& inputs, const variable_list& kept, std::size_t copy,
       Backward backward)
      : operation_(operation), copy_(copy), backward_(std::move(backward)) {
    for (const Tensor& input : inputs)
      add_next_edge(input.defined() ? torch::autograd::impl::gradient_edge(input) : torch::autograd::Edge());
    for (const Tensor& tensor : kept) kept_.emplace_back(tensor, /*is_output=*/false);
  }

  variable_list apply(variable_list&& gradients) override {
    if (std::none_of(gradients.begin(), gradients.end(), [](const Tensor& gradient) { return gradient.defined(); }))
      return variable_list(num_outputs());
    const std::lock_guard lock(mutex_);
    variable_list kept;
    for (const auto& tensor : kept_) kept.push_back(tensor.unpack());
    if (copy_ < kept.size() && at::GradMode::is_enabled() && next_edge(0).is_valid()) {
      kept[copy_] = kept[copy_].detach();
      torch::autograd::impl::set_gradient_edge(kept[copy_], next_edge(0));
    }
    return backward_(kept, gradients);
  }
  void release_variables() override {
    const std::lock_guard lock(mutex_);
    for (auto& tensor : kept_) tensor.reset_data();
  }
  // No c10::Error, to which PyTorch would add a backtrace here.
  void compiled_args(torch::dynamo::autograd::CompiledNodeArgs&) const override {
    throw std::runtime_error("[" + name() + "] has no part in compiled autograd; compile the forward pass alone");
  }
  std::string name() const override { return std::string("rtf::") + operation_; }

 private:
  const char* operation_;
  std::size_t copy_;
  std::vector<torch::autograd::SavedVariable> kept_;
  Backward backward_;
};

// Whether autograd records what becomes of these, of which some may be undefined.
inline bool recorded(const variable_list& inputs) {
  return at::GradMode::is_enabled() && std::any_of(inputs.begin(), inputs.end(), [](const Tensor& input) {
           return input.defined() && input.requires_grad();
         });
}

inline void refuse_forward_mode(const char* operation, const variable_list& inputs) {
  for (const Tensor& input : inputs)
    TORCH_CHECK_NOT_IMPLEMENTED(!torch::autograd::isFwGradDefined(input), "[rtf::", operation,
                                "] has no forward-mode derivative; reverse mode has one");
}

// Composed gradients are torch's operations: without this check its message would name none of ours.
inline void refuse_two_devices(const char* operation, const variable_list& inputs) {
  for (const Tensor& input : inputs)
    TORCH_CHECK_VALUE(!input.defined() || input.device() == inputs[0].device(), "[rtf::", operation,
                      "] one tensor is on ", inputs[0].device(), " and another on ", input.device(),
                      "; move them to one device");
}

// The operator of a gradient: fast() below autograd, or, where its own derivative is wanted (create_graph), the same
// gradient composed() of differentiable operations, which takes longer.
template <class Fast, class Composed>
auto either(const char* operation, const variable_list& inputs, Fast&& fast, Composed&& composed) {
  refuse_forward_mode(operation, inputs);
  if (recorded(inputs)) {
    refuse_two_devices(operation, inputs);
    return composed();
  }
  const at::AutoDispatchBelowADInplaceOrView guard;
  return fast();
}

// forward() below autograd, with the way back recorded where one of `inputs`, which may be undefined, needs a gradient.
// `kept` are the tensors that the way back reads; outputs are new tensors. Those past the first `differentiable` have
// no gradient, and are kept too. Where number `copy` of all that is kept is a copy of the first input, second
// derivatives to it are that input's.
template <class Forward>
variable_list record(const char* operation, const variable_list& inputs, variable_list kept, Forward&& forward,
                     Backward backward, std::size_t differentiable = SIZE_MAX, std::size_t copy = SIZE_MAX) {
  refuse_forward_mode(operation, inputs);
  variable_list outputs;
  {
    const at::AutoDispatchBelowADInplaceOrView guard;
    outputs = forward();
  }
  if (recorded(inputs)) {
    const std::size_t first = std::min(differentiable, outputs.size());
    kept.insert(kept.end(), outputs.begin() + static_cast<std::ptrdiff_t>(first), outputs.end());
    const std::shared_ptr<Tape> tape(new Tape(operation, inputs, kept, copy, std::move(backward)),
                                     torch::autograd::deleteNode);
    for (std::size_t i = 0; i < first; ++i) torch::autograd::set_history(outputs[i], tape);
  }
  return outputs;
}

// Of gradients, some of which may be undefined.
inline Tensor sum_of(const Tensor& x, const Tensor& y) { return !x.defined() ? y : !y.defined() ? x : x + y; }
inline Tensor or_zero(const Tensor& x, const Tensor& like) { return x.defined() ? x : at::zeros_like(like); }

// Optional arguments among those kept.
inline Tensor kept(const OptionalTensor& tensor) { return tensor.value_or(Tensor()); }
inline OptionalTensor given(const Tensor& tensor) { return tensor.defined() ? OptionalTensor(tensor) : std::nullopt; }

}  // namespace rtf::ops
