// Whole sequences through a model file: what rtf.Sequences wraps.
#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <type_traits>
#include <variant>

#include "python/arrays.h"
#include "python/bindings.h"
#include "rtf/stream.h"

namespace rtf::python {
namespace {

using stream::Model;

class Sequences {
 public:
  explicit Sequences(const ModelFile& file) : model_(load(file)) {}

  const Architecture& architecture() const {
    return std::visit([](const auto& model) -> const Architecture& { return model.architecture(); }, model_);
  }
  std::size_t inputs() const {
    return std::visit([](const auto& model) { return model.inputs(); }, model_);
  }
  std::size_t outputs() const { return architecture().outputs; }
  std::size_t vocabulary() const { return architecture().vocabulary; }
  const char* precision() const { return std::holds_alternative<Model<float>>(model_) ? "f32" : "f64"; }

  template <class Number>
  Out process(const In<Number>& x) const {
    constexpr const char* operation = "Sequences::process";
    if (x.ndim() != 3 || x.shape(1) == 0 || x.shape(2) != inputs())
      refuse(operation, fmt::format("x has shape {}; (batch, length, {}) is needed, of at least one sample",
                                    shape_text(shape_of(x)), inputs()));
    return std::visit(
        [&]<class T>(const Model<T>& model) -> Out {
          if constexpr (std::is_same_v<Number, std::int64_t> || std::is_same_v<Number, T>) return run(model, x);
          refuse(operation, fmt::format("the model takes numbers of {}", precision()));
        },
        model_);
  }

 private:
  using AnyModel = std::variant<Model<float>, Model<double>>;

  static AnyModel load(const ModelFile& file) {
    return file.precision == DataType::f32 ? AnyModel(Model<float>(file)) : AnyModel(Model<double>(file));
  }

  // Memory for the call alone, so that threads may share the model.
  template <class T, class Number>
  static Out run(const Model<T>& model, const In<Number>& x) {
    const Architecture& a = model.architecture();
    const bool pair = a.decoder == Architecture::Decoder::pair, once = pair || a.decoder == Architecture::Decoder::pool;
    const std::size_t batch = x.shape(0), length = x.shape(1);
    const std::size_t answers = pair ? batch / 2 : batch, positions = once ? 1 : length;
    Buffer<T> y(answers * positions * a.outputs);
    computing("Sequences::process", [&] {
      if (batch == 0) return;
      stream::Sequences<T> sequences(model, length);
      sequences.process(channels_last(x.data(), batch, length, model.inputs()),
                        channels_last(y.data(), answers, positions, a.outputs));
    });
    return once ? y.to_numpy({answers, a.outputs}) : y.to_numpy({answers, positions, a.outputs});
  }

  AnyModel model_;
};

Sequences load_sequences(const std::string& path) {
  return computing("Sequences", [&] { return Sequences(read_model(path)); });
}

}  // namespace

void add_sequences(nb::module_& m) {
  nb::class_<Sequences>(m, "Sequences")
      .def_prop_ro("inputs", &Sequences::inputs)
      .def_prop_ro("outputs", &Sequences::outputs)
      .def_prop_ro("vocabulary", &Sequences::vocabulary)
      .def_prop_ro("precision", &Sequences::precision)
      .def("process", &Sequences::process<float>, nb::arg("x").noconvert())
      .def("process", &Sequences::process<double>, nb::arg("x").noconvert())
      .def("process", &Sequences::process<std::int64_t>, nb::arg("x").noconvert());
  m.def("load_sequences", &load_sequences, nb::arg("path"));
}

}  // namespace rtf::python
