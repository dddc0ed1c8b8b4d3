// Training: from a config, or from where a run's checkpoint stands, to the end.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "train/batch_stream.h"
#include "train/checkpoint.h"
#include "train/evaluation.h"
#include "train/optimizer.h"
#include "train/plan.h"
#include "train/profile.h"
#include "train/run_folder.h"
#include "train/task.h"
#include "train/training_step.h"

namespace rtf::train {

class Recorder;

class Trainer {
 public:
  // Checks everything that can be wrong before the first step. `task` takes the place of the one that the config names.
  explicit Trainer(const Config& config, std::unique_ptr<Task> task = nullptr);
  ~Trainer();

  // As given, with what it left to the trainer filled in.
  const Config& config() const { return config_; }
  const Task& task() const { return *task_; }
  const Position& position() const { return position_; }
  int64_t total_steps() const { return plan_.steps; }
  nn::SequenceModel model() const { return model_; }
  const Profile& profile() const { return profile_; }

  // Refuses the checkpoint of another config.
  void restore(const std::string& checkpoint);

  // Trains until the end, or until `stop` says so after a step; true at the end. Checkpoints go to `folder`.
  bool run(const RunFolder& folder, Recorder& recorder, const std::function<bool()>& stop);

 private:
  bool is_over() const;
  Batch make_batch(int64_t index);  // counted over the epochs
  Batch next_batch();
  void train_step(Recorder& recorder);
  void whole_step();
  void chunk_step();
  void book(Recorder& recorder, bool all);
  [[noreturn]] void stop_at_result(const StepResult& result);
  void require_possible(const Position& position, const std::string& path) const;
  [[noreturn]] void stop_at(int64_t step, const std::string& why, bool with_gradients = true) const;
  template <class F>
  auto stop_when_refused(int64_t step, F&& call) const;  // by one of our operators
  void finish_epoch(Recorder& recorder);
  void evaluate_splits(Recorder& recorder);
  void save(const RunFolder& folder, Recorder& recorder, RunState state);
  NamedTensors tensors() const;

  Config config_;
  c10::Device device_ = c10::kCPU;
  std::unique_ptr<Task> task_;
  nn::SequenceModel model_ = nullptr;
  std::unique_ptr<Optimizer> optimizer_;
  Plan plan_;
  Profile profile_;
  std::unique_ptr<TrainingStep> step_;

  Position position_;
  std::vector<at::Tensor> carried_;  // states of the layers, between chunks and between batches that continue
  std::map<Split, PartialEvaluation> evaluations_;  // of the evaluation that is under way
  std::vector<int64_t> order_;                      // of the samples of epoch order_epoch_; make_batch() alone uses it
  int64_t order_epoch_ = -1;
  Batch batch_;                            // whose chunks are being used, on the device
  bool saved_ = false, improved_ = false;  // `position_` is in a checkpoint; it is the best so far
  bool kept_ = false;                      // there is a checkpoint
  double seconds_before_ = 0;              // of earlier starts
  std::chrono::steady_clock::time_point begin_, last_save_;
  std::function<bool()> stop_;
  std::unique_ptr<BatchStream> batches_;  // the last, since its thread uses the others
};

}  // namespace rtf::train
