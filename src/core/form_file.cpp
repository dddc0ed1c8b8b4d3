#include "core/form_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "core/file_errors.h"
#include "core/filter_json.h"
#include "core/printable.h"

namespace rtf {
namespace {

using nlohmann::json;
using ComplexRow = std::vector<std::complex<double>>;

// One object of a file: its numbers by name, and where it is for messages.
class Reader {
 public:
  Reader(const json& object, const std::string& path, std::string place)
      : object_(object), path_(path), place_(std::move(place)) {
    if (!object.is_object()) fail_reading(path, fmt::format("{} is {}, expected an object", place_, json_text(object)));
  }

  // Throws for a key that is none of these, and for one that is missing.
  void expect(const char* form, std::initializer_list<const char*> required,
              std::initializer_list<const char*> optional = {}) const {
    const auto among = [](const auto& list, const std::string& key) {
      return std::any_of(list.begin(), list.end(), [&](const char* name) { return key == name; });
    };
    std::string names;
    for (const char* name : required) names += (names.empty() ? "" : ", ") + std::string(name);
    for (const auto& [key, value] : object_.items())
      if (!(key == "form" && place_.empty()) && !among(required, key) && !among(optional, key))
        fail_reading(path_, fmt::format("unknown key '{}', form {} has {}", at(printable(key)), form, names));
    for (const char* name : required)
      if (!object_.contains(name))
        fail_reading(path_, fmt::format("has no '{}', form {} has {}", at(name), form, names));
  }

  double number(const char* name, double absent = 0) const {
    return object_.contains(name) ? json_number(object_[name], path_, at(name)) : absent;
  }
  std::vector<double> row(const char* name) const { return json_row(object_[name], path_, at(name)); }
  JsonMatrix matrix(const char* name) const { return json_matrix(object_[name], path_, at(name)); }

  // A number, or [real, imaginary].
  ComplexRow complex_row(const char* name) const {
    const json& list = object_[name];
    if (!list.is_array()) fail_reading(path_, fmt::format("{} is {}, expected a list", at(name), json_text(list)));
    ComplexRow values;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::string place = fmt::format("{}[{}]", at(name), i);
      if (list[i].is_number()) {
        values.push_back(list[i].get<double>());
        continue;
      }
      if (!list[i].is_array() || list[i].size() != 2)
        fail_reading(path_, fmt::format("{} is {}, expected a number or [real, imaginary]", place, json_text(list[i])));
      const std::vector<double> parts = json_row(list[i], path_, place);
      values.emplace_back(parts[0], parts[1]);
    }
    return values;
  }

  std::string at(const std::string& name) const { return place_.empty() ? name : place_ + "." + name; }
  std::string message(const std::string& text) const { return place_.empty() ? text : place_ + ": " + text; }
  const std::string& path() const { return path_; }
  const json& operator[](const char* name) const { return object_[name]; }

