// convolve on the GPU: the fused kernels for float32 and bfloat16, torch's transforms for the rest.
#include "torch/cuda/convolution.h"

#include <ATen/Functions.h>
#include <torch/library.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <limits>
#include <string_view>

#include "cuda/transpose.h"
#include "torch/convolution.h"
#include "torch/dispatch.h"

namespace rtf::ops {
namespace {

using at::indexing::Slice;

enum class Path { automatic, block, cluster, columns, unfused };

// RTF_CUDA_CONVOLUTION=block|cluster|columns|unfused forces a way to compute, for tests and measurements.
Path path_of(const char* operation) {
  const char* name = std::getenv("RTF_CUDA_CONVOLUTION");
  if (!name || !*name) return Path::automatic;
  const std::string_view path = name;
  if (path == "block") return Path::block;
  if (path == "cluster") return Path::cluster;
  if (path == "columns") return Path::columns;
  TORCH_CHECK_VALUE(path == "unfused", "[rtf::", operation, "] RTF_CUDA_CONVOLUTION is ", name,
                    "; block, cluster, columns and unfused are known");
  return Path::unfused;
}

}  // namespace

ConvolutionArguments::ConvolutionArguments(const char* operation, const Tensor& u_, const Tensor& kernel_,
                                           bool bidirectional, const OptionalTensor& lengths_,
                                           const OptionalTensor& offsets_) {
  const at::ScalarType type = compute_type(operation, u_.scalar_type());
  check_convolution(operation, u_, kernel_, bidirectional, lengths_, offsets_);
  check_device(operation, "the kernel", kernel_, "u", u_);
  TORCH_CHECK_VALUE(u_.is_cuda(), "[rtf::", operation, "] u is on ", u_.device(),
                    " and lengths on a GPU; move them to one device");
  u = u_;
  kernel = as_type(kernel_, type).contiguous();
  if (lengths_) lengths = device_lengths(operation, *lengths_);
  cuts = offsets_of(operation, offsets_, u.size(1));
  int64_t batch = u.size(0), length = u.size(1);
  if (offsets_) {
    TORCH_CHECK_VALUE(batch == 1, "[rtf::", operation, "] a packed u has batch ", batch, "; 1 is needed");
    offsets = offsets_->to(at::TensorOptions(at::kLong).device(u.device())).contiguous();
    batch = static_cast<int64_t>(cuts.size()) - 1;
    length = 0;
    for (std::size_t s = 0; s + 1 < cuts.size(); ++s)
      length = std::max(length, static_cast<int64_t>(cuts[s + 1] - cuts[s]));
  }
  constexpr int64_t most = std::numeric_limits<int>::max();
  TORCH_CHECK_VALUE(batch * u.size(2) <= most && kernel.size(-1) <= most, "[rtf::", operation, "] u has shape ",
                    u.sizes(), " and the kernel ", kernel.sizes(), "; at most 2^31 rows or samples are served");
  const Path path = path_of(operation);
  unfused = type == at::kDouble || length > cuda::longest_convolution || path == Path::unfused;
  sizes = {.batch = static_cast<int>(batch),
           .length = static_cast<int>(std::min(length, most)),
           .channels = static_cast<int>(u.size(2)),
           .kernel_length = static_cast<int>(kernel.size(-1)),
           .bidirectional = bidirectional,
           .storage = u.scalar_type() == at::kBFloat16 ? cuda::Storage::bfloat16 : cuda::Storage::float32,
           .lengths = lengths.defined() ? lengths.const_data_ptr<int64_t>() : nullptr,
           .offsets = offsets.defined() ? offsets.const_data_ptr<int64_t>() : nullptr,
           .method = path == Path::block     ? cuda::Method::block
                     : path == Path::cluster ? cuda::Method::cluster
                     : path == Path::columns ? cuda::Method::columns
                                             : cuda::Method::automatic};
}

// Those already on the device are not looked at: that would wait for it. The kernels take them as at most the length.
Tensor ConvolutionArguments::device_lengths(const char* operation, const Tensor& given) const {
  if (!given.is_cuda()) lengths_of(operation, given, u.size(0), u.size(1));
  TORCH_CHECK_VALUE(given.dim() == 1 && given.size(0) == u.size(0) && at::isIntegralType(given.scalar_type(), false),
                    "[rtf::", operation, "] lengths has shape ", given.sizes(), " and type ", given.scalar_type(), "; ",
                    u.size(0), " integers are needed");
  return given.to(at::TensorOptions(at::kLong).device(u.device())).contiguous();
}

Rows::Rows(const Tensor& x, Pieces& pieces) : x_(x.is_contiguous() ? x : as_length_last(x)) {
  if (x_.stride(1) == 1 || x_.size(1) <= 1) return;
  pieces_ = &pieces;
  piece_ = pieces.add(x_.nbytes());
}

void* Rows::memory() const {
  if (pieces_) return pieces_->at(piece_);
  return rows_.defined() ? rows_.mutable_data_ptr() : nullptr;
}

cuda::Signal Rows::rows() const {
  if (void* rows = memory()) return {rows, x_.size(1) * x_.size(2), x_.size(1)};
  return {x_.data_ptr(), x_.stride(0), x_.stride(2)};
}

cuda::Input Rows::input() const {
  void* to = memory();
  if (!to) return rows();
  return {rows(), cuda::Turn{x_.const_data_ptr(), to, x_.size(0), x_.size(1), x_.size(2), x_.element_size()}};
}

Tensor Rows::written(cudaStream_t stream, bool beside) const {
  if (const void* rows = memory())
    cuda::transpose({rows, x_.mutable_data_ptr(), x_.size(0), x_.size(2), x_.size(1), x_.element_size()}, stream,
                    beside);
  return x_;
}

namespace {

// By torch's transforms, padded to twice the length: any type, any length.
class Unfused {
 public:
  explicit Unfused(const ConvolutionArguments& at)
      : at_(at),
        length_(at.sizes.length),
        size_(2 * std::bit_ceil(static_cast<uint64_t>(length_))),
        used_(std::min<int64_t>(length_, at.kernel.size(-1))),
        lags_(std::min<int64_t>(length_ - 1, at.kernel.size(-1))) {
    const bool both = at.sizes.bidirectional;
    Tensor rows = at::zeros({at.u.size(2), size_}, at.kernel.options());
    const Tensor ahead = both ? at.kernel.select(0, 0) : at.kernel;
    rows.narrow(1, 0, used_).copy_(ahead.narrow(1, 0, used_));
    if (both && lags_ > 0)
      rows.narrow(1, size_ - lags_, lags_).copy_(at.kernel.select(0, 1).narrow(1, 0, lags_).flip(1));
    spectrum_ = at::fft_rfft(rows, size_, 1);
  }

