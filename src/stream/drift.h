// What float32 makes of a recurrence that runs on and on.
#pragma once

#include <cstddef>
#include <vector>

#include "rtf/executor.h"
#include "rtf/model_file.h"
#include "rtf/transfer_function.h"

namespace rtf {

// The inputs that find the drift of a layer: a constant, waves at the angles where its poles ring, and noise, each for
// as long as the slowest pole needs to settle. docs/toolbox-math.md, section 17, says why these.
class DriftProbe {
 public:
  DriftProbe(const TransferFunction& tf, Executor& executor);

  // What one rounding of a number in float32 does to the slowest pole's answer in the long run: 2^-24 / (1 - radius).
  double of_one_rounding() const;
  // The largest difference, over the largest value, between a float32 realization of the layer as the runtime runs it
  // and its companion form in double; of the worst input and channel.
  double measure(const Realization& narrow, Executor& executor) const;

 private:
  struct Channel {
    double radius = 0;             // of the slowest pole
    double slowest = 0, peak = 0;  // angles: of that pole, and of the pole where |1/A| is largest
  };
  double measure(const Realization& narrow, std::size_t first, std::size_t count) const;

  const TransferFunction& tf_;
  std::vector<Channel> channels_;
};

}  // namespace rtf
