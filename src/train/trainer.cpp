#include "train/trainer.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>

#include "rtf/error.h"
#include "train/model_setup.h"
#include "train/recorder.h"
#include "train/sample_order.h"
#include "train/stop_line.h"

namespace rtf::train {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t reported_denominators = 16;  // of a layer, in a pole report

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

[[noreturn]] void fail(const std::string& why, ErrorCode code = ErrorCode::argument) {
  throw Error(code, "train", why);
}

// The run was to stop during an evaluation.
struct Interrupted {};

}  // namespace

Trainer::Trainer(const Config& config, std::unique_ptr<Task> task) : config_(config), task_(std::move(task)) {
  device_ = set_up_torch(config_.train);
  if (!task_) task_ = make_task(config_, number_type(config_.train));
  plan_ = make_plan(config_, *task_);
  model_ = make_model(config_, *task_, device_);
  NamedTensors parameters, buffers;
  for (const auto& item : model_->named_parameters()) parameters.emplace_back(item.key(), item.value());
  for (const auto& item : model_->named_buffers()) buffers.emplace_back(item.key(), item.value());
  optimizer_ = std::make_unique<Optimizer>(parameters, buffers, config_.optimizer);
  step_ = std::make_unique<TrainingStep>(model_, *task_, *optimizer_, config_.train, device_, profile_,
                                         device_.is_cpu() ? MakeGraph() : make_graph);
  batches_ = std::make_unique<BatchStream>([this](int64_t index) { return make_batch(index); },
                                           config_.train.epochs * plan_.batches, ahead_for(device_));
}

Trainer::~Trainer() = default;

NamedTensors Trainer::tensors() const {
  NamedTensors all = model_tensors(model_);
  for (const auto& entry : optimizer_->state()) all.push_back(entry);
  for (std::size_t i = 0; i < carried_.size(); ++i) all.emplace_back("carried." + std::to_string(i), carried_[i]);
  for (const auto& [split, done] : evaluations_) {
    if (done.batches > 0) all.emplace_back(std::string("evaluation.") + name(split), done.tensor());
  }
  return all;
}

// Every position that training passes through, and no other: sizes of another data set, or a damaged number, would
// read past the epoch's samples.
void Trainer::require_possible(const Position& at, const std::string& path) const {
  const int64_t accumulate = config_.train.accumulate;
  const int64_t epoch = plan_.batches / accumulate * plan_.chunks,
                inside = at.batch / accumulate * plan_.chunks + at.chunk;
  const bool possible = at.epoch >= 0 && at.batch >= 0 && at.batch <= plan_.batches && at.batch % accumulate == 0 &&
                        at.chunk >= 0 && at.chunk < plan_.chunks && inside <= epoch && at.step >= inside &&
                        (at.step - inside) % epoch == 0 && (at.step - inside) / epoch == at.epoch;
  if (possible && at.loss_count >= 0 && at.evaluated <= at.step) return;
  fail(path + ": step " + std::to_string(at.step) + " at batch " + std::to_string(at.batch) + " of epoch " +
       std::to_string(at.epoch) + " is no position of this run, whose epochs have " + std::to_string(epoch) +
       " steps: the data are others, or the file is damaged");
}

void Trainer::restore(const std::string& path) {
  const Checkpoint checkpoint = read_checkpoint(path);
  const auto defaults = fixed_settings(Config());
  for (const auto& [key, value] : fixed_settings(config_)) {
    const auto saved = checkpoint.config.find(key);
    if (saved == checkpoint.config.end()) {
      // One from before there was such a key ran on what is its default.
      if (const auto initial = defaults.find(key); initial != defaults.end() && initial->second == value) continue;
      fail(path + ": it does not say its " + key);
    }
    if (saved->second != value) {
      fail(key + " is " + value + " in config.yaml, which was changed by hand, and " + saved->second + " in " + path +
           ": set it back, or start a new run");
    }
  }
  require_possible(checkpoint.position, path);
  for (const char* prefix : {"model.", "optimizer.", "ema."}) load_tensors(checkpoint, tensors(), prefix, path);
  carried_.clear();
  for (const auto& [key, tensor] : checkpoint.tensors) {
    for (const Split split : task_->splits()) {
      // Of other data it is worth nothing: the evaluation begins again.
      if (key == std::string("evaluation.") + name(split) && checkpoint.evaluated_data == task_->fingerprint()) {
        evaluations_[split] = PartialEvaluation::from(tensor, device_);
      }
    }
    // The map behind the file sorts 10 before 2.
    if (!key.starts_with("carried.")) continue;
    const auto layer = static_cast<std::size_t>(std::stoul(key.substr(8)));
    if (carried_.size() <= layer) carried_.resize(layer + 1);
    carried_[layer] = tensor.to(device_);
  }
  position_ = checkpoint.position;
  optimizer_->set_steps(position_.step);
  seconds_before_ = position_.seconds;
  saved_ = kept_ = true;
}

