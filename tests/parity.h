// One random case of everything that must agree: every kernel, convolution, filter and stepping form against long
// double.
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/polynomial.h"
#include "random_filter.h"
#include "rtf/rtf.h"

namespace rtf::testing {

struct Case {
  std::size_t batch, length, channels, groups, order;
  std::uint64_t seed;
};

struct Worst {
  double error = 0, bound = 0, ratio = -1;
  std::size_t count = 0;
  Case at{};
};

// The worst error of each pair, as a share of its bound.
class Report {
 public:
  void add(const std::string& pair, double error, double bound, const Case& at) {
    Worst& worst = worst_[pair];
    ++worst.count;
    const double ratio = error / bound;
    if (!(ratio <= worst.ratio)) worst = {error, bound, ratio, worst.count, at};
  }
  const std::map<std::string, Worst>& worst() const { return worst_; }

 private:
  std::map<std::string, Worst> worst_;
};

// Errors are relative to the largest reference value, or to `scale` where that is larger.
template <class Values, class Reference>
double error_of(const Values& values, const Reference& reference, double scale = 0) {
  double error = 0, largest = scale;
  for (std::size_t i = 0; i < std::size(reference); ++i) {
    const auto difference = static_cast<double>(std::abs(static_cast<long double>(values[i]) - reference[i]));
    if (!std::isfinite(difference)) return std::numeric_limits<double>::infinity();
    error = std::max(error, difference);
    largest = std::max(largest, static_cast<double>(std::abs(reference[i])));
  }
  return largest > 0 ? error / largest : error;
}

class Parity {
 public:
  Parity(const Case& at, Report& report) : at_(at), report_(report), random_(at.seed) {
    tf_ = random_.draw(at.channels, at.groups, at.order);
    kappa_ = condition(tf_, at.length);
  }

  double kappa() const { return kappa_; }

  void run() {
    kernels();
    correction();
    signals<double>("f64");
    signals<float>("f32");
    if (at_.length <= 600) {
      bidirectional<double>("f64");
      bidirectional<float>("f32");
    }
  }

 private:
  void add(const std::string& pair, double error, double bound) { report_.add(pair, error, bound, at_); }

  template <class T>
  static std::span<const T> row(const std::vector<T>& values, std::size_t index, std::size_t size) {
    return std::span(values).subspan(index * size, size);
  }

  void kernels() {
    const std::size_t length = at_.length;
    const double bound = accuracy_bound(kappa_, false);
    const auto recurrence = exact_kernel(tf_, length, KernelMethod::recurrence);
    const auto division = exact_kernel(tf_, length, KernelMethod::division);
    const auto newton = exact_kernel(tf_, length, KernelMethod::newton);
    const bool on_circle = circle_minimum(2 * length) < 1e-3;
    const auto spectrum = on_circle ? std::vector<std::complex<double>>() : exact_spectrum(tf_, length);
    for (std::size_t c = 0; c < at_.channels; ++c) {
      kernel_.push_back(reference_kernel(tf_, c, length));
      add("kernel recurrence", error_of(row(recurrence, c, length), kernel_[c]), bound);
      add("kernel division", error_of(row(division, c, length), kernel_[c]), bound);
      add("kernel newton", error_of(row(newton, c, length), kernel_[c]), bound);
      // A few bins of the spectrum against the direct sum: the whole of it would cost length^2.
      for (std::size_t i = 0; i < 3 && !on_circle; ++i) {
        const std::size_t bin = random_.integer(0, length);
        std::complex<long double> sum = 0;
        long double size = 0;
        for (std::size_t t = 0; t < length; ++t) {
          const auto turn = static_cast<long double>(bin * t % (2 * length)) / static_cast<long double>(length);
          sum += kernel_[c][t] * std::polar(1.0L, -turn * 3.14159265358979323846264338327950288L);
          size += std::abs(kernel_[c][t]);
        }
        const std::complex<double> got = spectrum[c * (length + 1) + bin];
        add("kernel spectrum",
            static_cast<double>(std::abs(std::complex<long double>(got) - sum) / (size > 0 ? size : 1)),
            std::max(bound, 1e-13 / circle_minimum(2 * length)));
      }
    }
  }

