// What holds of modules on the GPU: a captured step gives what plain steps give, and a layer that filters refuses what
// one that convolves refuses. Skipped without a CUDA device.
#include "rtf_torch/step_graph.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <gtest/gtest.h>

#include <string>

#include "torch/device_graph.h"

namespace rtf::nn {
namespace {

SequenceModel make_model(Decoder decoder, int64_t vocabulary, Norm norm) {
  SequenceModelOptions options;
  options.vocabulary = vocabulary;
  options.features = 3;
  options.layers = 3;
  options.layer.channels = 8;
  options.layer.order = 5;
  options.layer.length = 64;
  options.layer.denominators = 2;
  options.layer.init = Init::montel;
  options.norm = norm;
  options.decoder = decoder;
  options.outputs = 4;
  SequenceModel model(options);
  model->to(at::kCUDA);
  model->eval();
  return model;
}

class StepGraphTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::globalContext().hasCUDA()) GTEST_SKIP() << "there is no CUDA device";
  }
};

void expect_same_streams(SequenceModel model, int64_t batch) {
  StepGraph graph(model, batch);
  ModelState state = model->make_state(batch);
  const bool tokens = model->options.vocabulary > 0;
  const auto options = at::TensorOptions(at::kCUDA);
  for (int round = 0; round < 2; ++round) {
    for (int t = 0; t < 20; ++t) {
      const at::Tensor x = tokens ? at::randint(model->options.vocabulary, {batch}, options.dtype(at::kLong))
                                  : at::randn({batch, model->options.features}, options);
      const at::Tensor expected = model->step(x, state), actual = graph.step(x);
      ASSERT_TRUE(at::allclose(actual, expected, 1e-5, 1e-6)) << "at step " << t << " of round " << round;
      for (std::size_t i = 0; i < state.states.size(); ++i)
        ASSERT_TRUE(at::allclose(graph.state().states[i], state.states[i], 1e-5, 1e-6)) << "layer " << i;
    }
    // Zeros start the streams anew.
    state = model->make_state(batch);
    for (const at::Tensor& each : graph.state().states) each.zero_();
    for (const at::Tensor& each : {graph.state().sum, graph.state().count})
      if (each.defined()) each.zero_();
  }
}

TEST_F(StepGraphTest, StepsAsTheModelDoes) {
  for (const int64_t batch : {1, 7}) {
    expect_same_streams(make_model(Decoder::position, 0, Norm::batch), batch);
    expect_same_streams(make_model(Decoder::position, 11, Norm::layer), batch);
    expect_same_streams(make_model(Decoder::pool, 11, Norm::batch), batch);
  }
}

int64_t reserved_bytes() {
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(c10::cuda::current_device());
  return stats.reserved_bytes[static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE)].current;
}

// Some steps with temporaries of the size of x.
void smooth(const at::Tensor& x, at::Tensor& y) {
  at::Tensor value = x;
  for (int i = 0; i < 4; ++i) value = (value + value.roll(1, 0)).sin() * (i + 1);
  y.copy_(value);
}

