// Checkpoints: everything from which a run goes on, bit for bit, in one safetensors file.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "train/optimizer.h"

namespace rtf::train {

struct Checkpoint {
  // Where the run stands: optimiser steps done, the epoch, and what of it has been used.
  int64_t step = 0;
  int64_t epoch = 0;
  int64_t position = 0;        // batches of the epoch
  int64_t chunk = 0;           // chunks of the next batch
  uint64_t seed = 0;
  std::optional<double> best;  // value of the task's selection
  int64_t best_step = 0;
  double loss_sum = 0;         // of the training steps since the last row of metrics.csv, and how many
  int64_t loss_count = 0;
  double seconds = 0;          // spent training
  NamedTensors tensors;        // model.<name>, optimizer.<moment>.<name>, ema.<name>, state.<layer>
};

// `path` is checkpoints/latest.safetensors. The one that was there stays as previous.safetensors beside it: at every
// instant there is a whole file under one of the two names. On failure both are as they were.
void write_checkpoint(const std::string& path, const Checkpoint& checkpoint);

// `path` stays the same file under a second name, which appears at once.
void keep_checkpoint(const std::string& path, const std::string& name);

// Refuses files that are cut short, damaged, or of another format version.
Checkpoint read_checkpoint(const std::string& path);

// Copies tensors of the file into `into` by name. Every name and shape must agree; `prefix` limits what is compared.
void load_tensors(const Checkpoint& checkpoint, const NamedTensors& into, const std::string& prefix,
                  const std::string& path);

}  // namespace rtf::train
