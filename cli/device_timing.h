// Milliseconds of work on any device.
#pragma once

#include <c10/core/Device.h>

#include <cmath>
#include <cstdint>
#include <functional>

namespace rtf::cli {

struct TimingOptions {
  int64_t repeats = 75;   // stretches whose median counts
  int64_t warm_ups = 10;  // calls ahead of them; fewer where that would take longer than a tenth of `most_milliseconds`
  double most_milliseconds = HUGE_VAL;  // of measuring: fewer stretches, but three, where they would take longer
};

// Of one call: the median over stretches of calls that are long against waiting for the device. What it queues must be
// a graph's where launching costs as much as computing.
double median_milliseconds(c10::Device device, const TimingOptions& options, const std::function<void()>& call);

// The same, with `call` recorded as a graph on a GPU, as training runs it.
double median_milliseconds_of_graph(c10::Device device, const TimingOptions& options,
                                    const std::function<void()>& call);

}  // namespace rtf::cli