 private:
  const json& object_;
  const std::string& path_;
  std::string place_;
};

PolynomialRatio read_ratio(const Reader& reader) {
  reader.expect("ba", {"b", "a"});
  return {reader.row("b"), reader.row("a")};
}

Modal read_modal(const Reader& reader) {
  reader.expect("modal", {"poles", "residues"}, {"h0"});
  return {reader.complex_row("poles"), reader.complex_row("residues"), reader.number("h0")};
}

ZeroPoleGain read_zero_pole_gain(const Reader& reader) {
  reader.expect("zpk", {"zeros", "poles", "gain"}, {"h0"});
  return {reader.complex_row("zeros"), reader.complex_row("poles"), reader.number("gain"), reader.number("h0")};
}

SecondOrderSections read_sections(const Reader& reader) {
  reader.expect("sos", {"sections"});
  const JsonMatrix matrix = reader.matrix("sections");
  if (matrix.columns != 6)
    fail_reading(reader.path(), fmt::format("{} has rows of {} values, expected b0, b1, b2, a0, a1, a2",
                                            reader.at("sections"), matrix.columns));
  SecondOrderSections sos;
  sos.sections.resize(matrix.rows);
  for (std::size_t i = 0; i < matrix.values.size(); ++i) sos.sections[i / 6][i % 6] = matrix.values[i];
  return sos;
}

// B of one input and C of one output may be flat, and D a number.
StateSpace read_state_space(const Reader& reader) {
  reader.expect("ss", {"A", "B", "C", "D"});
  JsonMatrix a = reader.matrix("A"), b = reader.matrix("B"), c = reader.matrix("C"), d;
  if (reader["D"].is_number()) {
    d = {1, 1, {reader.number("D")}, false};
  } else {
    d = reader.matrix("D");
  }
  StateSpace s;
  s.order = a.columns;
  if (a.flat && a.columns <= 1) a.rows = a.columns;
  if (b.flat) std::swap(b.rows, b.columns);
  s.outputs = d.rows;
  s.inputs = d.columns;
  // At order 0 an empty list stands for B without rows and C without columns.
  if (s.order == 0 && b.values.empty()) b = {0, s.inputs, {}, true};
  if (s.order == 0 && c.values.empty()) c = {s.outputs, 0, {}, true};
  const auto check = [&](const char* name, const JsonMatrix& m, std::size_t rows, std::size_t columns) {
    if (m.rows != rows || m.columns != columns)
      fail_reading(reader.path(), fmt::format("{} is ({}, {}), expected ({}, {}) by the sizes of A and D",
                                              reader.at(name), m.rows, m.columns, rows, columns));
  };
  check("A", a, s.order, s.order);
  check("B", b, s.order, s.inputs);
  check("C", c, s.outputs, s.order);
  s.A = std::move(a.values);
  s.B = std::move(b.values);
  s.C = std::move(c.values);
  s.D = std::move(d.values);
  return s;
}

// Errors of what the numbers mean name the file and the channel, as those of the syntax do.
template <class Value>
void check_in_file(const Value& value, const Reader& reader) {
  try {
    validate(value, "read_filter");
  } catch (const Error& error) {
    fail_reading(reader.path(), reader.message(without_operation(error)));
  }
}

MimoTransferFunction read_mimo(const Reader& reader) {
  reader.expect("mimo", {"a", "b", "h0"});
  MimoTransferFunction tf;
  tf.a = reader.row("a");
  tf.order = tf.a.size();
  const JsonMatrix h0 = reader.matrix("h0");
  tf.outputs = h0.rows;
  tf.inputs = h0.columns;
  tf.h0 = h0.values;
  const json& b = reader["b"];
  if (!b.is_array() || b.size() != tf.outputs)
    fail_reading(reader.path(), fmt::format("b is {}, expected a list of {} outputs", json_text(b), tf.outputs));
  for (std::size_t i = 0; i < b.size(); ++i) {
    JsonMatrix row = json_matrix(b[i], reader.path(), fmt::format("b[{}]", i));
    if (row.values.empty() && tf.order == 0) row = {tf.inputs, 0, {}, true};
    if (row.rows != tf.inputs || row.columns != tf.order)
      fail_reading(reader.path(), fmt::format("b[{}] is ({}, {}), expected (inputs, order) = ({}, {})", i, row.rows,
                                              row.columns, tf.inputs, tf.order));
    tf.b.insert(tf.b.end(), row.values.begin(), row.values.end());
  }
  check_in_file(tf, reader);
  return tf;
}

System read_channel(const std::string& form, const Reader& reader) {
  const auto checked = [&](System system) {
    check_in_file(system, reader);
    return system;
  };
  if (form == "ba") return checked(read_ratio(reader));
  if (form == "modal") return checked(read_modal(reader));
  if (form == "zpk") return checked(read_zero_pole_gain(reader));
  if (form == "sos") return checked(read_sections(reader));
  return checked(read_state_space(reader));
}

// --- writing ------------------------------------------------------------------------------------------------------

using Fields = std::vector<std::pair<const char*, std::string>>;

std::string complex_rows(const ComplexRow& values, std::size_t indent) {
  std::vector<double> parts;
  for (const auto& x : values) {
    parts.push_back(x.real());
    parts.push_back(x.imag());
  }
  return values.empty() ? "[]" : matrix_text(parts.data(), values.size(), 2, indent);
}

Fields fields(const PolynomialRatio& ratio, std::size_t) {
  return {{"b", row_text(ratio.b.data(), ratio.b.size())}, {"a", row_text(ratio.a.data(), ratio.a.size())}};
}
Fields fields(const StateSpace& s, std::size_t indent) {
  return {{"A", matrix_text(s.A.data(), s.order, s.order, indent)},
          {"B", matrix_text(s.B.data(), s.order, s.inputs, indent)},
          {"C", matrix_text(s.C.data(), s.outputs, s.order, indent)},
          {"D", matrix_text(s.D.data(), s.outputs, s.inputs, indent)}};
}
Fields fields(const Modal& modal, std::size_t indent) {
  return {{"poles", complex_rows(modal.poles, indent)},
          {"residues", complex_rows(modal.residues, indent)},
          {"h0", number_text(modal.h0)}};
}
Fields fields(const ZeroPoleGain& zpk, std::size_t indent) {
  return {{"zeros", complex_rows(zpk.zeros, indent)},
          {"poles", complex_rows(zpk.poles, indent)},
          {"gain", number_text(zpk.gain)},
          {"h0", number_text(zpk.h0)}};
}
Fields fields(const SecondOrderSections& sos, std::size_t indent) {
  return {{"sections", matrix_text(sos.sections.data()->data(), sos.sections.size(), 6, indent)}};
}
Fields fields(const MimoTransferFunction& tf, std::size_t indent) {
  std::string b = "[";
  for (std::size_t i = 0; i < tf.outputs; ++i)
    b += (i > 0 ? ", " : "") + matrix_text(tf.b.data() + i * tf.inputs * tf.order, tf.inputs, tf.order, indent);
  return {{"a", row_text(tf.a.data(), tf.order)},
          {"b", b + "]"},
          {"h0", matrix_text(tf.h0.data(), tf.outputs, tf.inputs, indent)}};
}
Fields fields(const TransferFunction&, std::size_t) {
  throw Error(ErrorCode::argument, "write_filter", "transfer functions are written together, not channel by channel");
}

std::string object_text(const char* form, const Fields& fields, std::size_t indent) {
  const std::string margin(indent, ' ');
  std::string text = form ? fmt::format("{}  \"form\": \"{}\"", margin, form) : "";
  for (const auto& [name, value] : fields)
    text += fmt::format("{}{}  \"{}\": {}", text.empty() ? "" : ",\n", margin, name, value);
  return "{\n" + text + "\n" + margin + "}";
}

}  // namespace

