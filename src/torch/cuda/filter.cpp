// filter, its gradient, and step on the GPU: in chunks (cuda/filter.h) or by transforms, whichever costs less.
#include "torch/cuda/filter.h"

#include <torch/library.h>

#include <cstdlib>
#include <string_view>

#include "cuda/filter_backward.h"
#include "cuda/recurrence.h"
#include "torch/cuda/elements.h"
#include "torch/dispatch.h"

namespace rtf::ops {

OptionalTensor state_of(const char* operation, const OptionalTensor& state, int64_t sequences, const Tensor& u,
                        const Tensor& b) {
  if (!state) return state;
  check_state(operation, *state, sequences, b);
  check_device(operation, "the state", *state, "u", u);
  return state->contiguous();
}

namespace {

enum class Pass { forward, backward };

// Measured on an H200 by bench/cuda_filter_costs.py. Chunks follow each other along a row, and rows run side by side;
// transforms cost their many launches, an exact kernel for each channel, and a convolution for each row.
bool chunks_cost_less(const Tensor& u, int64_t order, Pass pass) {
  struct Cost {
    int64_t order;
    double ns;  // a sample
  };
  constexpr Cost costs[] = {{8, 1.7}, {16, 2.9}, {32, 10.5}, {64, 26.5}};
  constexpr double launches = 8e6, kernel = 1.2, convolution = 0.2, backward = 3;  // ns; and the gradient's as many
  const auto* cost = std::begin(costs);
  while (cost->order < order && cost + 1 != std::end(costs)) ++cost;
  const auto batch = static_cast<double>(u.size(0)), length = static_cast<double>(u.size(1)),
             channels = static_cast<double>(u.size(2));
  const double transforms = launches + length * channels * (kernel + batch * convolution);
  return length * cost->ns <= (pass == Pass::backward ? backward : 1) * transforms;
}

// RTF_CUDA_FILTER=chunks|fft forces a way to compute, for tests and measurements.
bool in_chunks(const char* operation, const Tensor& u, int64_t order, bool packed, Pass pass) {
  const int64_t largest = cuda::largest_chunked_order();
  const char* name = std::getenv("RTF_CUDA_FILTER");
  if (!name || !*name)  // How long packed sequences are is known on the device alone.
    return order <= largest && (packed || chunks_cost_less(u, order, pass));
  const std::string_view method = name;
  TORCH_CHECK_VALUE(method == "chunks" || method == "fft", "[rtf::", operation, "] RTF_CUDA_FILTER is ", name,
                    "; chunks and fft are known");
  TORCH_CHECK_VALUE(method == "fft" || order <= largest, "[rtf::", operation, "] order is ", order,
                    "; chunks take up to ", largest);
  return method == "chunks";
}

// A filter with its tensors: what the kernels read stays alive as long as this does.
struct Chunked {
  Tensor u, y;
  cuda::Filter filter;

