// Which stream of rtf::Random (its `layer`) each use in training draws from. The model's own draws count from 0 up.
#pragma once

#include <cstdint>

namespace rtf::train {

enum RandomStream : std::uint32_t {
  train_samples = 0xD0000000,
  val_samples,
  test_samples,
  batch_order,
  pixel_order,
  bucket_order,
};

}  // namespace rtf::train
