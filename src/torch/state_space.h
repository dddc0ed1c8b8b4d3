// What the layers share: the checks of their input, pole reports, and of the baselines the first values, the steps
// between samples, and the scan of a diagonal recurrence.
#pragma once

#include <ATen/core/Tensor.h>

#include "rtf_torch/baselines.h"

namespace rtf::nn {

// u as the convolution reads it: zero past the lengths.
at::Tensor cut(const at::Tensor& u, const at::Tensor& lengths);

// Of denominators a (rows, order), of at most `most` rows evenly spread.
PoleReport report_poles(const at::Tensor& denominators, int64_t length, int64_t most);

// What is drawn for one layer, each from a seed of its own: of RTF, then of the baselines.
enum class Draw : uint32_t { coefficients, free_numbers, sigma, step = 16, input, output, skip = 20, denominator };
uint64_t draw_seed(const LayerOptions& sizes, Draw draw);

// float64 of this shape.
at::Tensor draw_normal(const LayerOptions& sizes, Draw draw, at::IntArrayRef shape);
at::Tensor draw_uniform(const LayerOptions& sizes, Draw draw, at::IntArrayRef shape);
// N(0, 1) cut off at two deviations, scaled to variance 1.
at::Tensor draw_truncated(const LayerOptions& sizes, Draw draw, at::IntArrayRef shape);

// Complex numbers as parameters are stored, (..., 2) real, and as one computes with them, in complex128.
at::Tensor to_pairs(const at::Tensor& complex);
at::Tensor to_complex(const at::Tensor& pairs);

// The same for states and products of them, (..., 2 pairs) real, in the type they have.
at::Tensor to_real_state(const at::Tensor& complex);
at::Tensor to_complex_state(const at::Tensor& real);

// The diagonal of HiPPO-LegS without its rank-1 part: A + p p^T = V (-1/2 + i diag(frequencies)) V*, of which the
// order / 2 columns with negative frequencies, lowest first, are kept.
struct Legs {
  at::Tensor poles;     // (order / 2), complex128
  at::Tensor vectors;   // (order, order / 2); their phases make V* p real and positive
  at::Tensor input;     // V* b
  at::Tensor low_rank;  // V* p
};
Legs legs(int64_t order);

// Log-uniform in [dt_min, dt_max] as they are stored.
at::Tensor initial_steps(const LayerOptions& sizes, const BaselineOptions& options, int64_t count);
at::Tensor steps(const at::Tensor& dt, StepTransform transform);  // in float64

// Row r of (systems, ...) for every channel of group r: (channels, ...).
at::Tensor for_channels(const at::Tensor& systems, int64_t channels);

// x_t = exp(log_z) x_{t-1} + v_t along dimension 1, from x_{-1} = 0: inclusive, by doubling.
at::Tensor scan(const at::Tensor& v, const at::Tensor& log_z);
// Samples that are scanned at once.
constexpr int64_t scan_chunk = 256;

}  // namespace rtf::nn
