// task_samples CONFIG SPLIT EPOCH COUNT FILE: the first samples of a task as safetensors, for test_tasks.py.
#include <ATen/ATen.h>

#include <iostream>
#include <numeric>

#include "rtf/safetensors.h"
#include "train/model_setup.h"

namespace {

rtf::Array to_array(const at::Tensor& tensor) {
  const at::Tensor values = tensor.to(at::kDouble).contiguous();
  const double* data = values.const_data_ptr<double>();
  return {{values.sizes().begin(), values.sizes().end()}, {data, data + values.numel()}, rtf::DataType::f64};
}

}  // namespace

int main(int argc, char** argv) {
  using namespace rtf::train;
  if (argc != 6) return 2;
  try {
    const Config config = load_config(argv[1]);
    const auto task = make_task(config, number_type(config.train));
    std::vector<int64_t> indices(std::stoul(argv[4]));
    std::iota(indices.begin(), indices.end(), 0);
    for (const Split split : {Split::train, Split::val, Split::test}) {
      if (argv[2] != std::string(name(split))) continue;
      const Batch batch = task->batch(split, std::stol(argv[3]), indices);
      rtf::TensorFile file{{{"input", to_array(batch.input)}, {"target", to_array(batch.target)}},
                           {{"size", std::to_string(task->size(split))}}};
      if (batch.lengths) file.tensors["lengths"] = to_array(*batch.lengths);
      rtf::write_safetensors(argv[5], file);
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
}
