// Steps a second of a whole model on the GPU, 6 layers of 256 channels and order 64, call by call and as a graph:
// step_cuda_bench [batch ...]
#include <ATen/ATen.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "rtf_torch/step_graph.h"

namespace {

// Median microseconds of one of `steps` calls, over rounds that each end with the device done.
template <class Step>
double microseconds(Step&& step) {
  constexpr int rounds = 9, steps = 200;
  std::vector<double> times;
  for (int round = 0; round < rounds + 1; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < steps; ++i) step();
    c10::cuda::getCurrentCUDAStream().synchronize();
    const std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - start;
    if (round > 0) times.push_back(taken.count() / steps);  // the first one warms up
  }
  std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
  return times[rounds / 2];
}

}  // namespace

int main(int count, char** arguments) {
  std::vector<int64_t> batches;
  for (int i = 1; i < count; ++i) batches.push_back(std::atoll(arguments[i]));
  if (batches.empty()) batches = {1, 64};
  std::printf("%6s %18s %18s %14s\n", "batch", "calls, us a step", "graph, us a step", "graph, steps/s");
  for (const int64_t batch : batches) {
    rtf::nn::SequenceModelOptions options;
    options.layers = 6;
    options.layer.channels = 256;
    options.layer.order = 64;
    options.layer.length = 1024;
    options.layer.init = rtf::Init::montel;
    options.vocabulary = 64;
    options.decoder = rtf::nn::Decoder::position;
    options.outputs = 64;
    rtf::nn::SequenceModel model(options);
    model->to(at::kCUDA);
    model->eval();
    const at::Tensor x = at::randint(64, {batch}, at::TensorOptions(at::kCUDA).dtype(at::kLong));
    rtf::nn::ModelState state = model->make_state(batch);
    rtf::nn::StepGraph graph(model, batch);
    const double calls = microseconds([&] { model->step(x, state); }), replay = microseconds([&] { graph.step(x); });
    std::printf("%6ld %18.1f %18.1f %14.0f\n", static_cast<long>(batch), calls, replay, 1e6 / replay);
  }
}
