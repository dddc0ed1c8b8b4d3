// Filtering with state on the GPU by transforms in double, whatever the order, the sequences and the states.
#include <bit>

#include "torch/cuda/filter.h"
#include "torch/dispatch.h"

namespace rtf::ops {
namespace {

// w/A, whose output is v one sample later. (1 + (-a)/A would give v itself, and cancel digits.)
Coefficients delayed_inverse(const Tensor& a, int64_t channels) {
  const Tensor first = at::constant_pad_nd(at::ones({channels, 1}, a.options()), {0, a.size(1) - 1});
  return {a, first, at::zeros({channels}, a.options())};
}

// Rows are in double, time last: (sequences, channels, length).

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
Pair filter_rows(const Tensor& u, const Coefficients& c, const OptionalTensor& start, const Tensor& lengths) {
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

}  // namespace

Pair filter_by_transforms(const Tensor& u, const Coefficients& c, const OptionalTensor& initial_state,
                          const OptionalTensor& lengths, const OptionalTensor& offsets) {
  const Rows rows("filter", u, lengths, offsets);
  const auto [y, end] = filter_rows(rows.take(u), c, initial_state, rows.lengths);
  return {rows.give(y, u), end};
}

// The adjoint of v runs backwards in time: lambda_t = seed_t + sum_k b_k dy_{t+k} - a_k lambda_{t+k}, where the seed is
// the gradient of the final state, whose k-th number is v_{length-k}.
FilterGradients filter_backward_by_transforms(const Tensor& dy, const Tensor& dstate, const Tensor& u,
                                              const Coefficients& c, const OptionalTensor& initial_state,
                                              const OptionalTensor& lengths, const OptionalTensor& offsets) {
  const Rows rows("filter_backward", u, lengths, offsets);
  const int64_t n = c.order(), length = rows.longest;
  const OptionalTensor& start = initial_state;
  const Tensor& dend = dstate;
  const Tensor x = rows.take(u), g = rows.take(dy);
  const Tensor dh0 = (g * x).sum(at::IntArrayRef({0, 2})), direct = c.h0.unsqueeze(1) * g;
  if (n == 0) return {rows.give(direct, u), at::zeros_like(c.b), at::zeros_like(c.b), dh0, dend.clone()};

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
  return {rows.give(lambda + direct, u), da, db, dh0, dstart.contiguous()};
}

}  // namespace rtf::ops
