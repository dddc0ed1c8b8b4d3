// torch.ops.rtf: the schemas, and the C++ functions that call through the dispatcher.
#include <torch/library.h>

#include "rtf_torch/operators.h"
#include "torch/dispatch.h"

TORCH_LIBRARY(rtf, m) {
  m.def("kernel(Tensor a, Tensor b, Tensor h0, SymInt length) -> Tensor");
  m.def("kernel_backward(Tensor dk, Tensor a, Tensor b, Tensor h0) -> (Tensor, Tensor, Tensor)");
  m.def("exact_kernel(Tensor a, Tensor b, Tensor h0, SymInt length) -> Tensor");
  m.def("exact_kernel_backward(Tensor dk, Tensor a, Tensor b, Tensor h0) -> (Tensor, Tensor, Tensor)");
  m.def("vandermonde(Tensor c, Tensor log_z, SymInt length) -> Tensor");
  m.def("vandermonde_backward(Tensor dk, Tensor c, Tensor log_z) -> (Tensor, Tensor)");
  m.def("cauchy(Tensor v, Tensor poles, Tensor points) -> Tensor");
  m.def("cauchy_backward(Tensor dy, Tensor v, Tensor poles, Tensor points) -> (Tensor, Tensor)");
  m.def(
      "convolve(Tensor u, Tensor kernel, bool bidirectional=False, *, Tensor? lengths=None, Tensor? offsets=None) -> "
      "Tensor");
  m.def(
      "convolve_backward(Tensor dy, Tensor u, Tensor kernel, bool bidirectional=False, *, Tensor? lengths=None, "
      "Tensor? offsets=None) -> (Tensor, Tensor)");
  m.def(
      "wrapped_convolve(Tensor u, Tensor a, Tensor? b, Tensor h0, SymInt length, bool bidirectional=False, *, Tensor? "
      "lengths=None) -> (Tensor, Tensor)");
  m.def(
      "wrapped_convolve_backward(Tensor dy, Tensor u, Tensor a, Tensor? b, Tensor h0, Tensor k, bool "
      "bidirectional=False, *, Tensor? lengths=None, bool contiguous=False) -> (Tensor, Tensor, Tensor, Tensor)");
  m.def(
      "wrapped_convolve_rows(Tensor u, Tensor a, Tensor? b, Tensor h0, SymInt length, bool bidirectional=False, *, "
      "Tensor? lengths=None) -> (Tensor, Tensor, Tensor)");
  m.def(
      "filter(Tensor u, Tensor a, Tensor b, Tensor h0, Tensor? initial_state=None, *, Tensor? lengths=None, "
      "Tensor? offsets=None) -> (Tensor, Tensor)");
  m.def(
      "filter_backward(Tensor dy, Tensor? dstate, Tensor u, Tensor a, Tensor b, Tensor h0, Tensor? initial_state=None, "
      "*, Tensor? lengths=None, Tensor? offsets=None) -> (Tensor, Tensor, Tensor, Tensor, Tensor)");
  m.def("largest_chunked_order(Tensor u) -> int");
  m.def("step(Tensor u, Tensor a, Tensor b, Tensor h0, Tensor state) -> (Tensor, Tensor)");
  m.def(
      "prefill(Tensor u, Tensor a, Tensor b, Tensor h0, Tensor? state=None, *, Tensor? lengths=None) -> (Tensor, "
      "Tensor)");
  m.def(
      "lfilter(Tensor x, Tensor a, Tensor b, Tensor? h0=None, Tensor? zi=None, bool return_zf=False) -> (Tensor, "
      "Tensor)");
  m.def(
      "transposed_filter(Tensor u, Tensor a, Tensor b, Tensor h0, Tensor? zi=None, bool return_zf=True) -> "
      "(Tensor, Tensor)");
  m.def("rational(Tensor a, Tensor b, Tensor? h0=None) -> (Tensor, Tensor, Tensor)");
  m.def("monic(Tensor a, Tensor b, SymInt channels) -> (Tensor, Tensor, Tensor)");
  m.def("monic_backward(Tensor da, Tensor db, Tensor dh0, Tensor a, Tensor b) -> (Tensor, Tensor)");
  m.def("freqz(Tensor a, Tensor b, Tensor? h0, Tensor angles) -> Tensor");
  m.def("group_delay(Tensor a, Tensor b, Tensor? h0, Tensor angles) -> Tensor");
  m.def("correct(Tensor a, Tensor b, Tensor h0, SymInt length) -> (Tensor, Tensor)");
  m.def(
      "correct_backward(Tensor db, Tensor dh0, Tensor a, Tensor b, Tensor h0, SymInt length) -> (Tensor, Tensor, "
      "Tensor)");
  m.def("wrap(Tensor a, Tensor b, Tensor h0, SymInt length) -> (Tensor, Tensor)");
  m.def(
      "wrap_backward(Tensor db, Tensor dh0, Tensor a, Tensor b, Tensor h0, SymInt length) -> (Tensor, Tensor, Tensor)");
  m.def("montel(Tensor alpha, Tensor sigma) -> Tensor");
  m.def("montel_paper(Tensor alpha) -> Tensor");
  m.def("release_numerator(Tensor a, Tensor b, int length) -> Tensor");
  m.def("release_convolve(Tensor u, Tensor kernel) -> Tensor");
  m.def("dropout(Tensor x, float p, Tensor generator, int layer, bool tied=False) -> Tensor");
  m.def("gelu(Tensor x, float p, Tensor generator, int layer, bool tied=False) -> Tensor");
  m.def("gelu_backward(Tensor dy, Tensor x, float p, Tensor generator, int layer, bool tied=False) -> Tensor");
  m.def(
      "glu(Tensor z, Tensor? residual, float p, Tensor generator, int layer, bool tied=False, *, Tensor? bias=None) -> "
      "Tensor");
  m.def(
      "glu_backward(Tensor dy, Tensor z, float p, Tensor generator, int layer, bool tied=False, *, Tensor? bias=None) "
      "-> "
      "(Tensor, Tensor)");
  m.def(
      "gate(Tensor y, Tensor weight, Tensor bias, float p, Tensor generator, int layer, bool tied=False) -> (Tensor, "
      "Tensor, Tensor)");
  m.def(
      "gate_backward(Tensor dout, Tensor y, Tensor weight, Tensor bias, Tensor g, Tensor z, float p, Tensor generator, "
      "int layer, bool tied=False) -> (Tensor, Tensor, Tensor)");
  m.def("length_last(Tensor x) -> Tensor");
  m.def("channels_last(Tensor x) -> Tensor");
  m.def(
      "batch_norm(Tensor x, Tensor weight, Tensor bias, float eps=1e-05, *, Tensor(a!)? running_mean=None, "
      "Tensor(b!)? running_var=None, float momentum=0.1, ScalarType? dtype=None) -> (Tensor, Tensor, Tensor)");
  m.def(
      "batch_norm_backward(Tensor dy, Tensor x, Tensor weight, Tensor mean, Tensor variance, float eps=1e-05, *, "
      "Tensor? more_dy=None, Tensor? more_dx=None) -> (Tensor, Tensor, Tensor)");
  m.def(
      "layer_norm(Tensor x, Tensor weight, Tensor bias, float eps=1e-05, *, ScalarType? dtype=None) -> (Tensor, "
      "Tensor, "
      "Tensor)");
  m.def(
      "layer_norm_backward(Tensor dy, Tensor x, Tensor weight, Tensor mean, Tensor inverse, *, Tensor? more_dx=None) "
      "-> "
      "(Tensor, Tensor, Tensor)");
  m.def("embedding(Tensor tokens, Tensor weight) -> Tensor");
  m.def("embedding_backward(Tensor dy, Tensor tokens, SymInt vocabulary) -> Tensor");
  m.def("spread(Tensor x, Tensor weight, Tensor bias) -> Tensor");
  m.def("spread_backward(Tensor dy, Tensor x, Tensor weight, bool want_dx=True) -> (Tensor, Tensor, Tensor)");
}