TEST_F(StepGraphTest, GraphsThatShareMemoryAreReplayedInAnyOrder) {
  const c10::cuda::CUDAStreamGuard stream(c10::cuda::getStreamFromPool());
  const auto options = at::TensorOptions(at::kCUDA);
  const std::vector<int64_t> sizes = {int64_t{1} << 23, int64_t{3} << 21, int64_t{1} << 24};
  std::vector<at::Tensor> x, y;
  for (const int64_t size : sizes) {
    x.push_back(at::randn({size}, options));
    y.push_back(at::zeros({size}, options));
    smooth(x.back(), y.back());
  }
  std::vector<std::unique_ptr<DeviceGraph>> graphs;
  std::vector<int64_t> grown;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    graphs.emplace_back(rtf_cuda_make_graph(i > 0 ? graphs[0].get() : nullptr));
    c10::cuda::CUDACachingAllocator::emptyCache();
    const int64_t before = reserved_bytes();
    graphs.back()->capture([&] { smooth(x[i], y[i]); });
    grown.push_back(reserved_bytes() - before);
  }
  EXPECT_GT(grown[0], 0);
  EXPECT_EQ(grown[1], 0);  // a smaller one fits where the first does
  for (int round = 0; round < 3; ++round) {
    for (const std::size_t i : {std::size_t{2}, std::size_t{0}, std::size_t{1}, std::size_t{0}}) {
      x[i].normal_();
      at::Tensor expected = at::empty_like(x[i]);
      smooth(x[i], expected);
      graphs[i]->replay();
      EXPECT_TRUE(at::equal(y[i], expected)) << i;
    }
  }
  // The memory outlives the graph that it was first made for, and none of them.
  graphs.erase(graphs.begin());
  at::Tensor expected = at::empty_like(x[1]);
  smooth(x[1], expected);
  y[1].zero_();
  graphs[0]->replay();
  EXPECT_TRUE(at::equal(y[1], expected));
  c10::cuda::device_synchronize();
  const int64_t held = reserved_bytes();
  graphs.clear();
  c10::cuda::CUDACachingAllocator::emptyCache();
  EXPECT_LT(reserved_bytes(), held);
}

TEST_F(StepGraphTest, AFailedCaptureLeavesNothingBehind) {
  const c10::cuda::CUDAStreamGuard stream(c10::cuda::getStreamFromPool());
  at::Tensor x = at::randn({1000}, at::kCUDA), y = at::zeros_like(x);
  smooth(x, y);
  std::unique_ptr<DeviceGraph> first(rtf_cuda_make_graph(nullptr));
  first->capture([&] { smooth(x, y); });
  for (int i = 0; i < 3; ++i) {
    std::unique_ptr<DeviceGraph> failed(rtf_cuda_make_graph(first.get()));
    EXPECT_ANY_THROW(failed->capture([&] { (void)(x * 2).sum().item<float>(); }));
    failed.reset();
    at::Tensor expected = at::empty_like(x);
    smooth(x, expected);
    y.zero_();
    first->replay();
    EXPECT_TRUE(at::equal(y, expected));
  }
}

TEST_F(StepGraphTest, RefusesWhatCannotBeCaptured) {
  SequenceModel model = make_model(Decoder::position, 0, Norm::batch);
  StepGraph graph(model, 2);
  EXPECT_THROW(graph.step(at::zeros({3, 3}, at::kCUDA)), c10::Error);
  EXPECT_THROW(graph.step(at::zeros({2, 3}, at::TensorOptions(at::kDouble).device(at::kCUDA))), c10::Error);
  model->train();
  EXPECT_THROW(StepGraph(model, 2), c10::Error);
  model->eval();
  model->to(at::kCPU);
  EXPECT_THROW(StepGraph(model, 2), c10::Error);
}

TEST_F(StepGraphTest, LayersThatFilterRefuseLengthsAsConvolutionsDo) {
  const auto integers = at::TensorOptions(at::kLong).device(at::kCUDA);
  for (const int64_t order : {3, 100}) {  // filtered in chunks, and convolved
    RTFOptions options;
    options.channels = 4;
    options.order = order;
    options.length = 32;
    options.numerator = Numerator::exact;
    RTF layer(options);
    layer->to(at::kCUDA);
    const at::Tensor u = at::zeros({2, 32, 4}, at::kCUDA);
    EXPECT_NO_THROW(layer->forward(u, at::full({2}, 5, integers)));
    for (const at::Tensor& lengths :
         {at::full({1}, 5, integers), at::full({2, 1}, 5, integers), at::full({2}, 5.0, integers.dtype(at::kFloat))}) {
      try {
        layer->forward(u, lengths);
        FAIL() << "order " << order << " took lengths of shape " << lengths.sizes();
      } catch (const c10::Error& error) {
        const std::string message = error.what();
        EXPECT_NE(message.find("[rtf::convolve] lengths has shape"), std::string::npos) << message;
      }
    }
  }
}

}  // namespace
}  // namespace rtf::nn