  // min |A| on the `points`-th roots of unity: Algorithm 1 cannot do without its inverse.
  double circle_minimum(std::size_t points) const {
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t g = 0; g < at_.groups; ++g)
      least = std::min(least, min_abs_denominator(row(tf_.a, g, at_.order), points));
    return least;
  }

  // |a|_1 |1/A|_1 with 1/A taken modulo w^length = 1, as Algorithm 1 takes it.
  double wrapped_condition() const {
    auto impulse = make_coefficients<TrainedTransferFunction>(at_.groups, at_.groups, at_.order);
    impulse.length = at_.length;
    impulse.a = tf_.a;
    std::fill(impulse.h0.begin(), impulse.h0.end(), 0.0);
    if (at_.order > 0)
      for (std::size_t g = 0; g < at_.groups; ++g) impulse.b[g * at_.order] = 1.0;
    const auto response = wrapped_kernel(impulse);
    double worst = 1;
    for (std::size_t g = 0; g < at_.groups; ++g) {
      double norm = 1, sum = 0;
      for (const double a : row(tf_.a, g, at_.order)) norm += std::abs(a);
      for (const double value : row(response, g, at_.length)) sum += std::abs(value);
      worst = std::max(worst, norm * sum);
    }
    return worst;
  }

  void correction() {
    if (circle_minimum(at_.length) < 1e-6) return;  // Algorithm 1 is singular there; correction_test looks at that
    const double kappa = std::max(kappa_, wrapped_condition()), bound = accuracy_bound(kappa, false);
    const TrainedTransferFunction trained = wrap(tf_, at_.length);
    const auto wrapped = wrapped_kernel(trained);
    const TransferFunction back = correct(trained);
    // Any b may have been trained: here the plain one stands in for it.
    TrainedTransferFunction other;
    static_cast<Coefficients&>(other) = tf_;
    other.length = at_.length;
    const auto other_kernel = wrapped_kernel(other);
    const TransferFunction corrected = correct(other);
    const TrainedTransferFunction again = wrap(corrected, at_.length);
    for (std::size_t c = 0; c < at_.channels; ++c) {
      add("wrap, Algorithm 1", error_of(row(wrapped, c, at_.length), kernel_[c]), bound);
      const auto response = reference_kernel(corrected, c, at_.length);
      double scale = 0;
      for (const long double value : response) scale = std::max(scale, static_cast<double>(std::abs(value)));
      add("correct, recurrence", error_of(row(other_kernel, c, at_.length), response), bound);
      if (at_.order == 0) continue;
      add("correct after wrap", error_of(row(back.b, c, at_.order), row(tf_.b, c, at_.order), std::abs(tf_.h0[c])),
          bound);
      add("wrap after correct", error_of(row(again.b, c, at_.order), row(other.b, c, at_.order), scale), bound);
    }
  }