namespace rtf::ops {

Tensor kernel(const Tensor& a, const Tensor& b, const Tensor& h0, c10::SymInt length) {
  RTF_OPERATOR("kernel", Tensor, const Tensor&, const Tensor&, const Tensor&, c10::SymInt);
  return op.call(a, b, h0, std::move(length));
}

Tensor exact_kernel(const Tensor& a, const Tensor& b, const Tensor& h0, c10::SymInt length) {
  RTF_OPERATOR("exact_kernel", Tensor, const Tensor&, const Tensor&, const Tensor&, c10::SymInt);
  return op.call(a, b, h0, std::move(length));
}

Tensor vandermonde(const Tensor& c, const Tensor& log_z, c10::SymInt length) {
  RTF_OPERATOR("vandermonde", Tensor, const Tensor&, const Tensor&, c10::SymInt);
  return op.call(c, log_z, std::move(length));
}

Tensor cauchy(const Tensor& v, const Tensor& poles, const Tensor& points) {
  RTF_OPERATOR("cauchy", Tensor, const Tensor&, const Tensor&, const Tensor&);
  return op.call(v, poles, points);
}

Tensor convolve(const Tensor& u, const Tensor& kernel, bool bidirectional, const OptionalTensor& lengths,
                const OptionalTensor& offsets) {
  RTF_OPERATOR("convolve", Tensor, const Tensor&, const Tensor&, bool, const OptionalTensor&, const OptionalTensor&);
  return op.call(u, kernel, bidirectional, lengths, offsets);
}

Pair wrapped_convolve(const Tensor& u, const Tensor& a, const OptionalTensor& b, const Tensor& h0, c10::SymInt length,
                      bool bidirectional, const OptionalTensor& lengths) {
  RTF_OPERATOR("wrapped_convolve", Pair, const Tensor&, const Tensor&, const OptionalTensor&, const Tensor&,
               c10::SymInt, bool, const OptionalTensor&);
  return op.call(u, a, b, h0, std::move(length), bidirectional, lengths);
}

Pair filter(const Tensor& u, const Tensor& a, const Tensor& b, const Tensor& h0, const OptionalTensor& initial_state,
            const OptionalTensor& lengths, const OptionalTensor& offsets) {
  RTF_OPERATOR("filter", Pair, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const OptionalTensor&,
               const OptionalTensor&, const OptionalTensor&);
  return op.call(u, a, b, h0, initial_state, lengths, offsets);
}

Pair step(const Tensor& u, const Tensor& a, const Tensor& b, const Tensor& h0, const Tensor& state) {
  RTF_OPERATOR("step", Pair, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&);
  return op.call(u, a, b, h0, state);
}

Pair prefill(const Tensor& u, const Tensor& a, const Tensor& b, const Tensor& h0, const OptionalTensor& state,
             const OptionalTensor& lengths) {
  RTF_OPERATOR("prefill", Pair, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const OptionalTensor&,
               const OptionalTensor&);
  return op.call(u, a, b, h0, state, lengths);
}

Pair lfilter(const Tensor& x, const Tensor& a, const Tensor& b, const OptionalTensor& h0, const OptionalTensor& zi,
             bool return_zf) {
  RTF_OPERATOR("lfilter", Pair, const Tensor&, const Tensor&, const Tensor&, const OptionalTensor&,
               const OptionalTensor&, bool);
  return op.call(x, a, b, h0, zi, return_zf);
}

Tensor freqz(const Tensor& a, const Tensor& b, const OptionalTensor& h0, const Tensor& angles) {
  RTF_OPERATOR("freqz", Tensor, const Tensor&, const Tensor&, const OptionalTensor&, const Tensor&);
  return op.call(a, b, h0, angles);
}

Tensor group_delay(const Tensor& a, const Tensor& b, const OptionalTensor& h0, const Tensor& angles) {
  RTF_OPERATOR("group_delay", Tensor, const Tensor&, const Tensor&, const OptionalTensor&, const Tensor&);
  return op.call(a, b, h0, angles);
}

Pair correct(const Tensor& a, const Tensor& b, const Tensor& h0, c10::SymInt length) {
  RTF_OPERATOR("correct", Pair, const Tensor&, const Tensor&, const Tensor&, c10::SymInt);
  return op.call(a, b, h0, std::move(length));
}

Pair wrap(const Tensor& a, const Tensor& b, const Tensor& h0, c10::SymInt length) {
  RTF_OPERATOR("wrap", Pair, const Tensor&, const Tensor&, const Tensor&, c10::SymInt);
  return op.call(a, b, h0, std::move(length));
}

Tensor montel(const Tensor& alpha, const Tensor& sigma) {
  RTF_OPERATOR("montel", Tensor, const Tensor&, const Tensor&);
  return op.call(alpha, sigma);
}

Tensor montel_paper(const Tensor& alpha) {
  RTF_OPERATOR("montel_paper", Tensor, const Tensor&);
  return op.call(alpha);
}

Tensor dropout(const Tensor& x, double p, const Tensor& generator, int64_t layer, bool tied) {
  RTF_OPERATOR("dropout", Tensor, const Tensor&, double, const Tensor&, int64_t, bool);
  return op.call(x, p, generator, layer, tied);
}

Tensor gelu(const Tensor& x, double p, const Tensor& generator, int64_t layer, bool tied) {
  RTF_OPERATOR("gelu", Tensor, const Tensor&, double, const Tensor&, int64_t, bool);
  return op.call(x, p, generator, layer, tied);
}

Tensor glu(const Tensor& z, const OptionalTensor& residual, double p, const Tensor& generator, int64_t layer, bool tied,
           const OptionalTensor& bias) {
  RTF_OPERATOR("glu", Tensor, const Tensor&, const OptionalTensor&, double, const Tensor&, int64_t, bool,
               const OptionalTensor&);
  return op.call(z, residual, p, generator, layer, tied, bias);
}

Triple batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                  const OptionalTensor& running_mean, const OptionalTensor& running_var, double momentum,
                  std::optional<at::ScalarType> dtype) {
  RTF_OPERATOR("batch_norm", Triple, const Tensor&, const Tensor&, const Tensor&, double, const OptionalTensor&,
               const OptionalTensor&, double, std::optional<at::ScalarType>);
  return op.call(x, weight, bias, eps, running_mean, running_var, momentum, dtype);
}

