// What becomes of steps that are recorded once and replayed, with graphs that run on the CPU. On a GPU:
// tests/cuda/test_train.py and step_graph_test.cpp.
#include "train/training_step.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include "train/model_setup.h"
#include "train/tasks/objectives.h"

namespace rtf::train {
namespace {

constexpr int64_t longest = 12;

struct Counts {
  int fails = 0;  // the capture, from 1 on, that has no memory
  int made = 0, alive = 0, alone = 0, captured = 0, replayed = 0;
};

// Signals of several lengths; the target is the signal a sample ago.
class Signals : public Regression {
 public:
  explicit Signals(const Counts& counts) : counts_(counts) {}
  void shape(nn::SequenceModelOptions& model) const override {
    model.decoder = nn::Decoder::position;
    model.outputs = 1;
    model.layer.length = longest;
  }
  std::vector<Split> splits() const override { return {Split::train}; }
  int64_t size(Split) const override { return 1; }
  Batch batch(Split, int64_t, std::span<const int64_t> indices) const override {
    const int64_t step = indices[0], length = step % 2 ? longest : 8;
    const at::Tensor x = (at::arange(2 * length, at::kDouble) * (1.0 + 0.1 * static_cast<double>(step))).sin();
    const at::Tensor signal = x.view({2, length, 1});
    return {.input = signal,
            .target = at::constant_pad_nd(signal, {0, 0, 1, 0}).narrow(1, 0, length),
            .lengths = {},
            .continues = false};
  }
  at::Tensor loss(const at::Tensor& output, const Batch& batch) const override {
    // All memory is free for the step that could not be recorded, and for those after it.
    if (counts_.fails > 0 && counts_.captured >= counts_.fails) {
      EXPECT_EQ(counts_.alive, 0);
    }
    return Regression::loss(output, batch);
  }

 private:
  const Counts& counts_;
};

// Keeps the work, and does it when it is replayed.
class HostGraph final : public DeviceGraph {
 public:
  explicit HostGraph(Counts& counts) : counts_(counts) { ++counts_.alive; }
  ~HostGraph() override { --counts_.alive; }
  void capture(const std::function<void()>& work) override {
    if (++counts_.captured == counts_.fails) C10_THROW_ERROR(OutOfMemoryError, "no memory for it");
    work_ = work;
  }
  void replay() override {
    ++counts_.replayed;
    work_();
  }

 private:
  Counts& counts_;
  std::function<void()> work_;
};

struct Trained {
  std::vector<at::Tensor> weights;
  Counts counts;
};

// `fails` < 0: without graphs.
Trained train(int fails, int64_t accumulate, int64_t steps = 16) {
  at::set_num_threads(1);
  Config config;
  config.model.layers = 2;
  config.model.channels = 4;
  config.model.order = 3;
  config.model.init = "zero";
  config.optimizer.lr = 0.01;
  config.train.precision = "fp64";
  config.train.accumulate = accumulate;
  Trained trained;
  trained.counts.fails = fails;
  const Signals task(trained.counts);
  nn::SequenceModel model = make_model(config, task, c10::Device(c10::kCPU));
  model->train();
  NamedTensors parameters, buffers;
  for (const auto& item : model->named_parameters()) parameters.emplace_back(item.key(), item.value());
  for (const auto& item : model->named_buffers()) buffers.emplace_back(item.key(), item.value());
  Optimizer optimizer(parameters, buffers, config.optimizer);
  Profile profile;
  MakeGraph make;
  if (fails >= 0) {
    make = [&](const DeviceGraph* beside) {
      ++trained.counts.made;
      if (!beside) ++trained.counts.alone;
      return std::make_unique<HostGraph>(trained.counts);
    };
  }
  {
    TrainingStep step(model, task, optimizer, config.train, c10::Device(c10::kCPU), profile, make);
    for (int64_t done = 0; done < steps; ++done) {
      std::vector<Batch> batches;
      for (int64_t i = 0; i < accumulate; ++i) {
        const int64_t index = done * accumulate + i;
        batches.push_back(task.batch(Split::train, 0, {&index, 1}));
      }
      step.run(done, 0, batches);
      EXPECT_EQ(step.leaves_gradients(), trained.counts.alive == 0);
    }
  }
  EXPECT_EQ(trained.counts.alive, 0);
  for (const auto& [name, tensor] : model_tensors(model)) trained.weights.push_back(tensor);
  return trained;
}

void expect_equal(const Trained& x, const Trained& y) {
  ASSERT_EQ(x.weights.size(), y.weights.size());
  for (std::size_t i = 0; i < x.weights.size(); ++i) EXPECT_TRUE(at::equal(x.weights[i], y.weights[i])) << i;
}

TEST(TrainingStep, GraphsOfSeveralShapesShareTheirMemory) {
  for (const int64_t accumulate : {1, 2}) {
    const Trained graphs = train(0, accumulate);
    expect_equal(graphs, train(-1, accumulate));
    // One of each shape, and one of what follows several batches.
    EXPECT_EQ(graphs.counts.made, accumulate == 1 ? 2 : 3);
    EXPECT_EQ(graphs.counts.alone, 1);
    EXPECT_GT(graphs.counts.replayed, 0);
  }
}

TEST(TrainingStep, GoesOnWithoutGraphsWhenOneHasNoMemory) {
  for (const int64_t accumulate : {1, 2}) {
    for (const int fails : {1, 2}) {
      const Trained graphs = train(fails, accumulate);
      expect_equal(graphs, train(-1, accumulate));
      EXPECT_EQ(graphs.counts.made, fails);
    }
  }
}

}  // namespace
}  // namespace rtf::train
