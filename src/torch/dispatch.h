// Calls through the dispatcher, and what the operators' autograd has in common.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <tuple>

#include "rtf_torch/operators.h"

namespace rtf::ops {

using Pair = std::tuple<Tensor, Tensor>;
using Triple = std::tuple<Tensor, Tensor, Tensor>;
using Quadruple = std::tuple<Tensor, Tensor, Tensor, Tensor>;

// The operator of a schema.
template <class Signature>
c10::TypedOperatorHandle<Signature> find(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

// Looks the operator up once: `op.call(...)`.
#define RTF_OPERATOR(name, Result, ...) static const auto op = ::rtf::ops::find<Result(__VA_ARGS__)>("rtf::" name)

}  // namespace rtf::ops
