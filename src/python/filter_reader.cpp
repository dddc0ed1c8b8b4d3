#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "python/filter_values.h"
#include "rtf/lfilter.h"

namespace rtf::python {
namespace {

using Complex = std::complex<double>;

// Numbers of one or several rows.
struct Rows {
  std::span<const double> numbers;
  std::size_t rows = 1, columns = 0;
  bool axis = false;

  Rows(const std::string& operation, const char* name, const In<double>& array) : numbers(values(array)) {
    if (array.ndim() != 1 && array.ndim() != 2)
      refuse(operation, fmt::format("{} has shape {}; (coefficients) or (rows, coefficients) is needed", name,
                                    shape_text(shape_of(array))));
    axis = array.ndim() == 2;
    columns = array.shape(array.ndim() - 1);
    if (axis) rows = array.shape(0);
    if (rows == 0) refuse(operation, fmt::format("{} has no rows", name));
  }

  // Each of `count` channels gets a row.
  std::vector<double> repeated(const std::string& operation, const char* name, std::size_t count) const {
    if (rows != 1 && rows != count)
      refuse(operation, fmt::format("{} has {} rows; there are {} channels", name, rows, count));
    std::vector<double> all;
    for (std::size_t c = 0; c < count; ++c) {
      const auto row = numbers.subspan(rows > 1 ? c * columns : 0, columns);
      all.insert(all.end(), row.begin(), row.end());
    }
    return all;
  }
};

// What the fields of a form say, in their order.
class Fields {
 public:
  Fields(const std::string& operation, const Packed& form) : operation_(operation), form_(form) {}

  In<double> real(std::size_t i) const { return nb::cast<In<double>>(form_.second[i]); }
  double number(std::size_t i, const char* name) const {
    const In<double> array = real(i);
    if (array.size() != 1)
      refuse(operation_, fmt::format("{} of a {} has shape {}; a number is needed", name, form_.first,
                                     shape_text(shape_of(array))));
    return array.data()[0];
  }
  std::vector<Complex> complex(std::size_t i) const {
    const auto array = nb::cast<In<Complex>>(form_.second[i]);
    return {array.data(), array.data() + array.size()};
  }
  // (rows, columns), or of as many numbers.
  std::vector<double> matrix(std::size_t i, const char* name, std::size_t rows, std::size_t columns) const {
    const In<double> array = real(i);
    if (array.size() != rows * columns || (array.ndim() == 2 && array.shape(0) != rows))
      refuse(operation_, fmt::format("{} of a {} has shape {}; ({}, {}) is needed", name, form_.first,
                                     shape_text(shape_of(array)), rows, columns));
    return {array.data(), array.data() + array.size()};
  }