Triple batch_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& mean,
                           const Tensor& variance, double eps, const OptionalTensor& more_dy,
                           const OptionalTensor& more_dx) {
  RTF_OPERATOR("batch_norm_backward", Triple, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
               double, const OptionalTensor&, const OptionalTensor&);
  return op.call(dy, x, weight, mean, variance, eps, more_dy, more_dx);
}

Triple layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                  std::optional<at::ScalarType> dtype) {
  RTF_OPERATOR("layer_norm", Triple, const Tensor&, const Tensor&, const Tensor&, double,
               std::optional<at::ScalarType>);
  return op.call(x, weight, bias, eps, dtype);
}

Triple layer_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& mean,
                           const Tensor& inverse, const OptionalTensor& more_dx) {
  RTF_OPERATOR("layer_norm_backward", Triple, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
               const OptionalTensor&);
  return op.call(dy, x, weight, mean, inverse, more_dx);
}

Tensor embedding(const Tensor& tokens, const Tensor& weight) {
  RTF_OPERATOR("embedding", Tensor, const Tensor&, const Tensor&);
  return op.call(tokens, weight);
}

Tensor spread(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  RTF_OPERATOR("spread", Tensor, const Tensor&, const Tensor&, const Tensor&);
  return op.call(x, weight, bias);
}

}  // namespace rtf::ops