AnyFilter read_form(const json& file, const std::string& path) {
  const json& value = file["form"];
  const std::string form = value.is_string() ? value.get<std::string>() : "";
  if (form != "ba" && form != "ss" && form != "modal" && form != "zpk" && form != "sos" && form != "mimo")
    fail_reading(path, fmt::format("form is {}, expected tf, ba, ss, modal, zpk, sos or mimo", json_text(value)));
  if (form == "mimo") {
    MimoTransferFunction mimo = read_mimo(Reader(file, path, ""));
    if (mimo.inputs != 1 || mimo.outputs != 1) return mimo;
    // One input and one output are a channel, which every command takes.
    TransferFunction tf = make_coefficients(1, 1, mimo.order);
    tf.a = std::move(mimo.a);
    tf.b = std::move(mimo.b);
    tf.h0 = std::move(mimo.h0);
    return tf;
  }
  if (!file.contains("channels")) {
    const Reader reader(file, path, "");
    if (form == "ss") {
      StateSpace system = read_state_space(reader);
      if (system.inputs != 1 || system.outputs != 1) {
        check_in_file(system, reader);
        return system;
      }
    }
    return std::vector<System>{read_channel(form, reader)};
  }
  Reader(file, path, "").expect(form.c_str(), {"channels"});
  const json& channels = file["channels"];
  if (!channels.is_array() || channels.empty())
    fail_reading(path, fmt::format("channels is {}, expected a list of objects", json_text(channels)));
  std::vector<System> systems;
  for (std::size_t i = 0; i < channels.size(); ++i)
    systems.push_back(read_channel(form, Reader(channels[i], path, fmt::format("channels[{}]", i))));
  return systems;
}

std::string form_text(const std::vector<System>& systems) {
  if (systems.empty()) throw Error(ErrorCode::argument, "write_filter", "no channels; at least one is needed");
  const char* form = form_name(systems[0]);
  const auto object = [&](const System& system, const char* name, std::size_t indent) {
    validate(system, "write_filter");
    return object_text(name, std::visit([&](const auto& value) { return fields(value, indent + 2); }, system), indent);
  };
  if (systems.size() == 1) return object(systems[0], form, 0) + "\n";
  std::string text;
  for (const System& system : systems) text += (text.empty() ? "\n    " : ",\n    ") + object(system, nullptr, 4);
  return fmt::format("{{\n  \"form\": \"{}\",\n  \"channels\": [{}\n  ]\n}}\n", form, text);
}

std::string form_text(const StateSpace& system) {
  validate(system, "write_filter");
  return object_text("ss", fields(system, 2), 0) + "\n";
}

std::string form_text(const MimoTransferFunction& tf) { return object_text("mimo", fields(tf, 2), 0) + "\n"; }

}  // namespace rtf
