// Checkpoints: everything from which a run goes on, bit for bit, in one safetensors file.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "train/optimizer.h"

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
  uint64_t seed = 0;
  NamedTensors tensors;  // model.<name>, optimizer.<moment>.<name>, ema.<name>, carried.<layer>
};

// The files of the folder checkpoints/.
inline constexpr const char* latest_file = "latest.safetensors";
inline constexpr const char* previous_file = "previous.safetensors";
inline constexpr const char* best_file = "best.safetensors";

// Writes latest_file, and the same as best_file when `best`. The latest that was there stays as previous_file: at every
// instant there is a whole file under one of the two names. On failure all are as they were.
void write_checkpoint(const std::string& folder, const Checkpoint& checkpoint, bool best);

// Removes what a killed process left half-written.
void remove_temporaries(const std::string& folder);

// Refuses files that are cut short, damaged, or of another format version.
Checkpoint read_checkpoint(const std::string& path);

// Copies tensors of the file into `into` by name. Every name and shape must agree; `prefix` limits what is compared.
void load_tensors(const Checkpoint& checkpoint, const NamedTensors& into, const std::string& prefix,
                  const std::string& path);

}  // namespace rtf::train
