// The trained layer as a training step runs it: Algorithm 1's kernel and the convolution, forward and backward, in
// float32.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "filters.h"
#include "rtf/rtf.h"

namespace rtf::bench {

enum class Pass { forward, forward_backward };

constexpr Pass passes[] = {Pass::forward, Pass::forward_backward};

inline const char* name(Pass pass) { return pass == Pass::forward ? "forward" : "forward_backward"; }

inline Pass pass_of(const std::string& text) {
  for (const Pass pass : passes)
    if (text == name(pass)) return pass;
  throw Error(ErrorCode::argument, "bench", "'" + text + "' is not a pass: forward, forward_backward");
}

// Holds all that a pass needs besides its input u and, for the backward pass, dy.
class Layer {
 public:
  Layer(TrainedTransferFunction trained_, std::size_t batch_, Pass pass_)
      : batch(batch_),
        length(trained_.length),
        channels(trained_.channels),
        pass(pass_),
        trained(std::move(trained_)),
        kernel_plan(channels, channels, trained.order, length),
        plan(batch, length, channels, length),
        kernel(channels * length),
        y(batch * length * channels) {
    Executor& executor = default_executor();
    std::size_t bytes = std::max(kernel_plan.workspace_bytes(executor), plan.workspace_bytes(executor));
    if (pass == Pass::forward_backward) {
      bytes = std::max(bytes, plan.vjp_workspace_bytes(executor));
      u_gradient.resize(y.size());
      kernel_gradient.resize(kernel.size());
      a_gradient.resize(trained.a.size());
      b_gradient.resize(trained.b.size());
      h0_gradient.resize(channels);
    }
    workspace = Workspace(bytes);
  }

  void run(const Samples& u, const Samples& y_gradient) {
    forward(u);
    if (pass == Pass::forward_backward) backward(u, y_gradient);
  }

  std::size_t batch, length, channels;
  Pass pass;
  TrainedTransferFunction trained;
  WrappedKernelPlan kernel_plan;
  ConvolutionPlan<float> plan;
  Samples kernel, y, u_gradient, kernel_gradient;
  std::vector<double> a_gradient, b_gradient, h0_gradient;
  Workspace workspace;

 private:
  template <class Vector>
  auto signal(Vector& values) const {
    return channels_last(values.data(), batch, length, channels);
  }

  void forward(const Samples& u) {
    wrapped_kernel<float>(kernel_plan, trained, kernel, workspace, default_executor());
    convolve(plan, signal(u), kernel, signal(y), {}, workspace, default_executor());
  }

  void backward(const Samples& u, const Samples& y_gradient) {
    convolve_vjp(plan, signal(u), kernel, signal(y_gradient), signal(u_gradient), kernel_gradient, {}, workspace,
                 default_executor());
    wrapped_kernel_vjp<float>(kernel_plan, trained, kernel_gradient, a_gradient, b_gradient, h0_gradient, workspace,
                              default_executor());
  }
};

}  // namespace rtf::bench
