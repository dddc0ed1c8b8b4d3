// lfilter, kernel, convolve, correct and wrap of rtf.functions.
#include <fmt/format.h>
#include <nanobind/stl/optional.h>

#include "python/bindings.h"
#include "python/filter_values.h"
#include "rtf/convolution.h"
#include "rtf/correction.h"
#include "rtf/lfilter.h"

namespace rtf::python {
namespace {

// (..., length), or (..., channels, length) with rows, as (batch, channels, length).
struct Sizes {
  std::size_t batch = 1, channels = 1, length = 0;

  Sizes(const char* operation, const Shape& shape, bool rows) {
    const std::size_t axes = rows ? 2 : 1;
    if (shape.size() < axes)
      refuse(operation, fmt::format("x has shape {}; {} is needed", shape_text(shape),
                                    rows ? "(..., channels, length)" : "(..., length)"));
    length = shape.back();
    if (rows) channels = shape[shape.size() - 2];
    for (std::size_t i = 0; i + axes < shape.size(); ++i) batch *= shape[i];
    if (channels == 0) refuse(operation, fmt::format("x has shape {}: there are no channels", shape_text(shape)));
  }
};

template <class T>
nb::tuple lfilter(const In<T>& x, const In<double>& a, const In<double>& b, const std::optional<In<double>>& h0,
                  const std::optional<In<double>>& zi, bool return_zf) {
  constexpr const char* operation = "lfilter";
  const CoefficientArrays arrays{a, b, h0};
  const Sizes sizes(operation, shape_of(x), have_rows(arrays));
  const TransferFunction tf = read_coefficients(operation, arrays, sizes.channels);
  Buffer<T> y(x.size());
  Buffer<double> zf(return_zf ? sizes.batch * sizes.channels * tf.order : 0);
  computing(operation, [&] {
    const Signal<const T> from = length_last(x.data(), sizes.batch, sizes.channels, sizes.length);
    const Signal<T> to = length_last(y.data(), sizes.batch, sizes.channels, sizes.length);
    rtf::lfilter<T>(tf, from, to, zi ? values(*zi) : std::span<const double>(), zf.span());
  });
  if (!return_zf) return nb::make_tuple(y.to_numpy(shape_of(x)), nb::none());
  Shape states = shape_of(x);
  states.back() = tf.order;
  return nb::make_tuple(y.to_numpy(shape_of(x)), zf.to_numpy(states));
}

template <class T>
Out convolve(const In<T>& x, const In<T>& kernel, bool bidirectional) {
  constexpr const char* operation = "convolve";
  // rtf.convolve has seen to the shapes, for tensors too.
  const Sizes sizes(operation, shape_of(x), kernel.ndim() == (bidirectional ? 3 : 2));
  Buffer<T> y(x.size());
  computing(operation, [&] {
    if (x.size() == 0) return;
    rtf::convolve<T>(length_last(x.data(), sizes.batch, sizes.channels, sizes.length), values(kernel),
                     length_last(y.data(), sizes.batch, sizes.channels, sizes.length),
                     bidirectional ? Direction::bidirectional : Direction::causal);
  });
  return y.to_numpy(shape_of(x));
}

Out kernel(const PackedFilter& from, std::size_t length, const std::string& method) {
  const RunnableValue value = read_runnable("kernel", from);
  const auto found = computing("kernel", [&] {
    require_kernel_memory("kernel", channels_of(value.filter), length);
    return kernel_of(value.name, value.filter, length, method);
  });
  return to_numpy(found, value.shape(length));
}

template <class Value>
Value expected(const char* operation, const FilterValue& value, const char* name) {
  const auto* found = std::get_if<Value>(&value.filter);
  if (!found) refuse(operation, fmt::format("the filter is not {}", name));
  return *found;
}

nb::object correct(const PackedFilter& from) {
  const FilterValue value = read_filter("correct", from);
  const auto trained = expected<TrainedTransferFunction>("correct", value, "an rtf.TrainedTransferFunction");
  return write_filter(computing("correct", [&] { return rtf::correct(trained); }), value.rows);
}

nb::object wrap(const PackedFilter& from, std::size_t length) {
  const FilterValue value = read_filter("wrap", from);
  const auto tf = expected<TransferFunction>("wrap", value, "an rtf.TransferFunction");
  return write_filter(computing("wrap", [&] { return rtf::wrap(tf, length); }), value.rows);
}

template <class T>
void add_signals(nb::module_& m) {
  m.def("lfilter", &lfilter<T>, nb::arg("x").noconvert(), nb::arg("a"), nb::arg("b"), nb::arg("h0").none(),
        nb::arg("zi").none(), nb::arg("return_zf"));
  m.def("convolve", &convolve<T>, nb::arg("x").noconvert(), nb::arg("kernel").noconvert(), nb::arg("bidirectional"));
}

}  // namespace

void add_functions(nb::module_& m) {
  add_signals<float>(m);
  add_signals<double>(m);
  m.def("kernel", &kernel, nb::arg("filter"), nb::arg("length"), nb::arg("method"));
  m.def("correct", &correct, nb::arg("filter"));
  m.def("wrap", &wrap, nb::arg("filter"), nb::arg("length"));
}

}  // namespace rtf::python
