// filter, its gradient, and step on the GPU. Small orders run in chunks (cuda/filter.h); larger ones, whatever their
// sequences and states, by transforms in double.
#include "cuda/filter.h"

#include <torch/library.h>

#include <bit>
#include <cstdlib>
#include <string_view>

#include "cuda/recurrence.h"
#include "torch/cuda/elements.h"
#include "torch/dispatch.h"
#include "torch/filter.h"

namespace rtf::ops {
namespace {

// a, b, h0 beside the samples, contiguous and of one type: float64 where the kernels ask for it, or where theirs differ.
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

// w/A, whose output is v one sample later. (1 + (-a)/A would give v itself, and cancel digits.)
Coefficients delayed_inverse(const Tensor& a, int64_t channels) {
  const Tensor first = at::constant_pad_nd(at::ones({channels, 1}, a.options()), {0, a.size(1) - 1});
  return {a, first, at::zeros({channels}, a.options())};
}

// Where the sequences of u lie: at most one of the two is there. What comes on the host is checked; what is on the device
// already is not read back, and the kernels keep inside the signal whatever it holds.
struct Sequences {
  OptionalTensor lengths, offsets;
  int64_t count;

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
      offsets = on_device("offsets", *packed);
      TORCH_CHECK_VALUE(offsets->size(0) >= 2, "[rtf::", operation, "] offsets has ", offsets->size(0),
                        " values; at least 2 are needed");
      count = offsets->size(0) - 1;
    }
  }
};

// RTF_CUDA_FILTER=chunks|fft forces a way to compute, for tests and measurements.
bool in_chunks(const char* operation, int64_t order) {
  const int64_t largest = cuda::largest_chunked_order();
  const char* name = std::getenv("RTF_CUDA_FILTER");
  if (!name || !*name) return order <= largest;
  const std::string_view method = name;
  TORCH_CHECK_VALUE(method == "chunks" || method == "fft", "[rtf::", operation, "] RTF_CUDA_FILTER is ", name,
                    "; chunks and fft are known");
  TORCH_CHECK_VALUE(method == "fft" || order <= largest, "[rtf::", operation, "] order is ", order,
                    "; chunks take up to ", largest);
  return method == "chunks";
}

Pair filter_chunked(const Tensor& u, const Coefficients& c, const OptionalTensor& start, const OptionalTensor& lengths,
                    const OptionalTensor& offsets) {
  const int64_t sequences = offsets ? offsets->size(0) - 1 : u.size(0);
  const Tensor in = length_last(u), y = empty_length_last(u, u.scalar_type());
  const Tensor end = at::empty({sequences, c.channels(), c.order()}, u.options().dtype(at::kDouble));
  const auto values = [](const OptionalTensor& x) { return x ? x->const_data_ptr<int64_t>() : nullptr; };
  call([&] {
    cuda::filter({sequences, c.channels(), c.a.size(0), c.order(), u.size(1),
                  element_type("filter", u.scalar_type()), in.const_data_ptr(), in.stride(0), in.stride(2),
                  y.mutable_data_ptr(), y.stride(0), y.stride(2), element_type("filter", c.b.scalar_type()),
                  c.a.const_data_ptr(), c.b.const_data_ptr(), c.h0.const_data_ptr(),
                  start ? start->const_data_ptr<double>() : nullptr, end.mutable_data_ptr<double>(), values(lengths),
                  values(offsets)},
                 Device(u));
  });
  return {y, end};
}

// What follows is in double, time last: (sequences, channels, length).

// A size that transforms well, at least `size`.
int64_t transform_size(int64_t size) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(size))); }

// The first `count` samples of x * k.
Tensor convolve_rows(const Tensor& x, const Tensor& k, int64_t count) {
  const int64_t size = transform_size(x.size(-1) + k.size(-1));
  return at::fft_irfft(at::fft_rfft(x, size) * at::fft_rfft(k, size), size).narrow(-1, 0, count);
}