  template <class T>
  void signals(const std::string& type) {
    const std::size_t batch = at_.batch, length = at_.length, channels = at_.channels, n = at_.order;
    const double bound = accuracy_bound(kappa_, std::is_same_v<T, float>);
    const bool last = random_.chance(0.5);  // channels last
    const auto view = [&](auto* data) {
      return last ? channels_last(data, batch, length, channels) : length_last(data, batch, channels, length);
    };
    std::vector<T> u(batch * length * channels);
    std::vector<double> x0(batch * channels * n);
    for (T& value : u) value = static_cast<T>(random_.normal());
    for (double& value : x0) value = random_.normal();
    const Signal<const T> in = view(std::as_const(u).data());
    std::vector<ReferenceOutput> rest, moving;  // from the zero state and from x0
    for (std::size_t s = 0; s < batch; ++s)
      for (std::size_t c = 0; c < channels; ++c) {
        std::vector<T> samples(length);
        for (std::size_t t = 0; t < length; ++t) samples[t] = *in.at(s, t, c);
        rest.push_back(reference_filter<T>(tf_, c, samples));
        moving.push_back(reference_filter<T>(tf_, c, samples, row(x0, s * channels + c, n)));
      }
    const auto compare = [&](const std::string& pair, const std::vector<T>& y, const std::vector<double>& state,
                             const std::vector<ReferenceOutput>& reference) {
      const Signal<const T> out = view(y.data());
      for (std::size_t s = 0; s < batch; ++s)
        for (std::size_t c = 0; c < channels; ++c) {
          std::vector<T> samples(length);
          for (std::size_t t = 0; t < length; ++t) samples[t] = *out.at(s, t, c);
          const ReferenceOutput& r = reference[s * channels + c];
          add(pair + " " + type, error_of(samples, r.y), bound);
          if (!state.empty()) add(pair + " state " + type, error_of(row(state, s * channels + c, n), r.state), bound);
        }
    };

    std::vector<T> y(u.size());
    std::vector<double> xf(x0.size());
    std::vector<T> kernel(channels * length);
    for (std::size_t c = 0; c < channels; ++c) std::copy(kernel_[c].begin(), kernel_[c].end(), &kernel[c * length]);
    convolve<T>(in, kernel, view(y.data()));
    compare("convolve", y, {}, rest);
    for (const FilterMethod method : {FilterMethod::recurrence, FilterMethod::fft, FilterMethod::block}) {
      const std::string pair = std::string("filter ") + name(method);
      FilterOptions options{method, false, false, random_.integer(1, length)};
      run_plan<T>(options, in, view(y.data()), {}, {});
      compare(pair, y, {}, rest);
      options.initial_state = options.final_state = true;
      run_plan<T>(options, in, view(y.data()), x0, xf);
      compare(pair + " with state", y, xf, moving);
    }
    filter<T>(tf_, in, view(y.data()), x0, xf);
    compare("filter auto with state", y, xf, moving);

    stepping<T>(in, view(y.data()), x0, xf);
    compare("step", y, xf, moving);
    splits<T>(in, view(y.data()), x0, xf);
    compare("prefill in chunks", y, xf, moving);
    packed<T>(type, in, bound);
    if (type == "f64") advance(x0, bound);
  }

  template <class T>
  void run_plan(const FilterOptions& options, Signal<const T> u, Signal<T> y, std::span<const double> x0, std::span<double> xf) {
    const FilterPlan<T> plan(tf_, u.batch, u.length, options);
    std::vector<std::byte> workspace(plan.workspace_bytes(default_executor()));
    filter<T>(plan, u, y, x0, xf, {}, workspace, default_executor());
  }

  template <class T>
  void stepping(Signal<const T> u, Signal<T> y, const std::vector<double>& x0, std::vector<double>& state) {
    state = x0;
    std::vector<T> in(at_.batch * at_.channels), out(in.size());
    for (std::size_t t = 0; t < at_.length; ++t) {
      for (std::size_t i = 0; i < in.size(); ++i) in[i] = *u.at(i / at_.channels, t, i % at_.channels);
      step<T>(tf_, in, state, out);
      for (std::size_t i = 0; i < in.size(); ++i) *y.at(i / at_.channels, t, i % at_.channels) = out[i];
    }
  }

  template <class T>
  void splits(Signal<const T> u, Signal<T> y, const std::vector<double>& x0, std::vector<double>& state) {
    state = x0;
    for (std::size_t first = 0; first < at_.length;) {
      const std::size_t count = random_.integer(1, std::max<std::size_t>(1, at_.length - first));
      Signal<const T> part = u;
      Signal<T> out = y;
      part.data = u.at(0, first, 0);
      out.data = y.at(0, first, 0);
      part.length = out.length = count;
      prefill<T>(tf_, part, state, out);
      first += count;
    }
  }