 private:
  const std::string& operation_;
  const Packed& form_;
};

StateSpace read_state_space(const std::string& operation, const Fields& fields) {
  StateSpace system;
  const In<double> matrix = fields.real(0), in = fields.real(1), out = fields.real(2);
  system.order = matrix.size() == 0 ? 0 : matrix.shape(0);
  if (in.ndim() == 2) system.inputs = in.shape(1);
  if (out.ndim() == 2) system.outputs = out.shape(0);
  if (system.inputs == 0 || system.outputs == 0)
    refuse(operation, fmt::format("an ss of {} inputs and {} outputs; at least one of each is needed", system.inputs,
                                  system.outputs));
  system.A = fields.matrix(0, "A", system.order, system.order);
  system.B = fields.matrix(1, "B", system.order, system.inputs);
  system.C = fields.matrix(2, "C", system.outputs, system.order);
  system.D = fields.matrix(3, "D", system.outputs, system.inputs);
  return system;
}

MimoTransferFunction read_mimo(const std::string& operation, const Fields& fields) {
  MimoTransferFunction tf;
  const In<double> a = fields.real(0), b = fields.real(1), h0 = fields.real(2);
  if (a.ndim() != 1 || b.ndim() != 3 || h0.ndim() != 2 || b.shape(2) != a.shape(0) || b.shape(0) != h0.shape(0) ||
      b.shape(1) != h0.shape(1))
    refuse(operation,
           fmt::format("a mimo of shapes {}, {} and {}; (order), (outputs, inputs, order) and (outputs, inputs) are "
                       "needed",
                       shape_text(shape_of(a)), shape_text(shape_of(b)), shape_text(shape_of(h0))));
  tf.order = a.shape(0);
  tf.outputs = h0.shape(0);
  tf.inputs = h0.shape(1);
  tf.a.assign(a.data(), a.data() + a.size());
  tf.b.assign(b.data(), b.data() + b.size());
  tf.h0.assign(h0.data(), h0.data() + h0.size());
  return tf;
}

SecondOrderSections read_sections(const std::string& operation, const Fields& fields) {
  const In<double> rows = fields.real(0);
  if (rows.size() % 6 != 0 || (rows.ndim() == 2 && rows.shape(1) != 6))
    refuse(operation,
           fmt::format("the sections of a sos have shape {}; (sections, 6) is needed", shape_text(shape_of(rows))));
  SecondOrderSections sos;
  sos.sections.resize(rows.size() / 6);
  for (std::size_t i = 0; i < rows.size(); ++i) sos.sections[i / 6][i % 6] = rows.data()[i];
  return sos;
}

std::vector<System> ratios(const std::string& operation, const In<double>& b, const In<double>& a, bool& axis) {
  const Rows above(operation, "b", b), below(operation, "a", a);
  axis = above.axis || below.axis;
  const std::size_t channels = std::max(above.rows, below.rows);
  if (channels % below.rows != 0)
    refuse(operation, fmt::format("a has {} rows, which do not divide the {} channels", below.rows, channels));
  if (above.rows != 1 && above.rows != channels)
    refuse(operation, fmt::format("b has {} rows; there are {} channels", above.rows, channels));
  std::vector<System> systems;
  for (std::size_t c = 0; c < channels; ++c) {
    const auto b_row = above.numbers.subspan(above.rows > 1 ? c * above.columns : 0, above.columns);
    const auto a_row = below.numbers.subspan(c / (channels / below.rows) * below.columns, below.columns);
    systems.push_back(PolynomialRatio{{b_row.begin(), b_row.end()}, {a_row.begin(), a_row.end()}});
  }
  return systems;
}

FilterValue read_one(const std::string& operation, const Packed& from) {
  const std::string& form = from.first;
  const Fields fields(operation, from);
  if (form == "tf" || form == "trained") {
    const In<double> a = fields.real(0), b = fields.real(1);
    const std::optional<In<double>> h0 = fields.real(2);
    const CoefficientArrays arrays{a, b, h0};
    TransferFunction tf = read_coefficients(operation, arrays);
    if (form == "tf") return {std::move(tf), have_rows(arrays)};
    const auto length = nb::cast<std::int64_t>(from.second[3]);
    if (length < 1)
      refuse(operation, fmt::format("the length of a trained filter is {}; at least 1 is needed", length));
    return {TrainedTransferFunction{std::move(tf), static_cast<std::size_t>(length)}, have_rows(arrays)};
  }
  if (form == "ba") {
    FilterValue value;
    value.filter = ratios(operation, fields.real(0), fields.real(1), value.rows);
    return value;
  }
  if (form == "ss") {
    StateSpace system = read_state_space(operation, fields);
    if (system.inputs > 1 || system.outputs > 1) return {std::move(system), false};
    return {std::vector<System>{std::move(system)}, false};
  }
  if (form == "mimo") return {read_mimo(operation, fields), false};
  if (form == "modal")
    return {std::vector<System>{Modal{fields.complex(0), fields.complex(1), fields.number(2, "h0")}}, false};
  if (form == "zpk")
    return {std::vector<System>{
                ZeroPoleGain{fields.complex(0), fields.complex(1), fields.number(2, "gain"), fields.number(3, "h0")}},
            false};
  return {std::vector<System>{read_sections(operation, fields)}, false};
}

}  // namespace

bool have_rows(const CoefficientArrays& from) {
  return from.a.ndim() == 2 || from.b.ndim() == 2 || (from.h0 && from.h0->ndim() == 1);
}

TransferFunction read_coefficients(const std::string& operation, const CoefficientArrays& from,
                                   std::optional<std::size_t> channels) {
  const Rows a(operation, "a", from.a), b(operation, "b", from.b);
  if (from.h0 && from.h0->ndim() > 1)
    refuse(operation, fmt::format("h0 has shape {}; a number or (channels) is needed", shape_text(shape_of(*from.h0))));
  const std::size_t h0_rows = from.h0 && from.h0->ndim() == 1 ? from.h0->size() : 1;
  const std::size_t count = channels ? *channels : std::max({a.rows, b.rows, h0_rows});
  if (count % a.rows != 0)
    refuse(operation, fmt::format("a has {} rows, which do not divide the {} channels", a.rows, count));
  if (!from.h0) {
    const std::vector<double> numerators = b.repeated(operation, "b", count);
    return computing(operation, [&] { return from_ratios(numerators, a.numbers, count, a.rows); });
  }
  if (a.columns != b.columns)
    refuse(operation, fmt::format("a has {} coefficients and b has {}; beside h0 both have as many as the order",
                                  a.columns, b.columns));
  if (h0_rows != 1 && h0_rows != count)
    refuse(operation, fmt::format("h0 has {} numbers; there are {} channels", h0_rows, count));
  TransferFunction tf = make_coefficients(count, a.rows, a.columns);
  std::copy(a.numbers.begin(), a.numbers.end(), tf.a.begin());
  tf.b = b.repeated(operation, "b", count);
  for (std::size_t c = 0; c < count; ++c) tf.h0[c] = from.h0->data()[h0_rows > 1 ? c : 0];
  validate(tf, operation.c_str());
  return tf;
}

FilterValue read_filter(const std::string& operation, const PackedFilter& from) {
  if (const auto* one = std::get_if<Packed>(&from)) return read_one(operation, *one);
  const auto& list = std::get<std::vector<Packed>>(from);
  std::vector<System> systems;
  std::vector<TransferFunction> plain;
  for (std::size_t c = 0; c < list.size(); ++c) {
    if (list[c].first != list[0].first)
      refuse(operation,
             fmt::format("channel {} is a {} and channel 0 a {}; one form is needed", c, list[c].first, list[0].first));
    FilterValue one = read_one(operation, list[c]);
    auto* found = std::get_if<std::vector<System>>(&one.filter);
    auto* tf = std::get_if<TransferFunction>(&one.filter);
    if (one.rows || (!found && !tf))
      refuse(operation,
             fmt::format("channel {} of the list is a {} {}; a list has plain filters of one channel each", c,
                         list[c].first, one.rows ? "of several channels" : "filter"));
    if (found) systems.push_back(std::move(found->front()));
    if (tf) plain.push_back(std::move(*tf));
  }
  if (!plain.empty()) return {join_channels(plain), true};
  return {std::move(systems), true};
}

Shape RunnableValue::shape(std::size_t n) const { return rows ? Shape{channels_of(filter), n} : Shape{n}; }

std::string form_of(const PackedFilter& from) {
  const auto* one = std::get_if<Packed>(&from);
  return (one ? *one : std::get<std::vector<Packed>>(from).front()).first;
}

FilterValue read_with_coefficients(const std::string& operation, const PackedFilter& from) {
  const auto* one = std::get_if<Packed>(&from);
  if (!one || one->first != "ba") return read_filter(operation, from);
  const Fields fields(operation, *one);
  const In<double> b = fields.real(0), a = fields.real(1);
  const std::optional<In<double>> no_h0;
  const CoefficientArrays arrays{a, b, no_h0};
  return {read_coefficients(operation, arrays), have_rows(arrays)};
}

RunnableValue read_runnable(const std::string& operation, const PackedFilter& from) {
  FilterValue value = read_with_coefficients(operation, from);
  const std::string name = "the " + form_of(from);
  return {computing(operation, [&] { return to_runnable(std::move(value.filter), name); }), value.rows, name};
}

}  // namespace rtf::python
