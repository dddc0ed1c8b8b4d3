// The operators of torch.ops.rtf, as C++ functions with autograd. Logical order (batch, length, channels), any strides.
//
// Samples are float32, float64 or bfloat16 (arithmetic in float32); coefficients a (denominators, order),
// b (channels, order), h0 (channels) of any of these; states (batch, channels, order) are float64 whatever the samples.
// `lengths` (batch), int64: samples from lengths[s] on are read as zero. `offsets` (sequences + 1), int64: u has batch
// 1 and holds sequence s in [offsets[s], offsets[s + 1]) of its length, each on its own.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace rtf::ops {

using at::Tensor;
using OptionalTensor = std::optional<at::Tensor>;

// Algorithm 1: the wrapped kernel of a numerator trained at `length`, (channels, length).
Tensor kernel(const Tensor& a, const Tensor& b, const Tensor& h0, c10::SymInt length);

// convolve() with the kernel() of a, b and h0, twice as many rows of each when bidirectional, and that kernel, without
// a gradient: one node of autograd. Without b, a holds the denominators and then a numerator for each entry of h0.
std::tuple<Tensor, Tensor> wrapped_convolve(const Tensor& u, const Tensor& a, const OptionalTensor& b, const Tensor& h0,
                                            c10::SymInt length, bool bidirectional = false,
                                            const OptionalTensor& lengths = {});

// The first `length` samples of the impulse response of a plain numerator, (channels, length).
Tensor exact_kernel(const Tensor& a, const Tensor& b, const Tensor& h0, c10::SymInt length);

// Kernels of diagonal systems, (rows, length), real: 2 Re sum_j c_j z_j^t over the pairs of (rows, pairs), both
// complex. In double, or on the GPU in the type of c; log_z in complex128 keeps the digits of large powers.
Tensor vandermonde(const Tensor& c, const Tensor& log_z, c10::SymInt length);

// sum_j v_j / (i s - l_j) + conj(v_j) / (i s - conj(l_j)) at every point s: v (rows, sums, pairs), poles l (rows,
// pairs), points (points), result (rows, sums, points).
Tensor cauchy(const Tensor& v, const Tensor& poles, const Tensor& points);

// kernel is (channels, samples), or (2, channels, samples) when bidirectional: forward, then backward.
Tensor convolve(const Tensor& u, const Tensor& kernel, bool bidirectional = false, const OptionalTensor& lengths = {},
                const OptionalTensor& offsets = {});

// y and the final state of a plain numerator's recurrence, from initial_state or zero. With lengths the state of
// sequence s is the one after its lengths[s] samples, and y past them is 0.
std::tuple<Tensor, Tensor> filter(const Tensor& u, const Tensor& a, const Tensor& b, const Tensor& h0,
                                  const OptionalTensor& initial_state = {}, const OptionalTensor& lengths = {},
                                  const OptionalTensor& offsets = {});

// One sample: u, y (batch, channels); y and the next state.
std::tuple<Tensor, Tensor> step(const Tensor& u, const Tensor& a, const Tensor& b, const Tensor& h0,
                                const Tensor& state);

// filter() under the name that goes with step(): a prompt at once.
std::tuple<Tensor, Tensor> prefill(const Tensor& u, const Tensor& a, const Tensor& b, const Tensor& h0,
                                   const OptionalTensor& state = {}, const OptionalTensor& lengths = {});

// scipy.signal.lfilter(b, a, x, zi=zi) along the last dimension of x (..., length): y and, with return_zf, the final
// state in SciPy's transposed form, float64 (..., order). Coefficients (coefficients) for all rows, or (channels,
// coefficients) for x (..., channels, length). With h0 they start at a_1 and b_1: H = h0 + (b_1 w + ...) / (1 + a_1 w +
// ...).
std::tuple<Tensor, Tensor> lfilter(const Tensor& x, const Tensor& a, const Tensor& b, const OptionalTensor& h0 = {},
                                   const OptionalTensor& zi = {}, bool return_zf = false);

// H at angles in radians a sample, complex128 (angles) or (channels, angles), and its delay -d arg H / d angle in
// samples. Coefficients as in lfilter().
Tensor freqz(const Tensor& a, const Tensor& b, const OptionalTensor& h0, const Tensor& angles);
Tensor group_delay(const Tensor& a, const Tensor& b, const OptionalTensor& h0, const Tensor& angles);

// Trained numerator at `length` -> plain numerator (b, h0), and back. float64 in and out keeps the digits.
std::tuple<Tensor, Tensor> correct(const Tensor& a, const Tensor& b, const Tensor& h0, c10::SymInt length);
std::tuple<Tensor, Tensor> wrap(const Tensor& a, const Tensor& b, const Tensor& h0, c10::SymInt length);

// Release form of the Montel constraint, row by row: alpha (denominators, order), sigma (denominators).
Tensor montel(const Tensor& alpha, const Tensor& sigma);
// Paper form: alpha (denominators, order + 1).
Tensor montel_paper(const Tensor& alpha);

// x * mask / (1 - p), the mask drawn from Philox at (seed, step) = generator, an int64 tensor of two, and `layer`.
// tied: one draw for each (batch, channel), the same at every position.
Tensor dropout(const Tensor& x, double p, const Tensor& generator, int64_t layer, bool tied = false);

// dropout(GELU(x)) and residual + dropout(p * sigmoid(q)), z + bias = (p, q) along the channels, in one pass each;
// p = 0 drops nothing. y of glu has the type of the residual where there is one.
Tensor gelu(const Tensor& x, double p, const Tensor& generator, int64_t layer, bool tied = false);
Tensor glu(const Tensor& z, const OptionalTensor& residual, double p, const Tensor& generator, int64_t layer,
           bool tied = false, const OptionalTensor& bias = {});

// y with the statistics of all positions, and these: mean and biased variance, float64 (channels). Running averages
// move on by `momentum` of the mean and the unbiased variance. y is of `dtype`: that of x, or bfloat16.
std::tuple<Tensor, Tensor, Tensor> batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                              double eps = 1e-5, const OptionalTensor& running_mean = {},
                                              const OptionalTensor& running_var = {}, double momentum = 0.1,
                                              std::optional<at::ScalarType> dtype = {});
// Gradients to x, weight and bias. more_dy is added to dy and more_dx to the gradient of x, in the same pass.
std::tuple<Tensor, Tensor, Tensor> batch_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight,
                                                       const Tensor& mean, const Tensor& variance, double eps = 1e-5,
                                                       const OptionalTensor& more_dy = {},
                                                       const OptionalTensor& more_dx = {});

// y over the channels of each position, and mean and 1 / sqrt(variance + eps) of each, (...).
std::tuple<Tensor, Tensor, Tensor> layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                              double eps = 1e-5, std::optional<at::ScalarType> dtype = {});
std::tuple<Tensor, Tensor, Tensor> layer_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight,
                                                       const Tensor& mean, const Tensor& inverse,
                                                       const OptionalTensor& more_dx = {});

// Rows of `weight` (vocabulary, channels) at tokens (batch, length), int64: (batch, length, channels).
Tensor embedding(const Tensor& tokens, const Tensor& weight);

// x weight + bias: numbers (batch, length) spread over channels, weight and bias (channels).
Tensor spread(const Tensor& x, const Tensor& weight, const Tensor& bias);

}  // namespace rtf::ops
