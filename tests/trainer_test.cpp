// Streams: batches that continue one another. What the command can show of the trainer is in test_train.py.
#include "train/trainer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "temporary_folder.h"
#include "train/recorder.h"
#include "train/tasks/objectives.h"

namespace rtf::train {
namespace {

constexpr int64_t rows = 2, samples = 48;

// `rows` signals, cut into batches of `length` samples; the target is the signal 3 samples ago.
class Stream : public Regression {
 public:
  explicit Stream(int64_t length) : length_(length) {
    const at::Tensor t = at::arange(samples, at::kDouble);
    signals_ = at::stack({(0.7 * t).sin() + (0.31 * t).cos(), (1.3 * t).sin()}).unsqueeze(2);
    targets_ = at::constant_pad_nd(signals_, {0, 0, 3, 0}).narrow(1, 0, samples);
  }
  void shape(nn::SequenceModelOptions& model) const override {
    model.decoder = nn::Decoder::position;
    model.outputs = 1;
    model.layer.length = samples;
  }
  std::vector<Split> splits() const override { return {Split::train}; }
  int64_t size(Split) const override { return rows * samples / length_; }
  bool in_order() const override { return true; }
  Batch batch(Split, int64_t, std::span<const int64_t> indices) const override {
    const int64_t first = indices[0] / rows * length_, count = static_cast<int64_t>(indices.size());
    return {.input = signals_.narrow(0, 0, count).narrow(1, first, length_),
            .target = targets_.narrow(0, 0, count).narrow(1, first, length_),
            .lengths = {},
            .continues = first > 0};
  }

 private:
  int64_t length_;
  at::Tensor signals_, targets_;
};

Config config(int64_t chunk) {
  Config config;
  config.task.name = "stream";
  config.model.layers = 2;
  config.model.channels = 4;
  config.model.order = 3;
  config.model.norm = "layer";
  config.model.init = "zero";
  config.optimizer.lr = 0.01;
  config.train.precision = "fp64";
  config.train.batch = rows;
  config.train.epochs = 3;
  config.train.chunk = chunk;
  return config;
}

// The weights after training, stopped and restored from its checkpoint after `stop` steps.
std::vector<at::Tensor> train(int64_t length, int64_t chunk, int64_t stop = -1) {
  const test::TemporaryFolder temporary;
  const RunFolder folder = RunFolder::create(temporary.file("run"));
  auto trainer = std::make_unique<Trainer>(config(chunk), std::make_unique<Stream>(length));
  const auto run = [&](std::optional<int64_t> resumed) {
    Recorder recorder(folder, trainer->config(), {"rmse"}, "loss", trainer->total_steps(), resumed, true);
    return trainer->run(folder, recorder, [&] { return trainer->position().step == stop; });
  };
  if (!run({})) {
    EXPECT_EQ(trainer->position().step, stop);
    trainer = std::make_unique<Trainer>(config(chunk), std::make_unique<Stream>(length));
    trainer->restore(folder.latest());
    stop = -1;
    EXPECT_TRUE(run(trainer->position().step));
  }
  EXPECT_EQ(trainer->position().step, 3 * samples / (chunk ? chunk : length));
  return trainer->model()->parameters();
}

void expect_equal(const std::vector<at::Tensor>& x, const std::vector<at::Tensor>& y) {
  ASSERT_EQ(x.size(), y.size());
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_TRUE(at::equal(x[i], y[i])) << i;
}

TEST(Trainer, BatchesThatContinueAreChunksOfOneSequence) {
  const auto chunks = train(samples, 16);
  expect_equal(chunks, train(16, 0));
  expect_equal(train(samples, 12), train(24, 12));
}

TEST(Trainer, CarriedStatesAreInTheCheckpoint) {
  const auto whole = train(24, 12);
  for (const int64_t stop : {1, 2, 3, 6}) expect_equal(whole, train(24, 12, stop));
}

}  // namespace
}  // namespace rtf::train
