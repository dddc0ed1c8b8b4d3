// What rtf.export calls: numbers of a model or a filter come in, its file goes out.
#include <fmt/format.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "core/atomic_file.h"
#include "core/option_names.h"
#include "python/arrays.h"
#include "python/bindings.h"
#include "python/filter_values.h"
#include "python/realized_filter.h"
#include "rtf/export.h"
#include "stream/answer_error.h"
#include "stream/model_tensors.h"

namespace rtf::python {
namespace {

constexpr const char* operation = "export";

// a, b and h0 of a layer, or of one direction of it, and the length at which b is trained where it is.
using LayerNumbers = std::tuple<In<double>, In<double>, In<double>, std::optional<std::size_t>>;

AnyTransferFunction filter_of(const LayerNumbers& numbers) {
  const auto& [a, b, h0, length] = numbers;
  if (a.ndim() != 2 || b.ndim() != 2) refuse(operation, "the coefficients of a layer have no rows");
  const auto fill = [&](auto value) {
    value.channels = b.shape(0);
    value.groups = a.shape(0);
    value.order = b.shape(1);
    for (const auto& [from, to] : {std::pair(&a, &value.a), std::pair(&b, &value.b), std::pair(&h0, &value.h0)})
      to->assign(from->data(), from->data() + from->size());
    return value;
  };
  if (!length) return fill(TransferFunction());
  auto trained = fill(TrainedTransferFunction());
  trained.length = *length;
  return trained;
}

struct Options {
  RealizeOptions realize;
  DataType weights;

  Options(const std::string& precision, const std::string& weight_type, const std::string& realization,
          const std::optional<std::string>& stabilize)
      : weights(option_value(operation, "weights", weight_types, weight_type)) {
    realize.precision = option_value(operation, "precision", precisions, precision);
    realize.realization = option_value(operation, "realization", realization_choices, realization);
    if (stabilize) realize.stabilize = option_value(operation, "stabilize", layer_stabilize_methods, *stabilize);
    if (weights != DataType::f32 && realize.precision != DataType::f32)
      refuse(operation,
             fmt::format("weights is '{}', which goes with precision f32; f64 keeps its weights in f64", weight_type));
  }
};

// What compute() gives; its refusal of an unstable layer says what can be done.
template <class F>
Exported realized(const Options& options, F&& compute) {
  try {
    return compute();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unstable || options.realize.stabilize) throw;
    throw Error(error.code(), operation,
                without_operation(error) +
                    ": stabilize='refit' keeps its kernel as well as a stable one can, "
                    "stabilize='reflect' its magnitude response");
  }
}

// A model file that is not written yet: the answers that it should give are Python's to compute.
class ModelExport {
 public:
  // Of a model of PyTorch.
  ModelExport(std::string path, const std::string& architecture, const std::map<std::string, In<double>>& weights,
              const std::vector<LayerNumbers>& layers, const std::string& precision, const std::string& weight_type,
              const std::string& realization, const std::optional<std::string>& stabilize)
      : path_(std::move(path)) {
    check_output(path_, operation);
    const Options options(precision, weight_type, realization, stabilize);
    TrainedModel model;
    for (const auto& [name, array] : weights) model.weights[name] = {array.data(), array.data() + array.size()};
    for (const LayerNumbers& numbers : layers) model.layers.push_back(filter_of(numbers));
    computing(operation, [&] {
      model.architecture = parse_architecture(architecture, "the model");
      exported_ = realized(options, [&] { return export_model(model, options.realize); });
      if (options.weights != DataType::f32) round_weights(exported_.file, options.weights);
    });
    input_ = random_input(model.architecture);
  }