// sum_t x_t y_{t + lag}, lag < lags, and over all sequences when `reduce`.
Tensor correlate_rows(const Tensor& x, const Tensor& y, int64_t lags, bool reduce) {
  const int64_t size = transform_size(std::max(x.size(-1), y.size(-1)) + lags);
  Tensor product = at::fft_rfft(x, size).conj() * at::fft_rfft(y, size);
  if (reduce) product = product.sum(0);
  return at::fft_irfft(product, size).narrow(-1, 0, lags);
}

// Whether sample t counts, (sequences, 1, length).
Tensor inside(const Tensor& lengths, int64_t length) {
  return (at::arange(length, lengths.options()) < lengths.unsqueeze(1)).unsqueeze(1);
}

Tensor cut(const Tensor& x, const OptionalTensor& lengths) {
  return lengths ? x.masked_fill(inside(*lengths, x.size(-1)).logical_not(), 0.0) : x;
}

// x[s, c, index[s, k]], and zero where the index is outside.
Tensor pick(const Tensor& x, const Tensor& index) {
  const int64_t length = x.size(-1);
  const Tensor valid = ((index >= 0) & (index < length)).unsqueeze(1);
  if (length == 0) return at::zeros({x.size(0), x.size(1), index.size(1)}, x.options());
  const Tensor at_most = index.clamp(0, length - 1).unsqueeze(1).expand({-1, x.size(1), -1});
  return x.gather(2, at_most).masked_fill(valid.logical_not(), 0.0);
}

// The convolution with the state's prefix p A in front, p = (v_{-n}, ..., v_{-1}).
Pair filter_by_transforms(const Tensor& u, const Coefficients& c, const OptionalTensor& start, const Tensor& lengths) {
  const int64_t n = c.order(), length = u.size(-1), prefix = start ? n : 0, total = prefix + length;
  const OptionalTensor ends = lengths;
  Tensor extended = cut(u, ends);
  if (prefix > 0) {
    const Tensor denominators = at::constant_pad_nd(c.each_a().narrow(1, 0, n - 1), {1, 0}, 1.0);
    extended = at::cat({convolve_rows(start->flip(-1), denominators, n), extended}, -1);
  }
  if (total == 0) return {u, at::zeros({u.size(0), u.size(1), n}, u.options())};
  const Tensor kernel = exact_kernel(c.a, c.b, c.h0, total);
  const Coefficients delayed = delayed_inverse(c.a, c.a.size(0));
  const Tensor inverse = exact_kernel(delayed.a, delayed.b, delayed.h0, total + 1).narrow(1, 1, total);
  const Tensor y = convolve_rows(extended, kernel, total).narrow(-1, prefix, length);
  const Tensor v = convolve_rows(extended, inverse.repeat_interleave(c.channels() / c.a.size(0), 0), total);
  const Tensor last = prefix + lengths.unsqueeze(1) - at::arange(1, n + 1, lengths.options());
  return {cut(y, ends), pick(v, last)};
}

// Padded sequences, double.
Pair filter_rows(const Tensor& u, const Coefficients& c, const OptionalTensor& start, const Tensor& lengths) {
  if (!in_chunks("filter", c.order())) return filter_by_transforms(u, c, start, lengths);
  auto [y, end] = filter_chunked(u.transpose(1, 2), c, start, lengths, std::nullopt);
  return {y.transpose(1, 2), end};
}

// v = u / A: what comes out one sample late, with the last one, which is the final state's first number.
Tensor inverse_rows(const Tensor& u, const Coefficients& c, const OptionalTensor& start, const Tensor& lengths) {
  if (u.size(-1) == 0) return u;
  const auto [late, end] = filter_rows(u, delayed_inverse(c.a, c.channels()), start, lengths);
  const Tensor is_last = at::arange(1, u.size(-1) + 1, lengths.options()) == lengths.unsqueeze(1);
  return at::where(is_last.unsqueeze(1), end.narrow(-1, 0, 1), at::constant_pad_nd(late.slice(-1, 1), {0, 1}));
}

// Sequences as padded rows in double with their lengths, and back.
struct Rows {
  Sequences sequences;
  std::vector<std::size_t> offsets;  // of packed ones, on the host
  int64_t longest;
  Tensor lengths;

