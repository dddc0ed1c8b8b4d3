// The operators length_last and channels_last, and what they are where a device has nothing faster.
#pragma once

#include <ATen/core/Tensor.h>

namespace rtf::ops {

at::Tensor length_last(const at::Tensor& x);
at::Tensor channels_last(const at::Tensor& x);

// x with the samples of a row side by side, and with the channels of a position so, in memory of its own.
at::Tensor copied_length_last(const at::Tensor& x);
at::Tensor copied_channels_last(const at::Tensor& x);

}  // namespace rtf::ops
