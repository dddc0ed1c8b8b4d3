#include "train/training_step.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <iostream>

#include "train/batch_stream.h"
#include "train/stop_line.h"

namespace rtf::train {
namespace {

constexpr int64_t warm_up = 3;            // steps until libraries have chosen their algorithms and memory
constexpr std::size_t most_pending = 16;  // steps that the host may be ahead

// They share the memory of the largest. Texts padded to a multiple of 256 samples have no more shapes than this.
constexpr std::size_t most_graphs = 17;

// What a graph of its step depends on.
std::vector<int64_t> shape_of(const Batch& batch) {
  std::vector<int64_t> shape = batch.input.sizes().vec();
  shape.push_back(batch.lengths ? 1 : 0);
  shape.insert(shape.end(), batch.target.sizes().begin(), batch.target.sizes().end());
  return shape;
}

}  // namespace

TrainingStep::TrainingStep(nn::SequenceModel model, const Task& task, Optimizer& optimizer, const TrainConfig& config,
                           c10::Device device, Profile& profile, MakeGraph make)
    : model_(std::move(model)),
      task_(task),
      optimizer_(optimizer),
      config_(config),
      device_(device),
      profile_(profile),
      loss_sum_(at::zeros({}, at::TensorOptions(device).dtype(at::kDouble))),
      numbers_(at::zeros({2}, loss_sum_.options())),
      failed_(at::zeros({}, loss_sum_.options().dtype(at::kFloat))),
      make_(std::move(make)) {}

// Whether the next run is a graph's.
bool TrainingStep::is_graph(const Replayed& replayed) const {
  return make_ && (replayed.graph || (replayed.runs >= warm_up && graphs_ < most_graphs));
}

// The batch where the model is: where the graph reads, if there is one.
const Batch& TrainingStep::load(const Batch& batch, Replayed& replayed) {
  if (!is_graph(replayed)) return on_gpu() ? loaded_ = to_device(batch, device_) : batch;
  Batch& fixed = replayed.batch;
  if (!fixed.input.defined()) return fixed = to_device(batch, device_);
  fixed.input.copy_(batch.input, /*non_blocking=*/true);
  fixed.target.copy_(batch.target, /*non_blocking=*/true);
  if (fixed.lengths) fixed.lengths->copy_(*batch.lengths, /*non_blocking=*/true);
  return fixed;
}

void TrainingStep::play(Replayed& replayed, const std::function<void()>& work) {
  if (!is_graph(replayed)) {
    ++replayed.runs;
    return work();
  }
  if (!replayed.graph) {
    auto graph = make_(beside_);
    try {
      graph->capture(work);
    } catch (const c10::Error& error) {
      // Too little memory, or an operator that waits for the device; every step then costs its launches.
      const std::string message = without_operation(error.what_without_backtrace());
      std::cerr << "rtf train: steps run without a CUDA graph: " << message.substr(0, message.find('\n')) << "\n";
      graph.reset();
      give_up_graphs();
      return work();
    }
    replayed.graph = std::move(graph);
    if (!beside_) beside_ = replayed.graph.get();
    ++graphs_;
  }
  const Profile::Scope scope(profile_, Part::device);
  replayed.graph->replay();
}

// Their memory is the device's again when the last of them is gone.
void TrainingStep::give_up_graphs() {
  synchronize(device_);
  for (auto& [shape, replayed] : whole_) replayed.graph.reset();
  last_.graph.reset();
  beside_ = nullptr;
  graphs_ = 0;
  make_ = nullptr;
}

void TrainingStep::backward(const at::Tensor& loss) {
  const Profile::Scope scope(profile_, part(Part::backward));
  const int64_t count = config_.accumulate;
  if (count > 1) {
    loss_sum_.add_(loss.detach());
  } else {
    numbers_[0].copy_(loss.detach());
  }
  (count > 1 ? loss / static_cast<double>(count) : loss).backward();
}

void TrainingStep::forward_backward(const Batch& batch) {
  at::Tensor loss;
  {
    const Profile::Scope scope(profile_, part(Part::forward));
    loss = task_.loss(model_->forward(batch.input, batch.lengths), batch);
  }
  backward(loss);
}

// Few operations: each is a launch, and with small models they count.
void TrainingStep::finish() {
  const Profile::Scope scope(profile_, part(Part::optimizer));
  const at::NoGradGuard no_grad;
  if (config_.accumulate > 1) {
    numbers_[0].copy_(loss_sum_ / static_cast<double>(config_.accumulate));
    loss_sum_.zero_();
  }
  at::Tensor norm = numbers_[1];
  optimizer_.gradient_norm(norm);
  // 0 times what is not finite is not 0.
  at::maximum_out(failed_, failed_, numbers_.sum().mul_(0).ne(0));
  optimizer_.update(norm, failed_);
}

void TrainingStep::queue(int64_t done, int64_t epoch, double lr) {
  Pending pending{{done + 1, epoch, lr}, {}, {}};
  if (on_gpu()) {
    pending.numbers = at::empty({2}, at::TensorOptions().dtype(at::kDouble).pinned_memory(true));
    pending.numbers.copy_(numbers_, /*non_blocking=*/true);
    pending.arrived.emplace(device_.type());
    pending.arrived->record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  } else {
    pending.numbers = numbers_.clone();
  }
  pending_.push_back(std::move(pending));
}

void TrainingStep::compute(int64_t done, std::span<const Batch> batches, bool update) {
  const auto count = static_cast<int64_t>(batches.size());
  // The gradients of one batch take the place of the last step's; those of several are added up.
  if (count > 1) optimizer_.zero_gradients();
  for (int64_t i = 0; i < count; ++i) {
    model_->set_generator(config_.seed, static_cast<uint64_t>(done * count + i));
    const Batch& given = batches[static_cast<std::size_t>(i)];
    Replayed& replayed = whole_[shape_of(given)];
    const Batch& batch = load(given, replayed);
    const auto work = [this, &batch, count, update] {
      if (count == 1) optimizer_.drop_gradients();
      forward_backward(batch);
      if (count == 1 && update) finish();
    };
    if (update) {
      play(replayed, work);
    } else {
      work();
    }
  }
  if (count > 1 && update) play(last_, [this] { finish(); });
}

void TrainingStep::gradients(int64_t done, std::span<const Batch> batches) {
  give_up_graphs();  // they hold the memory of a whole step
  compute(done, batches, false);
}

void TrainingStep::run(int64_t done, int64_t epoch, std::span<const Batch> batches) {
  const double lr = optimizer_.lr();
  optimizer_.begin_step();
  compute(done, batches, true);
  queue(done, epoch, lr);
}

void TrainingStep::run_chunk(int64_t done, int64_t epoch, const Batch& chunk, std::vector<at::Tensor>& states) {
  const double lr = optimizer_.lr();
  optimizer_.begin_step();
  model_->set_generator(config_.seed, static_cast<uint64_t>(done));
  at::Tensor loss;
  {
    const Profile::Scope scope(profile_, part(Part::forward));
    nn::ModelState state = model_->make_training_state(chunk.input.size(0));
    if (!states.empty()) state.states = states;
    loss = task_.loss(model_->prefill(chunk.input, state), chunk);
    states.clear();
    for (const at::Tensor& layer : state.states) states.push_back(layer.detach());
  }
  optimizer_.drop_gradients();
  backward(loss);
  finish();
  queue(done, epoch, lr);
}

std::optional<StepResult> TrainingStep::result(bool wait) {
  if (pending_.empty()) return {};
  Pending& first = pending_.front();
  if (first.arrived && !first.arrived->query()) {
    if (!wait && pending_.size() < most_pending) return {};
    const Profile::Scope scope(profile_, Part::device);
    first.arrived->synchronize();
  }
  StepResult result = first.result;
  result.loss = first.numbers[0].item<double>();
  result.gradient_norm = first.numbers[1].item<double>();
  pending_.pop_front();
  return result;
}

}  // namespace rtf::train