  Rows(const char* operation, const Tensor& u, const OptionalTensor& padded, const OptionalTensor& packed)
      : sequences(operation, u, padded, packed), longest(u.size(1)) {
    const auto options = u.options().dtype(at::kLong);
    if (packed) {
      offsets = offsets_of(operation, packed, u.size(1));
      longest = 0;
      for (std::size_t s = 0; s + 1 < offsets.size(); ++s)
        longest = std::max(longest, static_cast<int64_t>(offsets[s + 1] - offsets[s]));
      lengths = sequences.offsets->diff();
    } else {
      lengths = padded ? sequences.lengths->clamp(0, longest) : at::full({u.size(0)}, longest, options);
    }
  }

  Tensor take(const Tensor& x) const {
    const Tensor all = x.transpose(1, 2).to(at::kDouble);
    if (offsets.empty()) return sequences.lengths ? cut(all, lengths) : all;
    const Tensor rows = at::zeros({sequences.count, x.size(2), longest}, all.options());
    each_row(rows, all, [](const Tensor& row, const Tensor& part) { row.copy_(part); });
    return rows;
  }

  Tensor give(const Tensor& rows, const Tensor& like) const {
    const Tensor result = empty_result(like, like.scalar_type()), all = result.transpose(1, 2);
    if (offsets.empty())
      all.copy_(rows);
    else
      each_row(rows, all, [](const Tensor& row, const Tensor& part) { part.copy_(row); });
    return result;
  }

 private:
  template <class F>
  void each_row(const Tensor& rows, const Tensor& all, F&& use) const {
    for (std::size_t s = 0; s + 1 < offsets.size(); ++s) {
      const auto first = static_cast<int64_t>(offsets[s]), length = static_cast<int64_t>(offsets[s + 1]) - first;
      use(rows.select(0, static_cast<int64_t>(s)).narrow(-1, 0, length), all.select(0, 0).narrow(-1, first, length));
    }
  }
};

OptionalTensor state_of(const char* operation, const OptionalTensor& state, int64_t sequences, const Tensor& u,
                        const Tensor& b) {
  if (!state) return state;
  check_state(operation, *state, sequences, b);
  check_device(operation, "the state", *state, "u", u);
  return state->contiguous();
}

Pair filter_cuda(const Tensor& u, const Tensor& a, const Tensor& b, const Tensor& h0, const OptionalTensor& initial_state,
                 const OptionalTensor& lengths, const OptionalTensor& offsets) {
  check_coefficients("filter", a, b, h0);
  check_filter_input("filter", u, b);
  const Device device(u);
  const bool chunked = in_chunks("filter", b.size(1));
  const Coefficients c("filter", a, b, h0, u, /*as_double=*/!chunked);
  // Without samples the state goes through.
  const auto nothing = [&](int64_t sequences, const OptionalTensor& start) -> Pair {
    return {empty_result(u, u.scalar_type()),
            start ? start->clone() : at::zeros({sequences, c.channels(), c.order()}, u.options().dtype(at::kDouble))};
  };
  if (chunked) {
    const Sequences sequences("filter", u, lengths, offsets);
    const auto start = state_of("filter", initial_state, sequences.count, u, b);
    if (u.numel() == 0) return nothing(sequences.count, start);
    const auto [y, end] = filter_chunked(u, c, start, sequences.lengths, sequences.offsets);
    return {as_result(y, u, u.scalar_type()), end};
  }
  const Rows rows("filter", u, lengths, offsets);
  const auto start = state_of("filter", initial_state, rows.sequences.count, u, b);
  if (u.numel() == 0) return nothing(rows.sequences.count, start);
  auto [y, end] = filter_rows(rows.take(u), c, start, rows.lengths);
  return {rows.give(y, u), end};
}

