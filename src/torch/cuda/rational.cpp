// monic on the GPU: a kernel each way in place of some forty of torch's, whose launches would take longer than a
// filter.
#include "torch/rational.h"

#include <torch/library.h>

#include <algorithm>

#include "cuda/monic.h"
#include "torch/cuda/elements.h"

namespace rtf::ops {
namespace {

struct Arguments {
  Tensor a, b;
  cuda::Monic filters;

  Arguments(const Tensor& a_, const Tensor& b_, int64_t channels) : a(served(a_)), b(served(b_)) {
    check_device("monic", "b", b, "a", a);
    const auto rows = [](const Tensor& x) { return x.dim() == 1 ? 1 : x.size(0); };
    filters = {.channels = channels,
               .denominators = rows(a),
               .a_columns = a.size(-1),
               .b_rows = rows(b),
               .b_columns = b.size(-1),
               .order = std::max(a.size(-1), b.size(-1)) - 1,
               .a = numbers(a),
               .b = numbers(b)};
  }

 private:
  static Tensor served(const Tensor& x) {
    const auto type = x.scalar_type();
    const bool read = type == at::kFloat || type == at::kDouble || type == at::kBFloat16;
    return (read ? x : x.to(at::kDouble)).contiguous();
  }
};

Triple monic_cuda(const Tensor& a, const Tensor& b, int64_t channels) {
  check_monic("monic", a, b, channels);
  const Device device(a);
  const Arguments at(a, b, channels);
  const auto options = a.options().dtype(at::kDouble);
  const Tensor to_a = at::empty({at.filters.denominators, at.filters.order}, options),
               to_b = at::empty({channels, at.filters.order}, options), h0 = at::empty({channels}, options);
  call([&] {
    cuda::monic(at.filters, to_a.mutable_data_ptr<double>(), to_b.mutable_data_ptr<double>(),
                h0.mutable_data_ptr<double>(), device);
  });
  return {to_a, to_b, h0};
}

Pair monic_backward_cuda(const Tensor& da, const Tensor& db, const Tensor& dh0, const Tensor& a, const Tensor& b) {
  check_monic_gradients(da, db, dh0, a, b);
  for (const Tensor& gradient : {da, db, dh0}) check_device("monic_backward", "a gradient", gradient, "a", a);
  const Device device(a);
  const Arguments at(a, b, db.size(0));
  const auto& filters = at.filters;
  const Tensor along_a = da.contiguous(), along_b = db.contiguous(), along_h0 = dh0.contiguous();
  const Tensor gains = at::empty({filters.channels}, db.options()), to_a = at::empty_like(at.a);
  const Tensor to_b = filters.b_rows == 1 && filters.denominators > 1
                          ? at::empty({filters.denominators, filters.b_columns}, db.options())
                          : at::empty_like(at.b);
  call([&] {
    cuda::monic_vjp(filters, along_a.const_data_ptr<double>(), along_b.const_data_ptr<double>(),
                    along_h0.const_data_ptr<double>(), gains.mutable_data_ptr<double>(), numbers(to_a), numbers(to_b),
                    device);
  });
  const Tensor sum = to_b.numel() == b.numel() ? to_b.view(b.sizes()) : to_b.sum(0).view(b.sizes());
  return {to_a.to(a.scalar_type()), sum.to(b.scalar_type())};
}

}  // namespace

TORCH_LIBRARY_IMPL(rtf, CUDA, m) {
  m.impl("monic", monic_cuda);
  m.impl("monic_backward", monic_backward_cuda);
}

}  // namespace rtf::ops
