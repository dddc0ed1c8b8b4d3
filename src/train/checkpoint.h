// Checkpoints: everything from which a run goes on, bit for bit, as a safetensors file or in parts of one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "train/optimizer.h"
#include "train/run_folder.h"

namespace rtf::train {

// Where a run stands between two steps.
struct Position {
  int64_t step = 0;  // optimiser steps done
  int64_t epoch = 0;
  int64_t batch = 0;           // batches of the epoch that are used up
  int64_t chunk = 0;           // chunks of the next batch that are used up
  int64_t evaluated = -1;      // step of the last evaluation
  std::optional<double> best;  // value of the task's selection, and its step
  int64_t best_step = 0;
  double loss_sum = 0;  // of the training steps since the last row of metrics.csv, and how many
  int64_t loss_count = 0;
  double seconds = 0;  // spent so far
};

struct Checkpoint {
  Position position;
  std::map<std::string, std::string> config;  // fixed_settings() of the run
  // model.<name>, optimizer.<moment>.<name>, ema.<name>, carried.<layer>, evaluation.<split>
  NamedTensors tensors;
  std::map<std::string, std::string> shape;  // task_settings() of the model: who has no task can build it
  std::uint64_t evaluated_data = 0;  // Task::fingerprint() of what evaluation.<split> is of
};

// Writes latest_file, and the same as best_file when `best`. The latest that was there stays as previous_file: at every
// instant there is a whole file under one of the two names. That needs a latest that this process has read or written.
// On failure latest_file is as it was; best_file may be the new one, and previous_file the same as latest_file.
// A checkpoint of more than `part_size` bytes is written in parts of at most that size; 0: in one file.
void write_checkpoint(const std::string& folder, const Checkpoint& checkpoint, bool best, std::size_t part_size = 0);

// Makes `file`, which was read, the latest: what write_checkpoint() keeps as previous is then never a damaged one.
void make_latest(const std::string& folder, const std::string& file);

// Removes what a killed process left half-written.
void remove_temporaries(const std::string& folder);

// Refuses files that are cut short, damaged, or of another format version.
Checkpoint read_checkpoint(const std::string& path);

// Copies tensors of the file into `into` by name. Every name and shape must agree; `prefix` limits what is compared.
void load_tensors(const Checkpoint& checkpoint, const NamedTensors& into, const std::string& prefix,
                  const std::string& path);

}  // namespace rtf::train
