#include "torch/bridge.h"

#include <ATen/Parallel.h>

#include <atomic>

namespace rtf::ops {
namespace {

// Each worker takes the next task that is left. at::parallel_for runs inside a parallel region of torch's too: then
// there is one worker.
class TorchExecutor : public Executor {
 public:
  std::size_t workers() const override { return static_cast<std::size_t>(at::get_num_threads()); }

  void run(std::size_t tasks, Task task, void* context) override {
    std::atomic<std::size_t> next{0};
    const auto work = static_cast<int64_t>(std::min(tasks, workers()));
    at::parallel_for(0, work, 1, [&](int64_t worker, int64_t) {
      for (std::size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < tasks;)
        task(context, i, static_cast<std::size_t>(worker));
    });
  }
};

const bool default_set = [] {
  set_default_executor(std::make_unique<TorchExecutor>());
  return true;
}();

at::Tensor on_host(const at::Tensor& tensor) {
  return tensor.detach().to(at::TensorOptions(at::kDouble).device(at::kCPU)).contiguous();
}

std::vector<double> copy(const at::Tensor& tensor) {
  const auto from = values<const double>(tensor);
  return {from.begin(), from.end()};
}

at::Tensor tensor_of(const std::vector<double>& from, const at::Tensor& like) {
  at::Tensor result = at::empty(like.sizes(), at::TensorOptions(at::kDouble));
  std::copy(from.begin(), from.end(), values<double>(result).begin());
  return result.to(like.options());
}

}  // namespace

Executor& executor() {
  static TorchExecutor instance;
  return instance;
}

at::ScalarType compute_type(const char* operation, at::ScalarType type) {
  TORCH_CHECK_VALUE(type == at::kFloat || type == at::kDouble || type == at::kBFloat16, "[rtf::", operation, "] ",
                    type, " samples; float32, float64 and bfloat16 are served");
  return type == at::kDouble ? at::kDouble : at::kFloat;
}

std::vector<std::size_t> indices(const char* operation, const char* what, const std::optional<at::Tensor>& tensor) {
  if (!tensor) return {};
  TORCH_CHECK_VALUE(tensor->dim() == 1 && !at::isFloatingType(tensor->scalar_type()), "[rtf::", operation, "] ", what,
                    " has shape ", tensor->sizes(), " and type ", tensor->scalar_type(),
                    "; one dimension of integers is needed");
  const at::Tensor host = tensor->to(at::TensorOptions(at::kLong).device(at::kCPU)).contiguous();
  std::vector<std::size_t> result;
  for (const int64_t value : values<const int64_t>(host)) {
    TORCH_CHECK_VALUE(value >= 0, "[rtf::", operation, "] ", what, " holds ", value, "; no negative number is allowed");
    result.push_back(static_cast<std::size_t>(value));
  }
  return result;
}

CoefficientTensors::CoefficientTensors(const char* operation, const at::Tensor& a_, const at::Tensor& b_,
                                       const at::Tensor& h0_) {
  TORCH_CHECK_VALUE(a_.dim() == 2 && b_.dim() == 2 && h0_.dim() == 1, "[rtf::", operation, "] a, b, h0 have shapes ",
                    a_.sizes(), ", ", b_.sizes(), ", ", h0_.sizes(),
                    "; (denominators, order), (channels, order), (channels) are needed");
  TORCH_CHECK_VALUE(b_.size(0) == h0_.size(0) && b_.size(1) == a_.size(1) && a_.size(0) > 0 &&
                        b_.size(0) % a_.size(0) == 0 && b_.size(0) > 0,
                    "[rtf::", operation, "] a, b, h0 have shapes ", a_.sizes(), ", ", b_.sizes(), ", ", h0_.sizes(),
                    "; the orders must agree, b and h0 have a row a channel, and denominators divide channels");
  a = on_host(a_);
  b = on_host(b_);
  h0 = on_host(h0_);
  channels = static_cast<std::size_t>(b.size(0));
  groups = static_cast<std::size_t>(a.size(0));
  order = static_cast<std::size_t>(a.size(1));
}

CoefficientsView CoefficientTensors::view() const {
  CoefficientsView result;
  result.channels = channels;
  result.groups = groups;
  result.order = order;
  result.a = values<const double>(a).data();
  result.b = values<const double>(b).data();
  result.h0 = values<const double>(h0).data();
  return result;
}

namespace {
template <class Value>
Value owning(const CoefficientTensors& from) {
  Value value;
  value.channels = from.channels;
  value.groups = from.groups;
  value.order = from.order;
  value.a = copy(from.a);
  value.b = copy(from.b);
  value.h0 = copy(from.h0);
  return value;
}
}  // namespace

TransferFunction CoefficientTensors::plain() const { return owning<TransferFunction>(*this); }

TrainedTransferFunction CoefficientTensors::trained(int64_t length) const {
  auto value = owning<TrainedTransferFunction>(*this);
  value.length = static_cast<std::size_t>(length);
  return value;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> gradient_tensors(const CoefficientsGradient& gradient,
                                                                const at::Tensor& a, const at::Tensor& b,
                                                                const at::Tensor& h0) {
  return {tensor_of(gradient.a, a), tensor_of(gradient.b, b), tensor_of(gradient.h0, h0)};
}

}  // namespace rtf::ops