// The adjoint of v runs backwards in time: lambda_t = seed_t + sum_k b_k dy_{t+k} - a_k lambda_{t+k}, where the seed is the
// gradient of the final state, whose k-th number is v_{length-k}.
Quintuple filter_backward_cuda(const Tensor& dy, const Tensor& dstate, const Tensor& u, const Tensor& a, const Tensor& b,
                               const Tensor& h0, const OptionalTensor& initial_state, const OptionalTensor& lengths,
                               const OptionalTensor& offsets) {
  const Coefficients c("filter_backward", a, b, h0, u);
  check_filter_input("filter_backward", u, b);
  check_shape("filter_backward", "dy", dy, u.sizes());
  check_device("filter_backward", "dy", dy, "u", u);
  check_device("filter_backward", "dstate", dstate, "u", u);
  const Device device(u);
  const Rows rows("filter_backward", u, lengths, offsets);
  const int64_t n = c.order(), length = rows.longest, channels = c.channels(), sequences = rows.sequences.count;
  check_shape("filter_backward", "dstate", dstate, {sequences, channels, n});
  const auto start = state_of("filter_backward", initial_state, sequences, u, b);
  const Tensor dend = dstate.to(at::kDouble).clone(at::MemoryFormat::Contiguous);
  const auto zeros = [](const Tensor& like) { return at::zeros(like.sizes(), like.options()); };
  if (u.numel() == 0)
    return {empty_result(u, u.scalar_type()), zeros(a), zeros(b), zeros(h0), dend};
  const Tensor x = rows.take(u), g = rows.take(dy);
  const Tensor dh0 = (g * x).sum(at::IntArrayRef({0, 2})), direct = c.h0.unsqueeze(1) * g;
  if (n == 0)
    return {rows.give(direct, u), zeros(a), zeros(b), dh0.to(h0.scalar_type()), dend};

  const Tensor time = at::arange(length, rows.lengths.options());
  const Tensor backwards = rows.lengths.unsqueeze(1) - 1 - time;
  const Tensor seed = at::constant_pad_nd(dend, {0, std::max<int64_t>(length - n, 0)}).narrow(-1, 0, length);
  const Tensor from_y = std::get<0>(filter_rows(pick(g, backwards), c.without_gain(), std::nullopt, rows.lengths));
  const Tensor from_state = inverse_rows(cut(seed, rows.lengths), c, std::nullopt, rows.lengths);
  const Tensor lambda = pick(from_y + from_state, backwards);
  const Tensor past = start ? start->flip(-1) : at::zeros_like(dend);
  const Tensor v = at::cat({past, inverse_rows(x, c, start, rows.lengths)}, -1);
  // v_{t-k} is number t + (n - k) of it.
  const Tensor db = correlate_rows(g, v, n, true).flip(-1);
  const Tensor da = -correlate_rows(lambda, v, n, true).flip(-1);

  const int64_t front = std::min(n, length);
  const Tensor beyond = rows.lengths.unsqueeze(1) + at::arange(n, rows.lengths.options());
  const Tensor dstart = correlate_rows(g.narrow(-1, 0, front), c.b, n, false) -
                        correlate_rows(lambda.narrow(-1, 0, front), c.each_a(), n, false) + pick(dend, beyond);
  return {rows.give(lambda + direct, u), da.view({a.size(0), -1, n}).sum(1).to(a.scalar_type()), db.to(b.scalar_type()),
          dh0.to(h0.scalar_type()), dstart.contiguous()};
}

Pair step_cuda(const Tensor& u, const Tensor& a, const Tensor& b, const Tensor& h0, const Tensor& state) {
  const Coefficients c("step", a, b, h0, u);
  check_step_input(u, b);
  const Tensor from = *state_of("step", state, u.size(0), u, b), in = u.contiguous();
  const Tensor y = at::empty_like(in), next = at::empty_like(from);
  call([&] {
    cuda::step({u.size(0), c.channels(), c.a.size(0), c.order(), element_type("step", u.scalar_type()), in.const_data_ptr(), y.mutable_data_ptr(),
                c.a.const_data_ptr<double>(), c.b.const_data_ptr<double>(), c.h0.const_data_ptr<double>(),
                from.const_data_ptr<double>(), next.mutable_data_ptr<double>()},
               Device(u));
  });
  return {y, next};
}

}  // namespace

TORCH_LIBRARY_IMPL(rtf, CUDA, m) {
  m.impl("filter", filter_cuda);
  m.impl("filter_backward", filter_backward_cuda);
  m.impl("step", step_cuda);
}

}  // namespace rtf::ops
