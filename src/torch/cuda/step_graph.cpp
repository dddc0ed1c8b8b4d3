#include "rtf_torch/step_graph.h"

#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAGuard.h>

#include <utility>

#include "torch/cuda/bridge.h"
#include "torch/device_graph.h"

namespace rtf::nn {
namespace {

using at::Tensor;

constexpr int warm_ups = 2;  // libraries make their handles and choices in the first calls, which is not captured

// What a step replaces.
std::vector<Tensor> carried(const ModelState& state) {
  std::vector<Tensor> all = state.states;
  for (const Tensor& pooled : {state.sum, state.count})
    if (pooled.defined()) all.push_back(pooled);
  return all;
}

}  // namespace

struct StepGraph::Captured {
  SequenceModel model = nullptr;
  ModelState state;
  Tensor input, output;
  std::unique_ptr<DeviceGraph> graph{rtf_cuda_make_graph(nullptr)};
};

StepGraph::StepGraph(SequenceModel model, int64_t batch) {
  const auto parameters = model->parameters();
  TORCH_CHECK(!parameters.empty() && parameters.front().is_cuda(),
              "[rtf::StepGraph] the model is not on a CUDA device; move it there, or call SequenceModel::step");
  TORCH_CHECK(!model->is_training(), "[rtf::StepGraph] the model is in training mode; a step runs in evaluation mode");
  const Tensor& weight = parameters.front();
  const c10::cuda::CUDAGuard device(weight.device());
  const bool tokens = model->options.vocabulary > 0;
  const std::vector<int64_t> shape =
      tokens ? std::vector<int64_t>{batch} : std::vector<int64_t>{batch, model->options.features};
  captured_ = std::make_unique<Captured>();
  captured_->model = model;
  captured_->state = model->make_state(batch);
  captured_->input =
      at::zeros(shape, weight.options().dtype(tokens ? at::kLong : weight.scalar_type()).requires_grad(false));

  const at::NoGradGuard no_grad;
  c10::cuda::getCurrentCUDAStream().synchronize();  // the capture's own stream sees all that was written
  const c10::cuda::CUDAStreamGuard stream(c10::cuda::getStreamFromPool());
  for (int i = 0; i < warm_ups; ++i) {
    ModelState scratch = captured_->state;
    model->step(captured_->input, scratch);
  }
  captured_->graph->capture([&] {
    ModelState next = captured_->state;
    captured_->output = model->step(captured_->input, next);
    at::_foreach_copy_(carried(captured_->state), carried(next));
  });
}

StepGraph::~StepGraph() = default;

Tensor StepGraph::step(const Tensor& x) {
  const Tensor& input = captured_->input;
  TORCH_CHECK(x.sizes() == input.sizes() && x.scalar_type() == input.scalar_type(), "[rtf::StepGraph] x is a ",
              x.scalar_type(), " tensor of shape ", x.sizes(), "; one of type ", input.scalar_type(), " and shape ",
              input.sizes(), " is needed");
  const at::NoGradGuard no_grad;
  const c10::cuda::CUDAGuard device(input.device());
  input.copy_(x, /*non_blocking=*/x.is_cuda());  // the caller may change what is on the host as soon as this returns
  captured_->graph->replay();
  return captured_->output;
}

const ModelState& StepGraph::state() const { return captured_->state; }

}  // namespace rtf::nn