bool Trainer::is_over() const {
  if (position_.epoch >= config_.train.epochs) return true;
  return position_.batch < plan_.batches && position_.step >= plan_.steps;  // a finished epoch is evaluated first
}

Batch Trainer::make_batch(int64_t index) {
  const int64_t epoch = index / plan_.batches, size = config_.train.batch;
  if (order_epoch_ != epoch) {
    order_epoch_ = epoch;
    order_ = training_order(*task_, config_, epoch);
  }
  return task_->batch(Split::train, epoch,
                      {order_.data() + index % plan_.batches * size, static_cast<std::size_t>(size)});
}

Batch Trainer::next_batch() {
  const Profile::Scope scope(profile_, Part::data);
  return batches_->take(position_.epoch * plan_.batches + position_.batch++);
}

void Trainer::stop_at(int64_t step, const std::string& why, bool with_gradients) const {
  fail(stop_line(step, why, with_gradients ? optimizer_.get() : nullptr, model_) +
           (kept_ ? "; earlier checkpoints are kept" : ""),
       ErrorCode::unstable);
}

template <class F>
auto Trainer::stop_when_refused(int64_t step, F&& call) const {
  try {
    return call();
  } catch (const c10::Error& error) {
    const std::string message = error.what_without_backtrace(), plain = without_operation(message);
    if (plain == message) throw;  // none of our operators
    stop_at(step, plain);
  }
}

void Trainer::whole_step() {
  std::vector<Batch> batches;
  for (int64_t i = 0; i < config_.train.accumulate; ++i) batches.push_back(next_batch());
  step_->run(position_.step, position_.epoch, batches);
}

// Truncated back-propagation: the next chunk, from the states that the last one left.
void Trainer::chunk_step() {
  if (position_.chunk == 0 || !batch_.input.defined()) {
    batch_ = to_device(next_batch(), device_);
    --position_.batch;  // until its last chunk is used
    if (position_.chunk == 0 && !batch_.continues) carried_.clear();
  }
  const int64_t first = position_.chunk * plan_.chunk, length = std::min(plan_.chunk, batch_.input.size(1) - first);
  const Batch chunk{.input = batch_.input.narrow(1, first, length),
                    .target = batch_.target.narrow(1, first, length),
                    .lengths = {},
                    .continues = true};
  step_->run_chunk(position_.step, position_.epoch, chunk, carried_);
  if (++position_.chunk == plan_.chunks) {
    position_.chunk = 0;
    ++position_.batch;
  }
}

void Trainer::train_step(Recorder& recorder) {
  const Clock::time_point begin = Clock::now();
  saved_ = improved_ = false;
  evaluations_.clear();  // of other weights
  stop_when_refused(position_.step + 1, [&] { plan_.chunk > 0 ? chunk_step() : whole_step(); });
  ++position_.step;
  // The states of a chunk cannot be had again: its numbers are looked at before the next.
  book(recorder, plan_.chunk > 0);
  profile_.add_step(seconds_since(begin));
}

// Takes down the numbers of the steps that are done, of `all` steps if need be by waiting for them.
void Trainer::book(Recorder& recorder, bool all) {
  while (const std::optional<StepResult> result = step_->result(all)) {
    const auto& [step, epoch, lr, loss, gradient_norm] = *result;
    if (!std::isfinite(loss) || !std::isfinite(gradient_norm)) stop_at_result(*result);
    position_.loss_sum += loss;
    ++position_.loss_count;
    const Profile::Scope scope(profile_, Part::logging);
    recorder.step(step, epoch, loss);
    if (step % config_.log.every != 0) continue;
    recorder.train_row(step, epoch, position_.loss_sum / static_cast<double>(position_.loss_count), lr, gradient_norm);
    position_.loss_sum = 0;
    position_.loss_count = 0;
  }
}

void Trainer::stop_at_result(const StepResult& result) {
  const int64_t later = position_.step - result.step;
  position_.step = result.step - 1;
  bool with_gradients = true;
  // The steps since then have left the weights alone, but not the gradients.
  if (later > 0 || !step_->leaves_gradients()) {
    position_.batch -= (later + 1) * config_.train.accumulate;
    std::vector<Batch> batches;
    for (int64_t i = 0; i < config_.train.accumulate; ++i) batches.push_back(next_batch());
    try {
      step_->gradients(position_.step, batches);
    } catch (const c10::OutOfMemoryError&) {  // the step that failed is still the thing to tell
      with_gradients = false;
    }
  }
  stop_at(result.step,
          "the loss is " + number_text(result.loss) + ", the gradient's norm " + number_text(result.gradient_norm),
          with_gradients);
}

