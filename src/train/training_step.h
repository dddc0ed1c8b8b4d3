// One step of the optimiser on any device: forward, backward, norm, clipping, AdamW. On a GPU it is queued without
// waiting, as a graph after the first steps, and its numbers come later.
#pragma once

#include <c10/core/Event.h>

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>

#include "train/device.h"
#include "train/optimizer.h"
#include "train/profile.h"
#include "train/task.h"

namespace rtf::train {

struct StepResult {
  int64_t step = 0, epoch = 0;  // `step` counts from 1
  double lr = 0, loss = 0, gradient_norm = 0;
};

// Makes a graph that shares the memory of the given one; tests put others in its place.
using MakeGraph = std::function<std::unique_ptr<DeviceGraph>(const DeviceGraph* beside)>;

class TrainingStep {
 public:
  // All of them outlive it. Without `make`, no step becomes a graph.
  TrainingStep(nn::SequenceModel model, const Task& task, Optimizer& optimizer, const TrainConfig& config,
               c10::Device device, Profile& profile, MakeGraph make);

  // Queues the step after `done` steps, over train.accumulate batches. From the first step on whose loss or gradient is
  // not finite, the weights stay as they are.
  void run(int64_t done, int64_t epoch, std::span<const Batch> batches);
  // The same for one chunk, from `states`, which become those that it leaves; empty: from zero.
  void run_chunk(int64_t done, int64_t epoch, const Batch& chunk, std::vector<at::Tensor>& states);
  // The gradients alone, in the parameters. Graphs are given up for it.
  void gradients(int64_t done, std::span<const Batch> batches);
  // Whether a step leaves its gradients in the parameters: those of graphs lie in memory that the next one uses.
  bool leaves_gradients() const { return graphs_ == 0; }

  // The numbers of the first step whose numbers were not asked for yet. None while the device is behind, unless `wait`
  // or many steps are queued; none when there is no such step.
  std::optional<StepResult> result(bool wait);

 private:
  // Work that becomes a graph.
  struct Replayed {
    int64_t runs = 0;  // before it
    Batch batch;       // where it reads
    std::unique_ptr<DeviceGraph> graph;
  };

  bool on_gpu() const { return !device_.is_cpu(); }
  Part part(Part of_cpu) const { return on_gpu() ? Part::device : of_cpu; }
  bool is_graph(const Replayed& replayed) const;
  void play(Replayed& replayed, const std::function<void()>& work);
  const Batch& load(const Batch& batch, Replayed& replayed);
  void compute(int64_t done, std::span<const Batch> batches, bool update);
  void forward_backward(const Batch& batch);
  void backward(const at::Tensor& loss);
  void finish();
  void queue(int64_t done, int64_t epoch, double lr);
  void give_up_graphs();

  nn::SequenceModel model_;
  const Task& task_;
  Optimizer& optimizer_;
  const TrainConfig& config_;
  c10::Device device_;
  Profile& profile_;

  at::Tensor loss_sum_;                             // over the batches of the step
  at::Tensor numbers_;                              // loss and gradient norm, float64
  at::Tensor failed_;                               // 1 once they were not finite
  Batch loaded_;                                    // on the device, where no graph reads it
  std::map<std::vector<int64_t>, Replayed> whole_;  // the step, by the shape of the batch
  Replayed last_;                                   // what follows several batches
  const DeviceGraph* beside_ = nullptr;             // whose memory all others share
  std::size_t graphs_ = 0;
  MakeGraph make_;  // none: steps are not recorded, or no longer

  struct Pending {
    StepResult result;
    at::Tensor numbers;  // on the host
    std::optional<c10::Event> arrived;
  };
  std::deque<Pending> pending_;
};

}  // namespace rtf::train