  // Of a filter, whose answers to `length` samples are compared.
  ModelExport(std::string path, const PackedFilter& from, std::size_t length, const std::string& precision,
              const std::string& weight_type, const std::string& realization,
              const std::optional<std::string>& stabilize)
      : path_(std::move(path)) {
    check_output(path_, operation);
    const Options options(precision, weight_type, realization, stabilize);
    if (options.weights != DataType::f32)
      refuse(operation, fmt::format("weights is '{}'; a filter has no matrices", weight_type));
    const FilterValue value = read_filter(operation, from);
    exported_ = computing(operation, [&] {
      return realized(options, [&] { return realize_filter(value.filter, length, options.realize); });
    });
    Architecture architecture = exported_.file.architecture;
    architecture.length = length;
    input_ = random_input(architecture);
  }

  // Tokens (batch, length), or numbers (batch, length, features).
  Out input() const {
    const Architecture& a = exported_.file.architecture;
    if (a.vocabulary > 0) return to_numpy(input_.tokens, {input_.batch, input_.length});
    return to_numpy(input_.numbers, {input_.batch, input_.length, a.features});
  }

  // Of each layer what it runs as, its precision, outermost pole, error, and drift and stabilize_error where there are.
  nb::list layers() const {
    nb::list list;
    for (const Realized& one : exported_.layers)
      list.append(nb::make_tuple(realization_name(one.layer.realization), name(one.layer.precision),
                                 one.layer.pole_radius, one.layer.error, one.drift, one.stabilize_error));
    return list;
  }

  // How far off rounding leaves the answers at most; what is off by more is another model, unless kernels were moved.
  double most() const { return exported_.file.weights ? 0.1 : 0.01; }

  // `wanted`: what the model answers to input(), in float64. Returns how far the file is off.
  double write(const In<double>& wanted) const {
    return computing(operation, [&] {
      const double error = answer_error(exported_.file, input_, values(wanted));
      check(error);
      write_model(path_, exported_.file);
      return error;
    });
  }

 private:
  void check(double error) const {
    const ModelFile& file = exported_.file;
    if (!std::isfinite(error))
      throw Error(ErrorCode::unsupported, operation,
                  std::string("the model's answers are not finite") +
                      (file.precision == DataType::f32 ? "; precision='f64' holds larger numbers" : ""));
    const bool moved = std::any_of(exported_.layers.begin(), exported_.layers.end(),
                                   [](const Realized& layer) { return layer.stabilize_error.value_or(0) > 0.001; });
    if (error <= most() || moved) return;
    const char* type = name(file.weights.value_or(file.precision));
    throw Error(ErrorCode::unsupported, operation,
                fmt::format("the file's answers to a random input are off by {:.3g} of the largest; ", error) +
                    (file.weights ? fmt::format("weights in {} do not hold this model's digits", type)
                                  : fmt::format("the model computes something that no model file says, or {} does not "
                                                "hold its digits",
                                                type)));
  }

  std::string path_;
  Exported exported_;
  ModelInput input_;
};

}  // namespace

void add_deployment(nb::module_& m) {
  nb::class_<ModelExport>(m, "ModelExport")
      .def(nb::init<std::string, const std::string&, const std::map<std::string, In<double>>&,
                    const std::vector<LayerNumbers>&, const std::string&, const std::string&, const std::string&,
                    const std::optional<std::string>&>(),
           nb::arg("path"), nb::arg("architecture"), nb::arg("weights"), nb::arg("layers"), nb::arg("precision"),
           nb::arg("weight_type"), nb::arg("realization"), nb::arg("stabilize").none())
      .def(nb::init<std::string, const PackedFilter&, std::size_t, const std::string&, const std::string&,
                    const std::string&, const std::optional<std::string>&>(),
           nb::arg("path"), nb::arg("filter"), nb::arg("length"), nb::arg("precision"), nb::arg("weight_type"),
           nb::arg("realization"), nb::arg("stabilize").none())
      .def("input", &ModelExport::input)
      .def_prop_ro("most", &ModelExport::most)
      .def_prop_ro("layers", &ModelExport::layers)
      .def("write", &ModelExport::write, nb::arg("wanted"));
}

}  // namespace rtf::python
