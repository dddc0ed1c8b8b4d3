// correct and wrap for coefficients on the GPU. They go through the CPU's operators: they refuse ill-conditioned
// denominators, so that the host has to see the numbers anyhow, and they run once an export or a change of length.
#include <torch/library.h>

#include "rtf_torch/operators.h"
#include "torch/cuda/bridge.h"
#include "torch/dispatch.h"

namespace rtf::ops {
namespace {

void check_devices(const char* operation, const Tensor& a, const Tensor& b, const Tensor& h0) {
  check_device(operation, "a", a, "b", b);
  check_device(operation, "h0", h0, "b", b);
}

Pair correct_cuda(const Tensor& a, const Tensor& b, const Tensor& h0, c10::SymInt length) {
  check_devices("correct", a, b, h0);
  const auto [to_b, to_h0] = correct(a.cpu(), b.cpu(), h0.cpu(), std::move(length));
  return {to_b.to(b.device()), to_h0.to(b.device())};
}

Pair wrap_cuda(const Tensor& a, const Tensor& b, const Tensor& h0, c10::SymInt length) {
  check_devices("wrap", a, b, h0);
  const auto [to_b, to_h0] = wrap(a.cpu(), b.cpu(), h0.cpu(), std::move(length));
  return {to_b.to(b.device()), to_h0.to(b.device())};
}

using Backward = Triple(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, c10::SymInt);

Triple backward_on_host(const c10::TypedOperatorHandle<Backward>& op, const Tensor& db, const Tensor& dh0,
                        const Tensor& a, const Tensor& b, const Tensor& h0, c10::SymInt length) {
  const auto [to_a, to_b, to_h0] = op.call(db.cpu(), dh0.cpu(), a.cpu(), b.cpu(), h0.cpu(), std::move(length));
  return {to_a.to(a.device()), to_b.to(b.device()), to_h0.to(h0.device())};
}

Triple correct_backward_cuda(const Tensor& db, const Tensor& dh0, const Tensor& a, const Tensor& b, const Tensor& h0,
                             c10::SymInt length) {
  static const auto op = find<Backward>("rtf::correct_backward");
  return backward_on_host(op, db, dh0, a, b, h0, std::move(length));
}

Triple wrap_backward_cuda(const Tensor& db, const Tensor& dh0, const Tensor& a, const Tensor& b, const Tensor& h0,
                          c10::SymInt length) {
  static const auto op = find<Backward>("rtf::wrap_backward");
  return backward_on_host(op, db, dh0, a, b, h0, std::move(length));
}

}  // namespace

TORCH_LIBRARY_IMPL(rtf, CUDA, m) {
  m.impl("correct", correct_cuda);
  m.impl("correct_backward", correct_backward_cuda);
  m.impl("wrap", wrap_cuda);
  m.impl("wrap_backward", wrap_backward_cuda);
}

}  // namespace rtf::ops
