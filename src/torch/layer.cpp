#include "rtf_torch/layer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "rtf/executor.h"
#include "rtf/random.h"
#include "rtf/stability.h"
#include "rtf_torch/operators.h"
#include "torch/bridge.h"
#include "torch/dispatch.h"
#include "torch/state_space.h"

namespace rtf::nn {
namespace {

using at::Tensor;

Tensor to_parameter(const std::vector<double>& values, at::IntArrayRef shape) {
  return at::tensor(values, at::kFloat).view(shape);
}

void check(const RTFOptions& options) {
  TORCH_CHECK(options.channels >= 1, "[rtf::RTF] channels is ", options.channels, "; at least 1 is needed");
  TORCH_CHECK(options.order >= 0, "[rtf::RTF] order is ", options.order, "; 0 or more is needed");
  TORCH_CHECK(options.length >= 1, "[rtf::RTF] length is ", options.length, "; at least 1 is needed");
  TORCH_CHECK(options.denominators >= 1 && options.channels % options.denominators == 0, "[rtf::RTF] ",
              options.denominators, " denominators do not divide ", options.channels, " channels");
  TORCH_CHECK(options.kernel_dropout >= 0 && options.kernel_dropout < 1, "[rtf::RTF] kernel_dropout is ",
              options.kernel_dropout, "; it must be in [0, 1)");
  TORCH_CHECK(options.index >= 0, "[rtf::RTF] index is ", options.index, "; it must not be negative");
}

Tensor to_double(const Tensor& x) { return x.to(at::kDouble); }

Tensor constrained(Constraint constraint, const Tensor& a, const Tensor& sigma) {
  switch (constraint) {
    case Constraint::none:
      return a;
    case Constraint::montel:
      return ops::montel(a, sigma);
    case Constraint::montel_paper:
      return ops::montel_paper(a);
  }
  TORCH_INTERNAL_ASSERT(false);
}

// On the GPU, up to this order, a filter in chunks costs less than an exact kernel and a convolution, forward and
// backward together: 0.40 against 1.03 ms at order 64 and 2^11 samples, 17 against 26 ms at 2^17 (H200, 16 sequences of
// 128). Past what the device can hold of its tables a filter would itself be a convolution.
int64_t largest_filtered_order(const Tensor& u) {
  RTF_OPERATOR("largest_chunked_order", int64_t, const Tensor&);
  return op.call(u);
}

}  // namespace

Tensor cut(const Tensor& u, const Tensor& lengths) {
  if (lengths.is_cpu()) ops::lengths_of("convolve", lengths, u.size(0), u.size(1));  // refuses bad ones
  // Values on the device are not looked at, as in the convolution: that would wait for it.
  TORCH_CHECK_VALUE(lengths.dim() == 1 && lengths.size(0) == u.size(0) &&
                        at::isIntegralType(lengths.scalar_type(), /*includeBool=*/false),
                    "[rtf::convolve] lengths has shape ", lengths.sizes(), " and type ", lengths.scalar_type(), "; ",
                    u.size(0), " integers are needed");
  const Tensor ends = lengths.to(u.device(), at::kLong);
  const Tensor past = at::arange(u.size(1), ends.options()) >= ends.unsqueeze(1);
  return u.masked_fill(past.unsqueeze(2), 0.0);
}

RTFImpl::RTFImpl(RTFOptions options_) : options(std::move(options_)) {
  check(options);
  const int64_t directions = options.bidirectional ? 2 : 1;
  const int64_t channels = directions * options.channels, denominators = directions * options.denominators;
  const auto draw = [&](int64_t rows, int64_t order, Draw what) {
    return rtf::initialize(options.init, options.initial_gain, rows, denominators, order, options.length,
                           draw_seed(options, what));
  };
  const auto initial = draw(channels, options.order, Draw::coefficients);
  if (options.constraint == Constraint::montel_paper) {
    auto free = draw(denominators, options.order + 1, Draw::free_numbers).a;
    // All zero cannot be normalised; a last number of 1 gives the same a = 0.
    if (options.init == Init::zero)
      for (size_t last = options.order; last < free.size(); last += options.order + 1) free[last] = 1;
    a = register_parameter("a", to_parameter(free, {denominators, options.order + 1}));
  } else {
    a = register_parameter("a", to_parameter(initial.a, {denominators, options.order}));
  }
  b = register_parameter("b", to_parameter(initial.b, {channels, options.order}));
  h0 = register_parameter("h0", to_parameter(initial.h0, {channels}));
  if (options.constraint == Constraint::montel) {
    const Random random(draw_seed(options, Draw::sigma));
    std::vector<double> values(denominators);
    for (size_t i = 0; i < values.size(); ++i) values[i] = random.uniform(i);
    sigma = register_parameter("sigma", to_parameter(values, {denominators}));
  }
}

Tensor RTFImpl::denominator() const { return constrained(options.constraint, a, sigma); }

Tensor RTFImpl::wide_denominator() const {
  return constrained(options.constraint, to_double(a), sigma.defined() ? to_double(sigma) : sigma);
}

void RTFImpl::check_length(int64_t length) const {
  TORCH_CHECK(length >= 1 && length <= options.length, "[rtf::RTF] a sequence of ", length,
              " samples; the layer takes 1 to ", options.length);
}

Tensor RTFImpl::kernel(int64_t length) const {
  check_length(length);
  Tensor k;
  if (options.numerator == Numerator::exact) {
    k = ops::exact_kernel(denominator(), b, h0, length);
  } else {
    k = ops::kernel(denominator(), b, h0, options.length);
    if (length < options.length) k = k.narrow(1, 0, length);
  }
  return options.bidirectional ? k.unflatten(0, {2, options.channels}) : k;
}

Tensor RTFImpl::forward(const Tensor& u, const std::optional<Tensor>& lengths, const std::optional<Tensor>& generator) {
  TORCH_CHECK(u.dim() == 3 && u.size(2) == options.channels, "[rtf::RTF] u has shape ", u.sizes(), "; (batch, length, ",
              options.channels, ") is needed");
  const bool drops = is_training() && options.kernel_dropout > 0;
  if (u.is_cuda() && !options.bidirectional && options.numerator == Numerator::exact && !drops &&
      options.order <= largest_filtered_order(u)) {
    check_length(u.size(1));
    return std::get<0>(ops::filter(lengths ? cut(u, *lengths) : u, denominator(), b, h0));
  }
  Tensor k = kernel(u.size(1));
  if (drops) {
    TORCH_CHECK(generator, "[rtf::RTF] kernel dropout in training mode needs a generator (seed, step)");
    k = ops::dropout(k, options.kernel_dropout, *generator, dropout_layer(options.index, DropoutSite::kernel));
  }
  return ops::convolve(u, k, options.bidirectional, lengths);
}

Realization RTFImpl::realize() const {
  TORCH_CHECK(!options.bidirectional, "[rtf::RTF] a bidirectional layer has no recurrence: it sees the whole sequence");
  const Tensor plain_a = wide_denominator();
  Tensor plain_b = to_double(b), plain_h0 = to_double(h0);
  if (options.numerator == Numerator::wrapped)
    std::tie(plain_b, plain_h0) = ops::correct(plain_a, plain_b, plain_h0, options.length);
  return {plain_a, plain_b, plain_h0};
}

Tensor RTFImpl::zero_state(int64_t batch) const {
  return at::zeros({batch, options.channels, options.order}, h0.options().dtype(at::kDouble).requires_grad(false));
}

std::tuple<Tensor, Tensor> RTFImpl::prefill(const Realization& at, const Tensor& u, const Tensor& state) const {
  return ops::prefill(u, at[0], at[1], at[2], state);
}

std::tuple<Tensor, Tensor> RTFImpl::step(const Realization& at, const Tensor& u, const Tensor& state) const {
  return ops::step(u, at[0], at[1], at[2], state);
}

void RTFImpl::set_length(int64_t length) {
  TORCH_CHECK(length >= 1, "[rtf::RTF] length is ", length, "; at least 1 is needed");
  if (length == options.length) return;
  if (options.numerator == Numerator::wrapped) {
    const at::NoGradGuard no_grad;
    const Tensor denominators = to_double(denominator());
    const auto [plain_b, plain_h0] = ops::correct(denominators, to_double(b), to_double(h0), options.length);
    const auto [trained_b, trained_h0] = ops::wrap(denominators, plain_b, plain_h0, length);
    b.copy_(trained_b);
    h0.copy_(trained_h0);
  }
  options.length = length;
}

std::optional<PoleReport> RTFImpl::poles(int64_t most) const {
  return report_poles(denominator(), options.length, most);
}

PoleReport report_poles(const Tensor& denominators, int64_t length, int64_t most) {
  const at::NoGradGuard no_grad;
  const Tensor rows = to_double(denominators).cpu().contiguous();
  const int64_t order = rows.size(1);
  const int64_t total = rows.size(0), looked_at = most > 0 ? std::min(most, total) : total;
  const std::span<const double> values(rows.const_data_ptr<double>(), rows.numel());

  std::vector<PoleReport> each(looked_at);
  parallel_for(default_executor(), each.size(), [&](std::size_t i, std::size_t) {
    const int64_t row = looked_at > 1 ? static_cast<int64_t>(i) * (total - 1) / (looked_at - 1) : 0;
    const auto one = values.subspan(row * order, order);
    PoleReport& report = each[i];
    if (!std::all_of(one.begin(), one.end(), [](double value) { return std::isfinite(value); })) {
      report.radius = report.min_abs_denominator = std::numeric_limits<double>::quiet_NaN();
      report.unstable = 1;
      return;
    }
    report.radius = pole_radius(one);
    report.min_abs_denominator = min_abs_denominator(one, length);
    report.unstable = is_stable(one) ? 0 : 1;
  });

  PoleReport worst = each.front();
  for (std::size_t i = 1; i < each.size(); ++i) {
    // A nan replaces a number, and no number replaces a nan.
    const double radius = each[i].radius, smallest = each[i].min_abs_denominator;
    if (std::isnan(radius) || radius > worst.radius) worst.radius = radius;
    if (std::isnan(smallest) || smallest < worst.min_abs_denominator) worst.min_abs_denominator = smallest;
    worst.unstable += each[i].unstable;
  }
  return worst;
}

}  // namespace rtf::nn