  // The first sequence cut into several that know nothing of each other.
  template <class T>
  void packed(const std::string& type, Signal<const T> u, double bound) {
    std::vector<std::size_t> offsets{0, at_.length};
    for (int i = 0; i < 3; ++i) offsets.push_back(random_.integer(0, at_.length));
    std::sort(offsets.begin(), offsets.end());
    Signal<const T> one = u;
    one.batch = 1;
    const std::size_t n = at_.order, sequences = offsets.size() - 1;
    std::vector<T> y(at_.length * at_.channels);
    std::vector<double> x0(sequences * at_.channels * n), xf(x0.size());
    for (double& value : x0) value = random_.normal();
    const auto out = channels_last(y.data(), 1, at_.length, at_.channels);
    const FilterMethod methods[] = {FilterMethod::recurrence, FilterMethod::fft, FilterMethod::block};
    const FilterMethod method = methods[random_.integer(0, 2)];
    filter<T>(tf_, one, out, x0, xf, method, offsets);
    for (std::size_t s = 0; s < sequences; ++s)
      for (std::size_t c = 0; c < at_.channels; ++c) {
        std::vector<T> samples, got;
        for (std::size_t t = offsets[s]; t < offsets[s + 1]; ++t) {
          samples.push_back(*one.at(0, t, c));
          got.push_back(*out.at(0, t, c));
        }
        const auto r = reference_filter<T>(tf_, c, samples, row(x0, s * at_.channels + c, n));
        add("packed " + type, error_of(got, r.y), bound);
        if (n > 0) add("packed state " + type, error_of(row(xf, s * at_.channels + c, n), r.state), bound);
      }
  }

  void advance(const std::vector<double>& state, double bound) {
    if (at_.order == 0) return;
    const auto got = advance_state(tf_, state, at_.length);
    for (std::size_t i = 0; i < at_.batch * at_.channels; ++i) {
      const std::vector<double> silence(at_.length, 0.0);
      const auto from = row(state, i, at_.order);
      const auto r = reference_filter<double>(tf_, i % at_.channels, silence, from);
      double scale = 0;
      for (const double value : from) scale = std::max(scale, std::abs(value));
      add("advance_state", error_of(row(got, i, at_.order), r.state, scale), bound);
    }
  }

  template <class T>
  void bidirectional(const std::string& type) {
    const std::size_t length = at_.length, channels = at_.channels, samples = random_.integer(1, length);
    std::vector<T> kernels(2 * channels * length), u(at_.batch * samples * channels), y(u.size());
    for (T& value : kernels) value = static_cast<T>(random_.normal());
    for (T& value : u) value = static_cast<T>(random_.normal());
    const auto in = length_last<const T>(u.data(), at_.batch, channels, samples);
    const auto out = length_last(y.data(), at_.batch, channels, samples);
    convolve<T>(in, kernels, out, Direction::bidirectional);
    for (std::size_t s = 0; s < at_.batch; ++s)
      for (std::size_t c = 0; c < channels; ++c) {
        const T *forward = &kernels[c * length], *backward = &kernels[(channels + c) * length];
        std::vector<long double> expected(samples, 0.0L);
        std::vector<T> got(samples);
        for (std::size_t t = 0; t < samples; ++t) {
          for (std::size_t j = 0; j < samples; ++j)
            expected[t] += static_cast<long double>(j <= t ? forward[t - j] : backward[j - t - 1]) * *in.at(s, j, c);
          got[t] = *out.at(s, t, c);
        }
        add("bidirectional " + type, error_of(got, expected), accuracy_bound(1, std::is_same_v<T, float>));
      }
  }

  Case at_;
  Report& report_;
  RandomFilters random_;
  TransferFunction tf_;
  double kappa_;
  std::vector<std::vector<long double>> kernel_;
};

}  // namespace rtf::testing
