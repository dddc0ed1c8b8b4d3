// From the coefficients of a trained layer to the recurrence that a product runs.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rtf/conversion.h"
#include "rtf/executor.h"
#include "rtf/model_file.h"
#include "rtf/stabilize.h"
#include "rtf/transfer_function.h"

namespace rtf {

enum class RealizationChoice {
  automatic,  // the cheapest whose error is within the bound
  companion,
  sos,
  modal,
};

struct RealizeOptions {
  DataType precision = DataType::f32;
  RealizationChoice realization = RealizationChoice::automatic;
  std::optional<StabilizeMethod> stabilize;  // of a layer with poles on or outside the circle; none: it is refused
  double bound = 0;                          // 0: 1e-5 in float32, 1e-10 in float64
};

// One that was tried: its kernel, run in its own arithmetic, against the layer's in double.
struct RealizationTrial {
  std::string name;  // "companion", "sos" or "modal"
  DataType precision = DataType::f32;
  double error = 0;  // over the kernel's largest value, of the worst channel; infinite where it cannot be made
  // Of a float32 one that was near enough: how far it is off when it runs on, from the recurrence in double, over the
  // largest answer to a constant, to waves at its poles' angles and to noise.
  std::optional<double> drift;
};

struct Realized {
  LayerRealization layer;
  std::optional<double> drift;            // as its trial has it; none in float64
  std::vector<RealizationTrial> trials;   // in the order of cost
  std::optional<double> stabilize_error;  // of the kernel in l2, the worst channel, where poles were moved
};

// Errors are measured over `length` samples, drifts for as long as the slowest pole rings: they stay below 1e-3, or the
// bound where that is larger, however long the layer runs. What no form can hold in float32 runs in float64.
// Throws ErrorCode::unstable for a pole on or outside the circle, ErrorCode::unsupported when nothing holds the bound.
Realized realize(const TransferFunction& tf, std::size_t length, const RealizeOptions& options = {},
                 Executor& executor = default_executor());

// The kernel is Algorithm 1's: the numerator is corrected first.
Realized realize(const TrainedTransferFunction& trained, const RealizeOptions& options = {},
                 Executor& executor = default_executor());

// One channel each, as zpk or sos. Their coefficients where these are off by no more than a tenth of the bound; else
// their sections, in float64 whatever the precision: a narrow filter's factors fit doubles, its coefficients may not.
// Both are run on for as long as the slowest pole rings, up to 65,536 samples, or 2^20 of all channels: there they may be
// off by a fourth of what a drift may be.
Realized realize(std::span<const System> channels, std::size_t length, DataType precision,
                 Executor& executor = default_executor());

}  // namespace rtf
