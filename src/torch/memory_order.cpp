// length_last and channels_last: the same numbers in either order of memory, each the gradient of the other. Torch's
// own copy is slow between the two, makes three nodes of autograd, and its gradient is copied once more where a
// parameter takes it.
#include "torch/memory_order.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include "torch/bridge.h"
#include "torch/dispatch.h"
#include "torch/tape.h"

namespace rtf::ops {

Tensor copied_length_last(const Tensor& x) {
  return x.transpose(1, 2).clone(at::MemoryFormat::Contiguous).transpose(1, 2);
}

Tensor copied_channels_last(const Tensor& x) { return x.clone(at::MemoryFormat::Contiguous); }

Tensor length_last(const Tensor& x) {
  RTF_OPERATOR("length_last", Tensor, const Tensor&);
  return op.call(x);
}

Tensor channels_last(const Tensor& x) {
  RTF_OPERATOR("channels_last", Tensor, const Tensor&);
  return op.call(x);
}

namespace {

using Turn = Tensor (*)(const Tensor&);

Tensor taped(const char* operation, Turn turn, Turn back, const Tensor& x) {
  return record(
      operation, {x}, {}, [&] { return variable_list{turn(x)}; },
      [back](const variable_list&, const variable_list& gradients) -> variable_list {
        return {back(gradients[0])};
      })[0];
}

Tensor length_last_autograd(const Tensor& x) { return taped("length_last", length_last, channels_last, x); }
Tensor channels_last_autograd(const Tensor& x) { return taped("channels_last", channels_last, length_last, x); }

}  // namespace

TORCH_LIBRARY_IMPL(rtf, CompositeExplicitAutograd, m) {
  m.impl("length_last", [](const Tensor& x) {
    check_signal("length_last", "x", x);
    return copied_length_last(x);
  });
  m.impl("channels_last", [](const Tensor& x) {
    check_signal("channels_last", "x", x);
    return copied_channels_last(x);
  });
}
TORCH_LIBRARY_IMPL(rtf, Autograd, m) {
  m.impl("length_last", length_last_autograd);
  m.impl("channels_last", channels_last_autograd);
}

}  // namespace rtf::ops
