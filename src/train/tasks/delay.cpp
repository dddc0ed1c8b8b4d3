// Delay and Reconstruct: band-limited noise, to be given back `lag` samples later, or its end at the last position.
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>

#include "train/random_streams.h"
#include "train/tasks/noise.h"
#include "train/tasks/objectives.h"
#include "train/tasks/tasks.h"

namespace rtf::train {
namespace {

// How a target is made from signals (batch, length, 1), and how it is read off the model.
class NoiseTask : public Regression {
 public:
  NoiseTask(const Config& config, at::ScalarType type)
      : config_(config.task),
        seed_(config.train.seed),
        type_(type),
        noise_(static_cast<std::size_t>(config.task.length), config.task.dt, config.task.band, config.task.rms) {}

  std::vector<Split> splits() const override { return {Split::train, Split::val}; }
  int64_t size(Split split) const override {
    if (split == Split::train) return config_.train_size ? config_.train_size : 16'384;
    return config_.val_size ? config_.val_size : 1'024;
  }

  void shape(nn::SequenceModelOptions& model) const override {
    model.vocabulary = 0;
    model.features = 1;
    set_length(model, config_.length);
  }

  Batch batch(Split split, int64_t epoch, std::span<const int64_t> indices) const override {
    const Random random = split == Split::train
                              ? Random(seed_, static_cast<uint32_t>(epoch), RandomStream::train_samples)
                              : Random(seed_, 0, RandomStream::val_samples);
    const auto batch = static_cast<int64_t>(indices.size()), length = config_.length;
    at::Tensor signal = at::empty({batch, length, 1}, at::kDouble);
    double* values = signal.mutable_data_ptr<double>();
    at::parallel_for(0, batch, 1, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        noise_.draw(random, static_cast<uint64_t>(indices[row]),
                    {values + row * length, static_cast<std::size_t>(length)});
      }
    });
    signal = signal.to(type_);
    return {.input = signal, .target = target(signal), .lengths = {}, .continues = false};
  }

 protected:
  virtual at::Tensor target(const at::Tensor& signal) const = 0;

  TaskConfig config_;

 private:
  uint64_t seed_;
  at::ScalarType type_;
  Noise noise_;
};

class Delay : public NoiseTask {
 public:
  using NoiseTask::NoiseTask;

  void shape(nn::SequenceModelOptions& model) const override {
    NoiseTask::shape(model);
    model.decoder = nn::Decoder::position;
    model.outputs = 1;
  }

 protected:
  at::Tensor target(const at::Tensor& signal) const override {
    at::Tensor late = at::zeros_like(signal);
    const int64_t rest = config_.length - config_.lag;
    late.narrow(1, config_.lag, rest).copy_(signal.narrow(1, 0, rest));
    return late;
  }
};

class Reconstruct : public NoiseTask {
 public:
  using NoiseTask::NoiseTask;

  void shape(nn::SequenceModelOptions& model) const override {
    NoiseTask::shape(model);
    model.decoder = nn::Decoder::last;
    model.last = 1;
    model.outputs = config_.window;
  }

 protected:
  at::Tensor target(const at::Tensor& signal) const override {
    return signal.narrow(1, config_.length - config_.window, config_.window).transpose(1, 2).contiguous();
  }
};

}  // namespace

std::unique_ptr<Task> make_delay(const Config& config, at::ScalarType type) {
  return std::make_unique<Delay>(config, type);
}

std::unique_ptr<Task> make_reconstruct(const Config& config, at::ScalarType type) {
  return std::make_unique<Reconstruct>(config, type);
}

}  // namespace rtf::train
