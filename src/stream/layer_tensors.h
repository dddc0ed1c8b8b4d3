// The recurrence of a layer as tensors of a model file.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "rtf/model_file.h"
#include "rtf/safetensors.h"

namespace rtf {

// Hands out the tensors of a file one by one, with the shapes that they must have.
class TensorTaker {
 public:
  TensorTaker(TensorFile& tensors, const std::string& path) : tensors_(tensors.tensors), path_(path) {}

  // Sizes that are `any` are free.
  static constexpr std::size_t any = static_cast<std::size_t>(-1);
  Array take(const std::string& name, const std::vector<std::size_t>& shape, DataType type);
  void check_empty() const;
  [[noreturn]] void refuse(const std::string& why) const;

 private:
  std::map<std::string, Array>& tensors_;
  const std::string& path_;
};

void put_layer(TensorFile& tensors, const std::string& name, const LayerRealization& layer);

// Fills `layer`, whose form and precision are known.
void take_layer(TensorTaker& taker, const std::string& name, std::size_t channels, LayerRealization& layer);

// Throws unless it is a recurrence of so many channels; `where` names it.
void check_layer(const LayerRealization& layer, std::size_t channels, const char* operation, const std::string& where);

}  // namespace rtf
