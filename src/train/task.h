// A task: data, loss and metrics.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rtf_torch/sequence_model.h"
#include "train/config.h"

namespace rtf::train {

enum class Split { train, val, test };
const char* name(Split split);

struct Batch {
  at::Tensor input;  // as SequenceModel::forward takes it
  at::Tensor target;
  std::optional<at::Tensor> lengths;  // of padded sequences
  bool continues = false;             // a stream: each row goes on where the last batch's ended
};

// Sums over samples, so that batches of any size add up. They stay where the model is, which need not wait for them.
struct Tally {
  double count = 0;
  at::Tensor sums;  // float64: of the loss, then of the metrics that are means, in the order of Task::metrics()

  // `means` over `samples` samples.
  void add(double samples, const std::vector<at::Tensor>& means);
  std::vector<double> means() const;
};

struct Score {
  double loss = 0;
  std::vector<double> metrics;
};

class Task {
 public:
  virtual ~Task() = default;

  // Fills what the task decides: encoder, decoder, outputs, and the sequence length where the config leaves it open.
  virtual void shape(nn::SequenceModelOptions& model) const = 0;
  virtual std::vector<Split> splits() const = 0;
  virtual int64_t size(Split split) const = 0;
  // Streams: the samples of an epoch come in order, so that batches can continue one another. Otherwise shuffled.
  virtual bool in_order() const { return false; }
  // Positions of a sample where samples differ, so that those of one length can go together; 0: all are alike.
  virtual int64_t length(Split, int64_t) const { return 0; }
  // Sample i of epoch e depends on the seed, e and i alone; val and test are the same in every epoch.
  virtual Batch batch(Split split, int64_t epoch, std::span<const int64_t> indices) const = 0;
  // Of the samples that are read from files; 0: all are drawn.
  virtual std::uint64_t fingerprint() const { return 0; }
  virtual at::Tensor loss(const at::Tensor& output, const Batch& batch) const = 0;

  virtual std::vector<std::string> metrics() const = 0;
  virtual void measure(const at::Tensor& output, const Batch& batch, Tally& tally) const = 0;
  virtual Score score(const Tally& tally) const = 0;
  // Which score chooses `best`: "loss" or a metric, and whether more is better.
  virtual std::string selection() const = 0;
  virtual bool higher_is_better() const = 0;
};

// Samples are drawn on the host, in the type of numbers that `type` names.
std::unique_ptr<Task> make_task(const Config& config, at::ScalarType type);

}  // namespace rtf::train
