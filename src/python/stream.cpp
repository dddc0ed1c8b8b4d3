// One stream through a model file or a filter: what rtf.Stream wraps.
#include "rtf/stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <type_traits>

#include "core/option_names.h"
#include "python/bindings.h"
#include "python/filter_values.h"
#include "python/realized_filter.h"

namespace rtf::python {
namespace {

using stream::Model;
using stream::Streams;

// A Streams of capacity 1. Calls wait for each other: the lock of Python is not held while one runs.
class Stream {
  template <class T>
  struct Runs {
    Model<T> model;
    Streams<T> streams;

    explicit Runs(const Model<T>& m) : model(checked(m)), streams(m, 1) { streams.join(); }

    static const Model<T>& checked(const Model<T>& m) {
      if (m.architecture().decoder == Architecture::Decoder::pair)
        refuse("stream", "the model compares two sequences: it has no answer for one stream; rtf.Sequences runs it");
      if (m.architecture().bidirectional)
        refuse("stream",
               "the model is bidirectional: it cannot be streamed; rtf.Sequences runs it over whole sequences");
      return m;
    }
  };

  static constexpr std::size_t only[] = {0};

  template <class F>
  auto locked(const char* operation, F&& use) {
    return computing(std::string("stream::") + operation, [&] {
      const std::lock_guard one_at_a_time(*mutex_);
      return use();
    });
  }

  template <class F>
  auto with(const char* operation, F&& use) {
    return locked(operation, [&] { return std::visit(use, runs_); });
  }

  // Tokens go into a model of either precision, numbers into that of their own.
  template <class In, class F>
  auto visit_numbers(const char* operation, F&& use) {
    using Result = decltype(use(std::get<Runs<std::conditional_t<std::is_same_v<In, float>, float, double>>>(runs_)));
    return std::visit(
        [&]<class T>(Runs<T>& runs) -> Result {
          if constexpr (std::is_same_v<In, std::int64_t> || std::is_same_v<In, T>) return use(runs);
          refuse(std::string("stream::") + operation, fmt::format("the model takes numbers of {}", precision()));
        },
        runs_);
  }

  template <class In>
  std::size_t check_block(const char* operation, const python::In<In>& x) const {
    if (x.ndim() != 2 || x.shape(1) != inputs())
      refuse(std::string("stream::") + operation,
             fmt::format("x has shape {}; (length, {}) is needed", shape_text(shape_of(x)), inputs()));
    return x.shape(0);
  }

  template <class In, class T>
  Buffer<T> answers(const char* operation, Runs<T>& runs, const In* x, std::size_t length) {
    Buffer<T> y(length * outputs());
    locked(operation, [&] {
      runs.streams.process(only, channels_last(x, 1, length, inputs()), channels_last(y.data(), 1, length, outputs()));
    });
    return y;
  }

 public:
  template <class T>
  explicit Stream(const Model<T>& model) : runs_(Runs<T>(model)) {}

  explicit Stream(const ModelFile& file)
      : Stream(file.precision == DataType::f32 ? Stream(Model<float>(file)) : Stream(Model<double>(file))) {}

  Stream(Stream&& other) noexcept : runs_(std::move(other.runs_)) {}

  const Architecture& architecture() const {
    return std::visit([](const auto& runs) -> const Architecture& { return runs.model.architecture(); }, runs_);
  }
  std::size_t inputs() const {
    return std::visit([](const auto& runs) { return runs.model.inputs(); }, runs_);
  }
  std::size_t outputs() const { return architecture().outputs; }
  std::size_t vocabulary() const { return architecture().vocabulary; }
  const char* precision() const { return std::holds_alternative<Runs<float>>(runs_) ? "f32" : "f64"; }

  bool finite() {
    return with("finite", [](auto& runs) { return runs.streams.finite(0); });
  }
  void reset() {
    with("reset", [](auto& runs) { runs.streams.reset(0); });
  }

