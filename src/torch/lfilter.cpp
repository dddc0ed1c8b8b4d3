// lfilter: scipy.signal.lfilter with gradients, in a few calls of filter and convolve.
#include <ATen/ATen.h>
#include <torch/library.h>

#include "torch/dispatch.h"
#include "torch/rational.h"

namespace rtf::ops {
namespace {

// sum_{m >= 1} c_{t+m} x_m for t = 0..n-1, x and the result (batch, n, channels), c (channels, n).
Tensor advance(const Tensor& x, const Tensor& c) { return convolve(x, c.flip(1)).flip(1); }

// (first, c_1, ..., c_{n-1}), the first n coefficients of a polynomial.
Tensor leading(double first, const Tensor& c) { return at::constant_pad_nd(c.slice(1, 0, -1), {1, 0}, first); }

// The state (batch, n, channels) that SciPy has where the companion state is x: both leave the same output behind.
Tensor transposed_state(const Tensor& x, const Tensor& a, const Tensor& b) {
  return convolve(advance(x, b), leading(1, a)) - convolve(advance(x, a), leading(0, b));
}

// Throws unless zi has the size of a state, and leading ones that are those of x or stretch to them.
void check_broadcast(const Tensor& zi, c10::SymIntArrayRef shape) {
  const auto more = static_cast<int64_t>(shape.size()) - zi.dim();
  bool fits = zi.dim() >= 1 && more >= 0 && zi.sym_size(-1) == shape.back();
  for (int64_t i = 0; fits && i + 1 < zi.dim(); ++i) fits = zi.sym_size(i) == 1 || zi.sym_size(i) == shape[more + i];
  TORCH_CHECK_VALUE(fits, "[rtf::lfilter] zi has shape ", zi.sym_sizes(), "; ", shape, " is needed");
}

Pair lfilter_composite(const Tensor& x, const Tensor& a_, const Tensor& b_, const OptionalTensor& h0_,
                       const OptionalTensor& zi, bool return_zf) {
  TORCH_CHECK_VALUE(x.dim() >= 1, "[rtf::lfilter] x has shape ", x.sym_sizes(), "; (..., length) is needed");
  const bool each_channel = has_channels(a_, b_, h0_);
  // (batch, length, channels). A filter for all rows takes them as channels: one a lane.
  c10::SymInt batch = 1, channels = 1;
  for (int64_t i = 0; i + 1 < x.dim(); ++i) (each_channel && i + 2 < x.dim() ? batch : channels) *= x.sym_size(i);
  // On a GPU a row for each of a few channels costs less than to add their gradients up in operations of their own.
  const bool few = x.is_cuda() && channels > 0 && channels <= 64, said = each_channel ? x.dim() >= 2 : few;
  const Rational r = rational("lfilter", a_, b_, h0_, said ? std::optional(channels) : std::nullopt);
  const auto order = r.a.sym_size(1), length = x.sym_size(-1);
  TORCH_CHECK_VALUE(!each_channel || x.dim() >= 2, "[rtf::lfilter] x has shape ", x.sym_sizes(), "; (..., ",
                    r.b.sym_size(0), ", length) is needed for coefficients of ", r.b.sym_size(0), " channels");
  auto state_shape = x.sym_sizes().vec();
  state_shape.back() = order;
  if (zi) check_broadcast(*zi, state_shape);
  if (batch == 0 || channels == 0) {  // nothing, with a gradient of zeros for everything
    Tensor none = r.a.sum() + r.b.sum() + r.h0.sum();
    if (zi) none = none + zi->sum();
    none = none * 0;
    return {x + none.to(x.scalar_type()), at::zeros_symint(state_shape, r.a.options()) + none};
  }
  const auto samples = [&](const Tensor& rows, const c10::SymInt& count) {
    return rows.reshape_symint({batch, channels, count}).transpose(1, 2);
  };
  const Tensor a = r.a, b = said ? r.b : r.b.expand_symint({channels, order});
  const Tensor h0 = said ? r.h0 : r.h0.expand_symint({channels});
  auto [y, end] = filter(samples(x, length), a, b, h0);
  Tensor zf = end.transpose(1, 2);
  if (order > 0 && (zi || return_zf)) {
    const Tensor every_a = for_channels(a, channels).expand_symint({channels, order});
    if (return_zf) zf = transposed_state(zf, every_a, b);
    if (zi) {
      // The output is (N U + Z) / A: what zi adds is the response of 1/A to its numbers.
      const Tensor start =
          at::constant_pad_nd_symint(samples(zi->to(at::kDouble).expand_symint(state_shape), order), {0, 0, 0, length});
      const auto [free, free_end] = filter(start.slice_symint(1, 0, length), a, -every_a, at::ones_like(h0));
      y = y + free.to(y.scalar_type());
      if (return_zf)
        zf = zf - advance(free_end.transpose(1, 2), every_a) + start.slice_symint(1, length, length + order);
    }
  }
  const Tensor out = y.transpose(1, 2).reshape_symint(x.sym_sizes());
  return {out, return_zf ? zf.transpose(1, 2).reshape_symint(state_shape) : at::empty({0}, end.options())};
}

}  // namespace

TORCH_LIBRARY_IMPL(rtf, CompositeImplicitAutograd, m) { m.impl("lfilter", lfilter_composite); }

}  // namespace rtf::ops
