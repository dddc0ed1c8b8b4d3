#include "torch/bridge.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>

#include "core/huge_pages.h"

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

Scratch::Scratch(std::size_t bytes)
    : tensor_(at::empty({static_cast<int64_t>(bytes)}, at::TensorOptions(at::kByte))), bytes_(bytes) {
  prefer_huge_pages(tensor_.mutable_data_ptr(), bytes);
}

Executor& executor() {
  static TorchExecutor instance;
  return instance;
}

at::ScalarType compute_type(const char* operation, at::ScalarType type) {
  TORCH_CHECK_VALUE(type == at::kFloat || type == at::kDouble || type == at::kBFloat16, "[rtf::", operation, "] ", type,
                    " numbers; float32, float64 and bfloat16 are served");
  return type == at::kDouble ? at::kDouble : at::kFloat;
}

namespace {
bool samples_side_by_side(const at::Tensor& x) { return x.dim() == 3 && x.sym_stride(1) == 1; }
}  // namespace

void check_signal(const char* operation, const char* what, const at::Tensor& x) {
  TORCH_CHECK_VALUE(x.dim() == 3, "[rtf::", operation, "] ", what, " has shape ", x.sym_sizes(),
                    "; (batch, length, channels) is needed");
}

bool is_length_last(const at::Tensor& x) {
  const auto sizes = x.sizes(), strides = x.strides();
  const auto lies = [&](int dimension, int64_t stride) {
    return sizes[dimension] == 1 || strides[dimension] == stride;
  };
  return x.numel() == 0 || (lies(0, sizes[1] * sizes[2]) && lies(1, 1) && lies(2, sizes[1]));
}

at::Tensor empty_result(const at::Tensor& x, at::ScalarType type, std::optional<c10::SymInt> channels) {
  auto sizes = x.sym_sizes().vec();
  if (channels) sizes.back() = *channels;
  const auto options = x.options().dtype(type);
  const at::Tensor result = samples_side_by_side(x)
                                ? at::empty_strided_symint(sizes, {sizes[1] * sizes[2], 1, sizes[1]}, options)
                                : at::empty_symint(sizes, options);
  if (result.is_cpu()) prefer_huge_pages(result.mutable_data_ptr(), result.nbytes());
  return result;
}

at::Tensor as_result(const at::Tensor& values, const at::Tensor& x, at::ScalarType type) {
  if (samples_side_by_side(x) ? is_length_last(values) : values.is_contiguous()) return values.to(type);
  return empty_result(x, type, values.size(-1)).copy_(values);
}

namespace {
std::vector<std::size_t> indices(const char* operation, const char* what, const at::Tensor& tensor) {
  TORCH_CHECK_VALUE(tensor.dim() == 1 && at::isIntegralType(tensor.scalar_type(), /*includeBool=*/false),
                    "[rtf::", operation, "] ", what, " has shape ", tensor.sizes(), " and type ", tensor.scalar_type(),
                    "; one dimension of integers is needed");
  const at::Tensor host = tensor.to(at::TensorOptions(at::kLong).device(at::kCPU)).contiguous();
  std::vector<std::size_t> result;
  for (const int64_t value : values<const int64_t>(host)) {
    TORCH_CHECK_VALUE(value >= 0, "[rtf::", operation, "] ", what, " holds ", value, "; no negative number is allowed");
    result.push_back(static_cast<std::size_t>(value));
  }
  return result;
}
}  // namespace

std::vector<std::size_t> lengths_of(const char* operation, const std::optional<at::Tensor>& lengths, int64_t batch,
                                    int64_t length) {
  if (!lengths) return {};
  const auto result = indices(operation, "lengths", *lengths);
  TORCH_CHECK_VALUE(static_cast<int64_t>(result.size()) == batch, "[rtf::", operation, "] lengths has ", result.size(),
                    " values; the batch has ", batch, " sequences");
  for (std::size_t s = 0; s < result.size(); ++s)
    TORCH_CHECK_VALUE(result[s] <= static_cast<std::size_t>(length), "[rtf::", operation, "] lengths[", s, "] is ",
                      result[s], "; the sequences have ", length, " samples");
  return result;
}

std::vector<std::size_t> offsets_of(const char* operation, const std::optional<at::Tensor>& offsets, int64_t length) {
  if (!offsets) return {};
  const auto result = indices(operation, "offsets", *offsets);
  TORCH_CHECK_VALUE(result.size() >= 2 && result.front() == 0 && result.back() == static_cast<std::size_t>(length) &&
                        std::is_sorted(result.begin(), result.end()),
                    "[rtf::", operation, "] offsets are ",
                    at::IntArrayRef(std::vector<int64_t>(result.begin(), result.end())),
                    "; they must rise from 0 to the length ", length);
  return result;
}

std::size_t length_of(const char* operation, int64_t length) {
  TORCH_CHECK_VALUE(length >= 1, "[rtf::", operation, "] length is ", length, "; it must be at least 1");
  return static_cast<std::size_t>(length);
}

void check_shape(const char* operation, const char* what, const at::Tensor& tensor, at::IntArrayRef shape) {
  TORCH_CHECK_VALUE(tensor.sizes() == shape, "[rtf::", operation, "] ", what, " has shape ", tensor.sizes(), "; ",
                    shape, " is needed");
}

void check_coefficients(const char* operation, const at::Tensor& a, const at::Tensor& b, const at::Tensor& h0) {
  TORCH_CHECK_VALUE(a.dim() == 2 && b.dim() == 2 && h0.dim() == 1, "[rtf::", operation, "] a, b, h0 have shapes ",
                    a.sym_sizes(), ", ", b.sym_sizes(), ", ", h0.sym_sizes(),
                    "; (denominators, order), (channels, order), (channels) are needed");
  TORCH_CHECK_VALUE(b.sym_size(0) == h0.sym_size(0) && b.sym_size(1) == a.sym_size(1) && a.sym_size(0) > 0 &&
                        b.sym_size(0) % a.sym_size(0) == 0 && b.sym_size(0) > 0,
                    "[rtf::", operation, "] a, b, h0 have shapes ", a.sym_sizes(), ", ", b.sym_sizes(), ", ",
                    h0.sym_sizes(),
                    "; the orders must agree, b and h0 have a row a channel, and denominators divide channels");
  for (const at::Tensor* one : {&a, &b, &h0}) compute_type(operation, one->scalar_type());
}

CoefficientTensors::CoefficientTensors(const char* operation, const at::Tensor& a_, const at::Tensor& b_,
                                       const at::Tensor& h0_) {
  check_coefficients(operation, a_, b_, h0_);
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

TrainedTransferFunction CoefficientTensors::trained(std::size_t length) const {
  auto value = owning<TrainedTransferFunction>(*this);
  value.length = length;
  return value;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> gradient_tensors(const CoefficientsGradient& gradient,
                                                                const at::Tensor& a, const at::Tensor& b,
                                                                const at::Tensor& h0) {
  return {tensor_of(gradient.a, a), tensor_of(gradient.b, b), tensor_of(gradient.h0, h0)};
}

}  // namespace rtf::ops
