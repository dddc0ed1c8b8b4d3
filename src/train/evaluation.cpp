#include "train/evaluation.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "rtf/error.h"
#include "train/batch_stream.h"
#include "train/sample_order.h"

namespace rtf::train {
namespace {

// The answers at all positions, brought to what forward() returns.
at::Tensor stream(nn::SequenceModel& model, const at::Tensor& input, Mode mode) {
  const int64_t length = input.size(1), prompt = mode == Mode::prefill ? length / 2 : 0;
  nn::ModelState state = model->make_state(input.size(0));
  std::vector<at::Tensor> answers;
  if (prompt > 0) answers.push_back(model->prefill(input.narrow(1, 0, prompt), state));
  for (int64_t t = prompt; t < length; ++t) answers.push_back(model->step(input.select(1, t), state).unsqueeze(1));
  const at::Tensor all = at::cat(answers, 1);
  switch (model->options.decoder) {
    case nn::Decoder::position:
      return all;
    case nn::Decoder::last:
      return all.narrow(1, length - model->options.last, model->options.last);
    default:
      return all.select(1, length - 1);
  }
}

// Evaluation mode until it goes out of scope.
class EvaluationMode {
 public:
  explicit EvaluationMode(nn::SequenceModel& model) : model_(model), training_(model->is_training()) { model->eval(); }
  ~EvaluationMode() { model_->train(training_); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  nn::SequenceModel& model_;
  bool training_;
};

}  // namespace

int64_t evaluation_batch(const TrainConfig& config, const Task& task, Split split) {
  const int64_t batch = config.eval_batch ? config.eval_batch : config.batch, size = task.size(split);
  if (batch <= size) return batch;
  throw Error(ErrorCode::argument, "evaluate",
              (config.eval_batch ? "train.eval_batch is " : "train.batch is ") + std::to_string(batch) + ", and the " +
                  name(split) + " split has " + std::to_string(size) + " samples");
}

at::Tensor PartialEvaluation::tensor() const {
  const at::Tensor counts = at::tensor({static_cast<double>(batches), tally.count}, at::kDouble);
  return at::cat({counts, tally.sums.cpu()});
}

PartialEvaluation PartialEvaluation::from(const at::Tensor& tensor, c10::Device device) {
  PartialEvaluation done;
  done.batches = static_cast<int64_t>(tensor[0].item<double>());
  done.tally = {tensor[1].item<double>(), tensor.narrow(0, 2, tensor.size(0) - 2).to(device)};
  return done;
}

Evaluation evaluate(nn::SequenceModel model, const Task& task, Split split, int64_t batch, Mode mode,
                    PartialEvaluation& done, const std::function<void()>& progress) {
  const int64_t size = task.size(split);
  if (mode != Mode::convolution && model->options.layer.bidirectional) {
    throw Error(ErrorCode::unsupported, "evaluate", "a bidirectional model cannot be streamed; use --mode convolution");
  }
  const at::NoGradGuard no_grad;
  const EvaluationMode mode_guard(model);
  Evaluation result;
  double largest = 0, difference = 0;
  const c10::Device device = model->parameters()[0].device();
  const std::vector<int64_t> order = evaluation_order(task, split, batch);
  const auto make = [&](int64_t index) {
    return task.batch(
        split, 0, std::span(order).subspan(static_cast<std::size_t>(index * batch), static_cast<std::size_t>(batch)));
  };
  BatchStream batches(make, size / batch, ahead_for(device));
  while (done.batches < size / batch) {
    const Batch samples = to_device(batches.take(done.batches), device);
    at::Tensor output = model->forward(samples.input, samples.lengths);
    if (mode != Mode::convolution) {
      if (samples.lengths) {
        throw Error(ErrorCode::unsupported, "evaluate",
                    "padded sequences cannot be streamed together; use --mode convolution");
      }
      const at::Tensor streamed = stream(model, samples.input, mode);
      largest = std::max(largest, output.abs().max().item<double>());
      difference = std::max(difference, (streamed - output).abs().max().item<double>());
      output = streamed;
    }
    task.measure(output, samples, done.tally);
    ++done.batches;
    if (progress) progress();
  }
  result.samples = done.batches * batch;
  result.score = task.score(done.tally);
  if (largest > 0) result.difference = difference / largest;
  return result;
}

}  // namespace rtf::train
