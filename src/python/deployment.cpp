// What rtf.export calls: a model's numbers come in, its file goes out.
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

// A model file that is not written yet: the answers that it should give are PyTorch's to compute.
class ModelExport {
 public:
  ModelExport(std::string path, const std::string& architecture, const std::map<std::string, In<double>>& weights,
              const std::vector<LayerNumbers>& layers, const std::string& precision, const std::string& weight_type,
              const std::string& realization, const std::optional<std::string>& stabilize)
      : path_(std::move(path)) {
    check_output(path_, operation);
    RealizeOptions options;
    options.precision = option_value(operation, "precision", precisions, precision);
    options.realization = option_value(operation, "realization", realization_choices, realization);
    if (stabilize) options.stabilize = option_value(operation, "stabilize", layer_stabilize_methods, *stabilize);
    const DataType narrow = option_value(operation, "weights", weight_types, weight_type);
    if (narrow != DataType::f32 && options.precision != DataType::f32)
      refuse(operation,
             fmt::format("weights is '{}', which goes with precision f32; f64 keeps its weights in f64", weight_type));
    TrainedModel model;
    for (const auto& [name, array] : weights) model.weights[name] = {array.data(), array.data() + array.size()};
    for (const LayerNumbers& numbers : layers) model.layers.push_back(filter_of(numbers));
    computing(operation, [&] {
      model.architecture = parse_architecture(architecture, "the model");
      try {
        exported_ = export_model(model, options);
      } catch (const Error& error) {
        if (error.code() != ErrorCode::unstable || stabilize) throw;
        throw Error(error.code(), operation,
                    without_operation(error) +
                        ": stabilize='refit' keeps its kernel as well as a stable one can, "
                        "stabilize='reflect' its magnitude response");
      }
      if (narrow != DataType::f32) round_weights(exported_.file, narrow);
    });
    input_ = random_input(model.architecture);
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

  // `wanted`: what the model answers to input(), in float64. Returns how far the file is off. Where no kernel was moved
  // that is rounding, of int8 at most a hundredth: a tenth is another model.
  double write(const In<double>& wanted) const {
    return computing(operation, [&] {
      const double error = answer_error(exported_.file, input_, values(wanted));
      if (!std::isfinite(error))
        throw Error(ErrorCode::unsupported, operation,
                    std::string("the model's answers are not finite") +
                        (exported_.file.precision == DataType::f32 ? "; precision='f64' holds larger numbers" : ""));
      const auto moved = [](const Realized& layer) { return layer.stabilize_error.has_value(); };
      if (error > 0.1 && std::none_of(exported_.layers.begin(), exported_.layers.end(), moved))
        throw Error(ErrorCode::unsupported, operation,
                    fmt::format("the file's answers to a random input are off by {:.3g} of the largest; the model "
                                "computes something that no model file says, or loses its digits in {}",
                                error, name(exported_.file.precision)));
      write_model(path_, exported_.file);
      return error;
    });
  }

 private:
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
      .def("input", &ModelExport::input)
      .def_prop_ro("layers", &ModelExport::layers)
      .def("write", &ModelExport::write, nb::arg("wanted"));
}

}  // namespace rtf::python