  Tensor convolve() const {
    return for_sequences([&](int64_t start, int64_t count, const Tensor& y) {
      const Tensor x = at::fft_rfft(input(start, count), size_, 2);
      y.copy_(at::fft_irfft(x * spectrum_, size_, 2).narrow(2, 0, count));
    });
  }

  Pair backward(const Tensor& dy) const {
    Tensor sum = at::zeros_like(spectrum_);
    const Tensor du = for_sequences([&](int64_t start, int64_t count, const Tensor& to) {
      const Tensor x = at::fft_rfft(input(start, count), size_, 2);
      const Tensor g = at::fft_rfft(signal(dy, start, count), size_, 2);
      to.copy_(at::fft_irfft(g * spectrum_.conj(), size_, 2).narrow(2, 0, count));
      if (at_.lengths.defined()) to.mul_(mask(count));
      sum += (x.conj() * g).sum(0);
    });
    const Tensor rows = at::fft_irfft(sum, size_, 1);
    Tensor dk = at::zeros_like(at_.kernel);
    (at_.sizes.bidirectional ? dk.select(0, 0) : dk).narrow(1, 0, used_).copy_(rows.narrow(1, 0, used_));
    if (at_.sizes.bidirectional && lags_ > 0)
      dk.select(0, 1).narrow(1, 0, lags_).copy_(rows.narrow(1, size_ - lags_, lags_).flip(1));
    return {du, dk};
  }