  template <class In>
  Out step(const python::In<In>& x) {
    return visit_numbers<In>("step", [&](auto& runs) {
      if (x.ndim() != 1 || x.shape(0) != inputs())
        refuse("stream::step", fmt::format("x has shape {}; ({}) is needed", shape_text(shape_of(x)), inputs()));
      return answers("step", runs, x.data(), 1).to_numpy({outputs()});
    });
  }

  template <class In>
  Out process(const python::In<In>& x) {
    return visit_numbers<In>("process", [&](auto& runs) {
      const std::size_t length = check_block("process", x);
      return answers("process", runs, x.data(), length).to_numpy({length, outputs()});
    });
  }

  template <class In>
  void prefill(const python::In<In>& x) {
    visit_numbers<In>("prefill", [&](auto& runs) {
      const std::size_t length = check_block("prefill", x);
      locked("prefill", [&] { runs.streams.prefill(only, channels_last(x.data(), 1, length, inputs())); });
    });
  }

  Out answer() {
    return std::visit(
        [&]<class T>(Runs<T>& runs) {
          Buffer<T> y(outputs());
          locked("answer", [&] { runs.streams.answer(0, y.span()); });
          return y.to_numpy({outputs()});
        },
        runs_);
  }

  nb::bytes save() {
    const auto bytes = with("save", [](auto& runs) {
      std::vector<std::byte> state(runs.model.state_bytes());
      runs.streams.save(0, state);
      return state;
    });
    return nb::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }

  void restore(const nb::bytes& state) {
    const std::span bytes(reinterpret_cast<const std::byte*>(state.c_str()), state.size());
    with("restore", [&](auto& runs) { runs.streams.restore(0, bytes); });
  }

  Stream fork() {
    return with("fork", [](auto& runs) {
      std::vector<std::byte> state(runs.model.state_bytes());
      runs.streams.save(0, state);
      Stream other(runs.model);
      std::visit([&](auto& copy) { copy.streams.restore(0, state); }, other.runs_);
      return other;
    });
  }

 private:
  std::variant<Runs<float>, Runs<double>> runs_;
  std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();
};

Stream load_stream(const std::string& path) {
  return computing("stream", [&] { return Stream(read_model(path)); });
}

Stream filter_stream(const PackedFilter& from, const std::string& precision) {
  constexpr const char* operation = "stream";
  constexpr std::size_t length = 1024;
  RealizeOptions options;
  options.precision = option_value(operation, "precision", precisions, precision);
  const FilterValue value = read_filter(operation, from);
  return computing(operation, [&] { return Stream(realize_filter(value.filter, length, options).file); });
}

}  // namespace

void add_stream(nb::module_& m) {
  nb::class_<Stream>(m, "Stream")
      .def_prop_ro("inputs", &Stream::inputs)
      .def_prop_ro("outputs", &Stream::outputs)
      .def_prop_ro("vocabulary", &Stream::vocabulary)
      .def_prop_ro("precision", &Stream::precision)
      .def_prop_ro("finite", &Stream::finite)
      .def("step", &Stream::step<float>, nb::arg("x").noconvert())
      .def("step", &Stream::step<double>, nb::arg("x").noconvert())
      .def("step", &Stream::step<std::int64_t>, nb::arg("x").noconvert())
      .def("process", &Stream::process<float>, nb::arg("x").noconvert())
      .def("process", &Stream::process<double>, nb::arg("x").noconvert())
      .def("process", &Stream::process<std::int64_t>, nb::arg("x").noconvert())
      .def("prefill", &Stream::prefill<float>, nb::arg("x").noconvert())
      .def("prefill", &Stream::prefill<double>, nb::arg("x").noconvert())
      .def("prefill", &Stream::prefill<std::int64_t>, nb::arg("x").noconvert())
      .def("answer", &Stream::answer)
      .def("reset", &Stream::reset)
      .def("save", &Stream::save)
      .def("restore", &Stream::restore, nb::arg("state"))
      .def("fork", &Stream::fork);
  m.def("load_stream", &load_stream, nb::arg("path"));
  m.def("filter_stream", &filter_stream, nb::arg("filter"), nb::arg("precision"));
}

}  // namespace rtf::python