  Chunked(const char* operation, const Tensor& u_, const Coefficients& c, const OptionalTensor& start,
          const Sequences& sequences)
      : u(as_length_last(u_)), y(empty_length_last(u_, u_.scalar_type())) {
    if (!sequences.cover) y.zero_();
    const auto values = [](const OptionalTensor& x) { return x ? x->const_data_ptr<int64_t>() : nullptr; };
    const auto type = element_type(operation, u.scalar_type());
    filter = {.series = cuda::Series::response,
              .sequences = sequences.count,
              .channels = c.channels(),
              .denominators = c.a.size(0),
              .order = c.order(),
              .length = u.size(1),
              .type = type,
              .u = u.const_data_ptr(),
              .u_sequence_stride = u.stride(0),
              .u_channel_stride = u.stride(2),
              .y_type = type,
              .y = y.mutable_data_ptr(),
              .y_sequence_stride = y.stride(0),
              .y_channel_stride = y.stride(2),
              .coefficient_type = element_type(operation, c.b.scalar_type()),
              .a = c.a.const_data_ptr(),
              .b = c.b.const_data_ptr(),
              .h0 = c.h0.const_data_ptr(),
              .initial_state = start ? start->const_data_ptr<double>() : nullptr,
              .final_state = nullptr,
              .lengths = values(sequences.lengths),
              .offsets = values(sequences.offsets)};
  }
};

Pair filter_cuda(const Tensor& u, const Tensor& a, const Tensor& b, const Tensor& h0,
                 const OptionalTensor& initial_state, const OptionalTensor& lengths, const OptionalTensor& offsets) {
  check_coefficients("filter", a, b, h0);
  check_filter_input("filter", u, b);
  const Device device(u);
  const bool chunked = in_chunks("filter", u, b.size(1), offsets.has_value(), Pass::forward);
  const Coefficients c("filter", a, b, h0, u, /*as_double=*/!chunked);
  const Sequences sequences("filter", u, lengths, offsets);
  const auto start = state_of("filter", initial_state, sequences.count, u, b);
  const std::array<int64_t, 3> state{sequences.count, c.channels(), c.order()};
  const auto in_double = u.options().dtype(at::kDouble);
  if (u.numel() == 0)  // the state goes through
    return {empty_result(u, u.scalar_type()), start ? start->clone() : at::zeros(state, in_double)};
  if (!chunked) return filter_by_transforms(u, c, start, lengths, offsets);
  Chunked run("filter", u, c, start, sequences);
  const Tensor end = at::empty(state, in_double);
  run.filter.final_state = end.mutable_data_ptr<double>();
  call([&] { cuda::filter(run.filter, device); });
  return {as_result(run.y, u, u.scalar_type(), device), end};
}

Quintuple filter_backward_cuda(const Tensor& dy, const OptionalTensor& dstate, const Tensor& u, const Tensor& a,
                               const Tensor& b, const Tensor& h0, const OptionalTensor& initial_state,
                               const OptionalTensor& lengths, const OptionalTensor& offsets) {
  check_coefficients("filter_backward", a, b, h0);
  check_filter_input("filter_backward", u, b);
  const Device device(u);
  const bool chunked = in_chunks("filter_backward", u, b.size(1), offsets.has_value(), Pass::backward);
  const Coefficients c("filter_backward", a, b, h0, u, /*as_double=*/!chunked);
  check_shape("filter_backward", "dy", dy, u.sizes());
  check_device("filter_backward", "dy", dy, "u", u);
  const Sequences sequences("filter_backward", u, lengths, offsets);
  const auto start = state_of("filter_backward", initial_state, sequences.count, u, b);
  const auto given = state_of("filter_backward", dstate, sequences.count, u, b);
  const Tensor dend =
      given ? *given : at::zeros({sequences.count, c.channels(), c.order()}, u.options().dtype(at::kDouble));
  const auto like = [](const Tensor& x) { return at::empty(x.sizes(), x.options()); };
  const Tensor da = like(a), db = like(b), dh0 = like(h0);
  if (u.numel() == 0) {
    for (const Tensor& x : {da, db, dh0}) x.zero_();
    return {empty_result(u, u.scalar_type()), da, db, dh0, dend.clone()};
  }
  if (!chunked) {
    const auto by = filter_backward_by_transforms(dy, dend, u, c, start, lengths, offsets);
    da.copy_(by.a.view({a.size(0), c.channels() / a.size(0), c.order()}).sum(1));
    db.copy_(by.b);
    dh0.copy_(by.h0);
    return {by.u, da, db, dh0, by.state};
  }
  const Chunked run("filter_backward", u, c, start, sequences);
  const Tensor gradient = as_length_last(dy.to(u.scalar_type())), &du = run.y, dstart = at::empty_like(dend);
  const cuda::FilterBackward backward{.forward = run.filter,
                                      .dy = gradient.const_data_ptr(),
                                      .dy_sequence_stride = gradient.stride(0),
                                      .dy_channel_stride = gradient.stride(2),
                                      .final_gradient = dend.const_data_ptr<double>(),
                                      .du = du.mutable_data_ptr(),
                                      .du_sequence_stride = du.stride(0),
                                      .du_channel_stride = du.stride(2),
                                      .da = numbers(da),
                                      .db = numbers(db),
                                      .dh0 = numbers(dh0),
                                      .initial_gradient = dstart.mutable_data_ptr<double>()};
  const c10::DataPtr memory = workspace(cuda::filter_backward_workspace(backward), device);
  call([&] { cuda::filter_backward(backward, memory.get(), device); });
  return {as_result(du, u, u.scalar_type(), device), da, db, dh0, dstart};
}

// What layers ask to choose between a filter and a convolution.
int64_t largest_chunked_order_cuda(const Tensor& u) {
  const Device device(u);
  return cuda::largest_chunked_order();
}

Pair step_cuda(const Tensor& u, const Tensor& a, const Tensor& b, const Tensor& h0, const Tensor& state) {
  const Coefficients c("step", a, b, h0, u);
  check_step_input(u, b);
  const Tensor from = *state_of("step", state, u.size(0), u, b), in = u.contiguous();
  const Tensor y = at::empty_like(in), next = at::empty_like(from);
  call([&] {
    cuda::step({u.size(0), c.channels(), c.a.size(0), c.order(), element_type("step", u.scalar_type()),
                in.const_data_ptr(), y.mutable_data_ptr(), c.a.const_data_ptr<double>(), c.b.const_data_ptr<double>(),
                c.h0.const_data_ptr<double>(), from.const_data_ptr<double>(), next.mutable_data_ptr<double>()},
               Device(u));
  });
  return {y, next};
}

}  // namespace

TORCH_LIBRARY_IMPL(rtf, CUDA, m) {
  m.impl("filter", filter_cuda);
  m.impl("filter_backward", filter_backward_cuda);
  m.impl("largest_chunked_order", largest_chunked_order_cuda);
  m.impl("step", step_cuda);
}

}  // namespace rtf::ops
