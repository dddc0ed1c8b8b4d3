// The idx files of MNIST, plain or gzipped. Free of torch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace rtf::train {

struct IdxArray {
  std::vector<std::size_t> shape;
  std::vector<std::uint8_t> values;
};

// `folder`/`name` or `folder`/`name`.gz: unsigned bytes in `dimensions` dimensions.
IdxArray read_idx(const std::string& folder, const std::string& name, std::size_t dimensions);

}  // namespace rtf::train