 private:
  Tensor signal(const Tensor& whole, int64_t start, int64_t count) const {
    return whole.narrow(1, start, count).transpose(1, 2).to(at_.kernel.scalar_type());
  }
  Tensor mask(int64_t count) const {
    const Tensor t = at::arange(count, at_.lengths.options());
    return (t < at_.lengths.unsqueeze(1)).unsqueeze(1).to(at_.kernel.scalar_type());
  }
  Tensor input(int64_t start, int64_t count) const {
    const Tensor x = signal(at_.u, start, count);
    return at_.lengths.defined() ? x * mask(count) : x;
  }
  // compute(start, count, to) for each packed sequence, or for all padded ones at once; `to` is length last.
  template <class F>
  Tensor for_sequences(F&& compute) const {
    const Tensor result = empty_length_last(at_.u, at_.u.scalar_type());
    if (at_.cuts.empty()) {
      compute(0, length_, result.transpose(1, 2));
      return result;
    }
    for (std::size_t s = 0; s + 1 < at_.cuts.size(); ++s) {
      const auto start = static_cast<int64_t>(at_.cuts[s]), count = static_cast<int64_t>(at_.cuts[s + 1]) - start;
      if (count > 0) compute(start, count, result.transpose(1, 2).narrow(2, start, count));
    }
    return result;
  }

  const ConvolutionArguments& at_;
  int64_t length_, size_, used_, lags_;
  Tensor spectrum_;
};

Tensor convolve_cuda(const Tensor& u, const Tensor& kernel, bool bidirectional, const OptionalTensor& lengths,
                     const OptionalTensor& offsets) {
  const ConvolutionArguments at("convolve", u, kernel, bidirectional, lengths, offsets);
  const Device device(u);
  if (at.empty()) return empty_result(u, u.scalar_type()).zero_();
  if (at.unfused) return as_result(Unfused(at).convolve(), u, u.scalar_type(), device);
  return call([&] {
    Pieces pieces;
    const Rows in(u, pieces), out(empty_result(u, u.scalar_type()), pieces);
    const std::size_t space = pieces.add(cuda::convolve_workspace_bytes(at.sizes));
    pieces.allocate(device);
    cuda::convolve(at.sizes, in.input(), at.kernel.const_data_ptr<float>(), out.rows(), pieces.at(space), device);
    return out.written(device);
  });
}

Pair convolve_backward_cuda(const Tensor& dy, const Tensor& u, const Tensor& kernel, bool bidirectional,
                            const OptionalTensor& lengths, const OptionalTensor& offsets) {
  const ConvolutionArguments at("convolve_backward", u, kernel, bidirectional, lengths, offsets);
  check_shape("convolve_backward", "dy", dy, u.sizes());
  check_device("convolve_backward", "dy", dy, "u", u);
  const Device device(u);
  if (at.empty())
    return {empty_result(u, u.scalar_type()).zero_(),
            at::zeros_like(kernel, kernel.options(), at::MemoryFormat::Contiguous)};
  const Tensor gradient = dy.to(u.scalar_type());
  if (at.unfused) {
    auto [du, dk] = Unfused(at).backward(gradient);
    return {as_result(du, u, u.scalar_type(), device), dk.to(kernel.scalar_type())};
  }
  return call([&]() -> Pair {
    const Tensor dk = at::empty(at.kernel.sizes(), at.kernel.options());
    Pieces pieces;
    const Rows from(gradient, pieces), in(u, pieces), du(empty_result(u, u.scalar_type()), pieces);
    const std::size_t space = pieces.add(cuda::convolve_backward_workspace_bytes(at.sizes));
    pieces.allocate(device);
    cuda::convolve_backward(at.sizes, from.input(), in.input(), at.kernel.const_data_ptr<float>(), du.rows(),
                            dk.mutable_data_ptr<float>(), pieces.at(space), device);
    return {du.written(device), dk.to(kernel.scalar_type())};
  });
}

}  // namespace

TORCH_LIBRARY_IMPL(rtf, CUDA, m) {
  m.impl("convolve", convolve_cuda);
  m.impl("convolve_backward", convolve_backward_cuda);
}

}  // namespace rtf::ops
