// Copying: M tokens, N zeros, then M markers at which the tokens must come back in order.
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include "rtf/random.h"
#include "train/random_streams.h"
#include "train/tasks/objectives.h"
#include "train/tasks/tasks.h"

namespace rtf::train {
namespace {

class Copying : public Classification {
 public:
  Copying(const TaskConfig& config, uint64_t seed)
      : config_(config),
        seed_(seed),
        train_size_(config.train_size ? config.train_size : 10'000),
        val_size_(config.val_size ? config.val_size : 1'000) {}

  void shape(nn::SequenceModelOptions& model) const override {
    model.vocabulary = model.outputs = config_.symbols;
    model.decoder = nn::Decoder::last;
    model.last = config_.memory;
    set_length(model, 2 * config_.memory + config_.noise);
  }

  std::vector<Split> splits() const override { return {Split::train, Split::val}; }
  int64_t size(Split split) const override { return split == Split::train ? train_size_ : val_size_; }

  Batch batch(Split split, int64_t epoch, std::span<const int64_t> indices) const override {
    const int64_t memory = config_.memory, length = 2 * memory + config_.noise;
    const Random random = split == Split::train
                              ? Random(seed_, static_cast<uint32_t>(epoch), RandomStream::train_samples)
                              : Random(seed_, 0, RandomStream::val_samples);
    const auto batch = static_cast<int64_t>(indices.size());
    at::Tensor input = at::empty({batch, length}, at::kLong), target = at::empty({batch, memory}, at::kLong);
    int64_t *inputs = input.mutable_data_ptr<int64_t>(), *targets = target.mutable_data_ptr<int64_t>();
    // 0 is the noise, the last symbol the marker.
    const double content = static_cast<double>(config_.symbols - 2);
    at::parallel_for(0, batch, 1, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        int64_t *x = inputs + row * length, *y = targets + row * memory;
        const auto first = static_cast<uint64_t>(indices[row] * memory);
        for (int64_t t = 0; t < memory; ++t) {
          x[t] = y[t] = 1 + static_cast<int64_t>(random.uniform(first + static_cast<uint64_t>(t)) * content);
        }
        std::fill(x + memory, x + memory + config_.noise, 0);
        std::fill(x + memory + config_.noise, x + length, config_.symbols - 1);
      }
    });
    return {.input = input, .target = target, .lengths = {}, .continues = false};
  }

  // The paper chooses by validation loss.
  std::string selection() const override { return "loss"; }
  bool higher_is_better() const override { return false; }

 private:
  TaskConfig config_;
  uint64_t seed_;
  int64_t train_size_, val_size_;
};

}  // namespace

std::unique_ptr<Task> make_copying(const Config& config) {
  return std::make_unique<Copying>(config.task, config.train.seed);
}

}  // namespace rtf::train
