// What rtf.toolbox does: poles and responses, other forms, fits, lower orders, stable filters.
#include <fmt/format.h>
#include <nanobind/stl/optional.h>

#include "core/convert_filter.h"
#include "core/option_names.h"
#include "core/pole_groups.h"
#include "python/bindings.h"
#include "python/filter_values.h"
#include "rtf/correction.h"
#include "rtf/fit.h"
#include "rtf/reduce.h"
#include "rtf/response.h"
#include "rtf/stabilize.h"

namespace rtf::python {
namespace {

template <class T>
Out vector(const std::vector<T>& numbers) {
  return to_numpy(numbers, {numbers.size()});
}

nb::list vectors(const std::vector<std::vector<double>>& lists) {
  nb::list result;
  for (const auto& numbers : lists) result.append(vector(numbers));
  return result;
}

// (order) of one denominator, (denominators, order) of coefficients with rows, of a list one for each.
nb::object poles(const PackedFilter& from) {
  constexpr const char* operation = "poles";
  if (const auto* list = std::get_if<std::vector<Packed>>(&from)) {
    read_filter(operation, from);  // what cannot be a list is refused
    nb::list result;
    for (const Packed& one : *list) result.append(poles(one));
    return result;
  }
  const FilterValue value = read_with_coefficients(operation, from);
  const auto groups = computing(operation, [&] { return pole_groups("the " + form_of(from), value.filter); });
  if (!value.rows) return nb::cast(vector(groups.front().poles));
  std::vector<std::complex<double>> all;
  for (const PoleGroup& group : groups) all.insert(all.end(), group.poles.begin(), group.poles.end());
  return nb::cast(to_numpy(all, {groups.size(), all.size() / groups.size()}));
}

Out freqz(const PackedFilter& from, const In<double>& angles) {
  const RunnableValue value = read_runnable("freqz", from);
  const auto found = computing(
      "freqz", [&] { return response_of(value.filter, cascade_of(value.name, value.filter), values(angles)); });
  return to_numpy(found, value.shape(angles.size()));
}

Out group_delay(const PackedFilter& from, const In<double>& angles) {
  const RunnableValue value = read_runnable("group_delay", from);
  const auto found = computing("group_delay", [&] {
    return group_delay_of(value.filter, cascade_of(value.name, value.filter), values(angles));
  });
  return to_numpy(found, value.shape(angles.size()));
}

nb::tuple convert(const PackedFilter& from, const std::string& to, const std::string& feed_through,
                  const std::string& method, std::size_t report_length) {
  constexpr const char* operation = "convert";
  const FilterValue value = read_filter(operation, from);
  const ConversionOptions options{report_length, option_value(operation, "feed_through", feed_throughs, feed_through),
                                  option_value(operation, "method", state_space_methods, method)};
  if (options.feed_through != FeedThrough::automatic && to != "zpk")
    refuse(operation, fmt::format("feed_through is '{}', which is for zpk; to is '{}'", feed_through, to));
  if (options.method != StateSpaceMethod::automatic && (!is_state_space(value.filter) || to == "ss"))
    refuse(operation, fmt::format("method is '{}', which is for an ss to another form; {} to {} needs none", method,
                                  form_of(from), to));
  const ConvertedFilter found = computing(operation, [&] { return rtf::convert(value.filter, to, options); });
  nb::list reports, lines;
  for (const ConversionReport& report : found.reports)
    reports.append(nb::make_tuple(report.error, report.condition, report.length, report.method, report.response_error));
  for (const std::string& line : found.warnings()) lines.append("[rtf::convert] " + line);
  return nb::make_tuple(write_filter(found.filter, value.rows), reports, lines);
}

nb::tuple fit(const In<double>& kernel, std::size_t order, const std::string& method, bool shared,
              const std::string& to) {
  constexpr const char* operation = "fit";
  const Shape shape = shape_of(kernel);
  if (shape.empty() || shape.size() > 2 || kernel.size() == 0)
    refuse(operation,
           fmt::format("the kernel has shape {}; (length) or (channels, length) is needed", shape_text(shape)));
  if (to != "tf" && to != "ss") refuse(operation, fmt::format("to is '{}'; tf or ss is needed", to));
  const bool rows = shape.size() == 2;
  const std::size_t channels = rows ? shape[0] : 1;
  const FitOptions options{order, option_value(operation, "method", fit_methods, method), shared ? std::size_t{1} : 0};
  if (to == "ss") {
    const StateSpaceFit found =
        computing(operation, [&] { return fit_state_space(values(kernel), channels, shape.back(), options); });
    const std::vector<System> systems(found.systems.begin(), found.systems.end());
    return nb::make_tuple(write_filter(systems, rows), vector(found.error), vector(found.radius),
                          vectors(found.hankel));
  }
  const Fit found = computing(operation, [&] { return rtf::fit(values(kernel), channels, shape.back(), options); });
  return nb::make_tuple(write_filter(found.tf, rows), vector(found.error), vector(found.radius), vectors(found.hankel));
}

struct Reduced {
  AnyFilter filter;
  std::vector<double> error, bound;
  std::vector<std::vector<double>> hankel;
};

std::vector<System> channels_of(const AnyFilter& filter) {
  if (const auto* systems = std::get_if<std::vector<System>>(&filter)) return *systems;
  const auto* trained = std::get_if<TrainedTransferFunction>(&filter);
  return split_channels(trained ? rtf::correct(*trained) : std::get<TransferFunction>(filter));
}

Reduced reduce_to_state_space(const AnyFilter& filter, std::size_t order) {
  std::vector<StateSpace> given;
  const auto* several = std::get_if<StateSpace>(&filter);
  const auto* mimo = std::get_if<MimoTransferFunction>(&filter);
  if (several) given = {*several};
  if (mimo) given = {to_block_companion(*mimo)};
  if (given.empty())
    for (const System& channel : channels_of(filter)) given.push_back(realization(channel));
  Reduced result;
  std::vector<System> systems;
  for (const StateSpace& system : given) {
    StateSpaceReduction one = reduce(system, order);
    result.error.push_back(largest_difference(system, one.system));
    result.bound.push_back(one.bound);
    result.hankel.push_back(std::move(one.hankel));
    systems.push_back(std::move(one.system));
  }
  result.filter = several || mimo ? AnyFilter(std::get<StateSpace>(systems[0])) : AnyFilter(std::move(systems));
  return result;
}

Reduced reduce_coefficients(const AnyFilter& filter, std::size_t order) {
  const AnyTransferFunction coefficients = to_coefficients(filter, "the filter");
  const auto* trained = std::get_if<TrainedTransferFunction>(&coefficients);
  const Reduction found = reduce(trained ? rtf::correct(*trained) : std::get<TransferFunction>(coefficients), order);
  Reduced result{found.tf, found.error, {}, {}};
  if (trained) result.filter = wrap(found.tf, trained->length);
  for (std::size_t c = 0; c < found.tf.channels; ++c) {
    result.bound.push_back(found.bound[found.tf.group_of(c)]);
    result.hankel.push_back(found.hankel[found.tf.group_of(c)]);
  }
  return result;
}

nb::tuple reduce(const PackedFilter& from, std::size_t order, const std::string& to) {
  constexpr const char* operation = "reduce";
  const FilterValue value = read_filter(operation, from);
  if (to != "tf" && to != "ss") refuse(operation, fmt::format("to is '{}'; tf or ss is needed", to));
  const Reduced found = computing(operation, [&] {
    return to == "ss" ? reduce_to_state_space(value.filter, order) : reduce_coefficients(value.filter, order);
  });
  return nb::make_tuple(write_filter(found.filter, value.rows), vector(found.error), vector(found.bound),
                        vectors(found.hankel));
}

nb::tuple stabilize(const PackedFilter& from, const std::string& method_name, std::optional<std::size_t> length) {
  constexpr const char* operation = "stabilize";
  const FilterValue value = read_filter(operation, from);
  const StabilizeMethod method = option_value(operation, "method", stabilize_methods, method_name);
  const auto* systems = std::get_if<std::vector<System>>(&value.filter);
  const auto answer = [&](const auto& found) {
    return nb::make_tuple(write_filter(found.value, value.rows), vector(found.error));
  };
  if (systems && method == StabilizeMethod::reflect && std::all_of(systems->begin(), systems->end(), has_own_poles))
    return answer(computing(operation, [&] { return reflect(*systems, length.value_or(usual_kernel_length)); }));
  const AnyTransferFunction filter = computing(operation, [&] { return to_coefficients(value.filter, "the filter"); });
  const auto* trained = std::get_if<TrainedTransferFunction>(&filter);
  if (!trained)
    return answer(computing(operation, [&] {
      return rtf::stabilize(std::get<TransferFunction>(filter), method, length.value_or(usual_kernel_length));
    }));
  if (length && *length != trained->length)
    refuse(operation, fmt::format("length is {}; the filter is trained at {}, and its kernel has no other", *length,
                                  trained->length));
  return answer(computing(operation, [&] { return rtf::stabilize(*trained, method); }));
}

}  // namespace

void add_toolbox(nb::module_& m) {
  m.def(
      "angle_grid", [](std::size_t points, bool whole) { return vector(angle_grid(points, whole)); }, nb::arg("points"),
      nb::arg("whole"));
  m.def("convert", &convert, nb::arg("filter"), nb::arg("to"), nb::arg("feed_through"), nb::arg("method"),
        nb::arg("report_length"));
  m.def("fit", &fit, nb::arg("kernel"), nb::arg("order"), nb::arg("method"), nb::arg("shared"), nb::arg("to"));
  m.def("freqz", &freqz, nb::arg("filter"), nb::arg("angles"));
  m.def("group_delay", &group_delay, nb::arg("filter"), nb::arg("angles"));
  m.def("poles", &poles, nb::arg("filter"));
  m.def("reduce", &reduce, nb::arg("filter"), nb::arg("order"), nb::arg("to"));
  m.def("stabilize", &stabilize, nb::arg("filter"), nb::arg("method"), nb::arg("length").none());
}

}  // namespace rtf::python
