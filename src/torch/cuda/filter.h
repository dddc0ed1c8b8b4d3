// What both ways to filter on the GPU take: coefficients beside the samples, where the sequences lie, and the way for
// orders that chunks do not serve.
#pragma once

#include "torch/cuda/bridge.h"
#include "torch/dispatch.h"
#include "torch/filter.h"

namespace rtf::ops {

// a, b, h0 beside the samples, contiguous and of one type: float64 where the kernels ask for it, or where theirs
// differ.
struct Coefficients {
  Tensor a, b, h0;

  Coefficients(const char* operation, const Tensor& a_, const Tensor& b_, const Tensor& h0_, const Tensor& u,
               bool as_double = true) {
    check_coefficients(operation, a_, b_, h0_);
    compute_type(operation, u.scalar_type());
    check_device(operation, "a", a_, "u", u);
    check_device(operation, "b", b_, "u", u);
    check_device(operation, "h0", h0_, "u", u);
    const bool alike = a_.scalar_type() == b_.scalar_type() && b_.scalar_type() == h0_.scalar_type();
    const auto type = alike && !as_double ? a_.scalar_type() : at::kDouble;
    const auto values = [type](const Tensor& x) { return x.detach().to(type).contiguous(); };
    a = values(a_), b = values(b_), h0 = values(h0_);
  }
  Coefficients(Tensor a_, Tensor b_, Tensor h0_) : a(std::move(a_)), b(std::move(b_)), h0(std::move(h0_)) {}

  int64_t order() const { return b.size(1); }
  int64_t channels() const { return b.size(0); }
  Tensor each_a() const { return a.repeat_interleave(channels() / a.size(0), 0, channels()); }  // (channels, order)
  Coefficients without_gain() const { return {a, b, at::zeros_like(h0)}; }
};

// Where the sequences of u lie: at most one of the two is there. What comes on the host is checked; what is on the
// device already is not read back, and the kernels keep inside the signal whatever it holds.
struct Sequences {
  OptionalTensor lengths, offsets;
  int64_t count;
  bool cover = true;  // every sample is known to be one of a sequence's

  Sequences(const char* operation, const Tensor& u, const OptionalTensor& padded, const OptionalTensor& packed)
      : count(u.size(0)) {
    check_layout(operation, padded, packed);
    const auto on_device = [&](const char* what, const Tensor& indices) {
      TORCH_CHECK_VALUE(indices.dim() == 1 && at::isIntegralType(indices.scalar_type(), /*includeBool=*/false),
                        "[rtf::", operation, "] ", what, " has shape ", indices.sizes(), " and type ",
                        indices.scalar_type(), "; one dimension of integers is needed");
      return indices.to(u.device(), at::kLong).contiguous();
    };
    if (padded) {
      if (padded->is_cpu()) lengths_of(operation, padded, u.size(0), u.size(1));
      lengths = on_device("lengths", *padded);
      TORCH_CHECK_VALUE(lengths->size(0) == count, "[rtf::", operation, "] lengths has ", lengths->size(0),
                        " values; the batch has ", count, " sequences");
    }
    if (packed) {
      TORCH_CHECK_VALUE(u.size(0) == 1, "[rtf::", operation, "] a packed signal has batch ", u.size(0),
                        "; 1 is needed");
      if (packed->is_cpu()) offsets_of(operation, packed, u.size(1));
      cover = packed->is_cpu();
      offsets = on_device("offsets", *packed);
      TORCH_CHECK_VALUE(offsets->size(0) >= 2, "[rtf::", operation, "] offsets has ", offsets->size(0),
                        " values; at least 2 are needed");
      count = offsets->size(0) - 1;
    }
  }
};

// Null where there is none.
OptionalTensor state_of(const char* operation, const OptionalTensor& state, int64_t sequences, const Tensor& u,
                        const Tensor& b);

// By transforms in double, whatever the order; u has samples.
Pair filter_by_transforms(const Tensor& u, const Coefficients& c, const OptionalTensor& initial_state,
                          const OptionalTensor& lengths, const OptionalTensor& offsets);

struct FilterGradients {
  Tensor u, a, b, h0, state;  // in double, but for u; a of each channel
};
FilterGradients filter_backward_by_transforms(const Tensor& dy, const Tensor& dstate, const Tensor& u,
                                              const Coefficients& c, const OptionalTensor& initial_state,
                                              const OptionalTensor& lengths, const OptionalTensor& offsets);

}  // namespace rtf::ops