void Trainer::evaluate_splits(Recorder& recorder) {
  book(recorder, true);
  const Profile::Scope scope(profile_, Part::evaluation);
  const AveragedWeights averaged(*optimizer_);
  std::optional<double> selected;
  for (const Split split : task_->splits()) {
    if (split == Split::train) continue;
    // A run that is to stop does not wait for a long evaluation, and goes on with it later.
    const auto progress = [&] {
      saved_ = false;
      if (stop_()) throw Interrupted();
    };
    const int64_t batch = evaluation_batch(config_.train, *task_, split);
    const Score score = stop_when_refused(position_.step, [&] {
      return evaluate(model_, *task_, split, batch, Mode::convolution, evaluations_[split], progress).score;
    });
    if (!std::isfinite(score.loss)) {
      stop_at(position_.step, std::string("the ") + name(split) + " loss is " + number_text(score.loss));
    }
    recorder.evaluation(position_.step, position_.epoch, name(split), score.loss, score.metrics);
    if (split != Split::val) continue;
    const std::vector<std::string> metrics = task_->metrics();
    const auto chosen = std::find(metrics.begin(), metrics.end(), task_->selection());
    selected = chosen == metrics.end() ? score.loss : score.metrics[static_cast<std::size_t>(chosen - metrics.begin())];
  }
  evaluations_.clear();
  position_.evaluated = position_.step;
  saved_ = false;
  const std::optional<double>& best = position_.best;
  improved_ = selected && (!best || (task_->higher_is_better() ? *selected > *best : *selected < *best));
  if (!improved_) return;
  position_.best = selected;
  position_.best_step = position_.step;
}

void Trainer::finish_epoch(Recorder& recorder) {
  book(recorder, true);
  const int64_t done = position_.epoch + 1;
  const bool last = done == config_.train.epochs || position_.step >= plan_.steps;
  if (done % config_.train.eval_every == 0 || last) evaluate_splits(recorder);
  if (config_.log.poles_every > 0 && (done % config_.log.poles_every == 0 || last)) {
    const Profile::Scope scope(profile_, Part::logging);
    const std::vector<nn::PoleReport> reports = model_->poles(reported_denominators);
    for (std::size_t i = 0; i < reports.size(); ++i) {
      recorder.poles(position_.step, i, reports[i].radius, reports[i].min_abs_denominator, reports[i].unstable);
    }
  }
  position_.epoch = done;
  position_.batch = 0;
  saved_ = false;
}

void Trainer::save(const RunFolder& folder, Recorder& recorder, RunState state) {
  book(recorder, true);
  const Profile::Scope scope(profile_, Part::checkpoint);
  if (!saved_) {
    position_.seconds = seconds_before_ + seconds_since(begin_);
    const std::uint64_t evaluated_data = evaluations_.empty() ? 0 : task_->fingerprint();
    write_checkpoint(folder.checkpoints(),
                     {position_, fixed_settings(config_), tensors(), task_settings(model_->options), evaluated_data},
                     improved_, static_cast<std::size_t>(config_.checkpoint.part_size) << 20);
    last_save_ = Clock::now();
    saved_ = kept_ = true;
  }
  recorder.status(state, position_.step, position_.epoch, position_.seconds, position_.best);
}

bool Trainer::run(const RunFolder& folder, Recorder& recorder, const std::function<bool()>& stop) {
  begin_ = last_save_ = Clock::now();
  stop_ = stop;
  model_->train();
  recorder.status(RunState::running, position_.step, position_.epoch, seconds_before_, position_.best);
  try {
    while (!is_over()) {
      bool due = false;
      if (position_.batch < plan_.batches) {
        train_step(recorder);
        const CheckpointConfig& every = config_.checkpoint;
        due = (every.every_steps > 0 && position_.step % every.every_steps == 0) ||
              (every.every_minutes > 0 && seconds_since(last_save_) >= 60 * every.every_minutes);
      } else {
        finish_epoch(recorder);
        due = improved_;
      }
      if (stop()) {
        save(folder, recorder, RunState::interrupted);
        return false;
      }
      if (due) save(folder, recorder, RunState::running);
    }
    if (position_.evaluated != position_.step) evaluate_splits(recorder);  // train.steps ended it inside an epoch
    save(folder, recorder, RunState::finished);
    return true;
  } catch (const Interrupted&) {
    save(folder, recorder, RunState::interrupted);
    return false;
  } catch (...) {
    try {
      recorder.status(RunState::failed, position_.step, position_.epoch, seconds_before_ + seconds_since(begin_),
                      position_.best);
    } catch (const std::exception&) {  // the first failure is the one to tell
    }
    throw;
  }
}

}  // namespace rtf::train
