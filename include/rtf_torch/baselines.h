// The layers that RTF is compared with, in the same backbone: S4, S4D, S5 and SpaceTime.
#pragma once

#include "rtf_torch/layer.h"

namespace rtf::nn {

enum class LayerKind { rtf, s4, s4d, s5, spacetime };

enum class SystemInit {
  legs,                   // s4, s4d
  fourier,                // s4
  lin,                    // s4d
  inv,                    // s4d
  trunc_standard_normal,  // s5: of C, as are the next two
  lecun_normal,
  complex_normal,
  normal,  // spacetime
};
enum class StepTransform { softplus, exp };
enum class InitialStep {
  paper,    // the step is what was drawn
  release,  // what was drawn is stored as it is, and goes through the transform once more
};
enum class InitialC { normal, constant };  // constant: C selects the constant basis function
enum class Discretization { zoh, bilinear };

struct BaselineOptions {
  SystemInit init = SystemInit::legs;
  double dt_min = 0.001, dt_max = 0.1;  // s4, s4d, s5
  StepTransform dt_transform = StepTransform::softplus;
  InitialStep initial_step = InitialStep::paper;
  InitialC initial_c = InitialC::normal;                // s4
  Discretization discretization = Discretization::zoh;  // s4d
  int64_t rank = 1;                                     // s4
  int64_t blocks = 1;                                   // s5
  bool clip = false;                                    // s5: real parts of the poles at most -1e-4
  bool skip = true;                                     // y += d u
};

class BaselineImpl : public LayerImpl {
 public:
  BaselineImpl(const char* name, const LayerOptions& sizes, const BaselineOptions& options);
  LayerOptions& sizes() override { return sizes_; }

  at::Tensor forward(const at::Tensor& u, const std::optional<at::Tensor>& lengths = {},
                     const std::optional<at::Tensor>& generator = {}) override;
  at::Tensor zero_state(int64_t batch) const override;  // (batch, channels, order)
  // Step after step; layers that know better do better.
  std::tuple<at::Tensor, at::Tensor> prefill(const Realization& at, const at::Tensor& u,
                                             const at::Tensor& state) const override;
  void set_length(int64_t length) override;
  std::optional<PoleReport> poles(int64_t = 0) const override { return {}; }

  BaselineOptions options;
  at::Tensor d;  // (channels), with skip

 protected:
  int64_t directions() const { return sizes_.bidirectional ? 2 : 1; }
  void check_input(const at::Tensor& u) const;
  void check_length(int64_t length) const;
  void check_causal() const;
  at::Tensor feedthrough() const;  // d in float64, or zeros
  at::Tensor add_parameter(const char* name, const at::Tensor& values);
  // (directions * channels, length) -> kernel() with d at lag 0.
  at::Tensor finish_kernel(at::Tensor k) const;

  const char* name_;
  LayerOptions sizes_;
};

// Diagonal systems: x <- z x + b u, y = 2 Re(c x) + d u with the new x, over order / 2 pairs.
class S4DImpl : public BaselineImpl {
 public:
  S4DImpl(const LayerOptions& sizes, const BaselineOptions& options);
  at::Tensor kernel(int64_t length) const override;
  Realization realize() const override;  // log z, b, c, d
  std::tuple<at::Tensor, at::Tensor> prefill(const Realization& at, const at::Tensor& u,
                                             const at::Tensor& state) const override;
  std::tuple<at::Tensor, at::Tensor> step(const Realization& at, const at::Tensor& u,
                                          const at::Tensor& state) const override;

  at::Tensor a_real, a_imag;  // (systems, order / 2): log(-Re A), -Im A
  at::Tensor b;               // (systems, order / 2, 2)
  at::Tensor c;               // (directions, channels, order / 2, 2)
  at::Tensor dt;              // (channels)

 private:
  std::tuple<at::Tensor, at::Tensor> discretize() const;  // log z and b of every channel
};
TORCH_MODULE(S4D);

// A = diag(A) - P P*, bilinear. c is trained at `length` as C (I - A^length).
class S4Impl : public BaselineImpl {
 public:
  S4Impl(const LayerOptions& sizes, const BaselineOptions& options);
  at::Tensor kernel(int64_t length) const override;
  Realization realize() const override;
  std::tuple<at::Tensor, at::Tensor> step(const Realization& at, const at::Tensor& u,
                                          const at::Tensor& state) const override;
  void set_length(int64_t length) override;

  at::Tensor a_real, a_imag;  // (systems, order / 2): log(-Re A), -Im A
  at::Tensor b;               // (systems, order / 2, 2)
  at::Tensor p;               // (rank, systems, order / 2, 2)
  at::Tensor c;               // (directions, channels, order / 2, 2)
  at::Tensor dt;              // (channels)

 private:
  at::Tensor diagonal() const;
  // C (I - A^length), or C from it.
  at::Tensor wrapped(const at::Tensor& plain, int64_t length) const;
  at::Tensor plain(const at::Tensor& wrapped, int64_t length) const;
  at::Tensor wrapping(int64_t first, int64_t count, int64_t length) const;
};
TORCH_MODULE(S4);

// One system with `channels` inputs and outputs: a scan over its order / 2 pairs instead of a convolution.
class S5Impl : public BaselineImpl {
 public:
  S5Impl(const LayerOptions& sizes, const BaselineOptions& options);
  at::Tensor forward(const at::Tensor& u, const std::optional<at::Tensor>& lengths = {},
                     const std::optional<at::Tensor>& generator = {}) override;
  at::Tensor kernel(int64_t length) const override;     // (channels out, channels in, length); causal layers
  at::Tensor zero_state(int64_t batch) const override;  // (batch, order)
  Realization realize() const override;
  std::tuple<at::Tensor, at::Tensor> prefill(const Realization& at, const at::Tensor& u,
                                             const at::Tensor& state) const override;
  std::tuple<at::Tensor, at::Tensor> step(const Realization& at, const at::Tensor& u,
                                          const at::Tensor& state) const override;

  at::Tensor a_real, a_imag;  // (order / 2)
  at::Tensor b;               // (order / 2, channels, 2)
  at::Tensor c;               // (directions, channels, order / 2, 2)
  at::Tensor dt;              // (order / 2), logarithms

 private:
  std::tuple<at::Tensor, at::Tensor> discretize() const;  // log z and b
  std::tuple<at::Tensor, at::Tensor> run(const at::Tensor& u, const at::Tensor& state, const Realization& at,
                                         int64_t direction) const;
};
TORCH_MODULE(S5);

// Companion systems: y = c^T A^t b with the coefficients a / |a|_1 in the last column of A. As a rational function it
// is an RTF with a plain numerator, which is how it is computed.
class SpaceTimeImpl : public BaselineImpl {
 public:
  SpaceTimeImpl(const LayerOptions& sizes, const BaselineOptions& options);
  at::Tensor kernel(int64_t length) const override;
  Realization realize() const override;  // a, b, h0 of RTF
  std::tuple<at::Tensor, at::Tensor> prefill(const Realization& at, const at::Tensor& u,
                                             const at::Tensor& state) const override;
  std::tuple<at::Tensor, at::Tensor> step(const Realization& at, const at::Tensor& u,
                                          const at::Tensor& state) const override;
  std::optional<PoleReport> poles(int64_t most = 0) const override;

  at::Tensor a, b, c;  // (directions * systems, order)

 private:
  Realization rational() const;  // of every system
};
TORCH_MODULE(SpaceTime);

}  // namespace rtf::nn
