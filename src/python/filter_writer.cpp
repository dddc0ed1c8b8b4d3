#include <algorithm>
#include <complex>

#include "python/filter_values.h"

namespace rtf::python {
namespace {

nb::object packed(const char* name, nb::tuple fields) { return nb::make_tuple(name, std::move(fields)); }

nb::object coefficients(const char* name, const Coefficients& tf, bool rows, nb::object length = {}) {
  const std::size_t n = tf.order;
  const nb::object a = nb::cast(to_numpy(tf.a, rows ? Shape{tf.groups, n} : Shape{n}));
  const nb::object b = nb::cast(to_numpy(tf.b, rows ? Shape{tf.channels, n} : Shape{n}));
  const nb::object h0 = rows ? nb::cast(to_numpy(tf.h0, {tf.channels})) : nb::cast(tf.h0[0]);
  return packed(name, length.is_valid() ? nb::make_tuple(a, b, h0, length) : nb::make_tuple(a, b, h0));
}

nb::object written(const StateSpace& system) {
  const std::size_t n = system.order;
  return packed("ss", nb::make_tuple(to_numpy(system.A, {n, n}), to_numpy(system.B, {n, system.inputs}),
                                     to_numpy(system.C, {system.outputs, n}),
                                     to_numpy(system.D, {system.outputs, system.inputs})));
}

nb::object list_of(const std::vector<std::complex<double>>& numbers) {
  return nb::cast(to_numpy(numbers, {numbers.size()}));
}

struct Writer {
  nb::object operator()(const TransferFunction& tf) const { return coefficients("tf", tf, false); }
  nb::object operator()(const PolynomialRatio& ratio) const {
    return packed("ba", nb::make_tuple(to_numpy(ratio.b, {ratio.b.size()}), to_numpy(ratio.a, {ratio.a.size()})));
  }
  nb::object operator()(const StateSpace& system) const { return written(system); }
  nb::object operator()(const Modal& modal) const {
    return packed("modal", nb::make_tuple(list_of(modal.poles), list_of(modal.residues), modal.h0));
  }
  nb::object operator()(const ZeroPoleGain& zpk) const {
    return packed("zpk", nb::make_tuple(list_of(zpk.zeros), list_of(zpk.poles), zpk.gain, zpk.h0));
  }
  nb::object operator()(const SecondOrderSections& sos) const {
    Buffer<double> rows(6 * sos.sections.size());
    for (std::size_t i = 0; i < sos.sections.size(); ++i)
      std::copy(sos.sections[i].begin(), sos.sections[i].end(), rows.data() + 6 * i);
    return packed("sos", nb::make_tuple(rows.to_numpy({sos.sections.size(), 6})));
  }
};

}  // namespace

nb::object write_filter(const AnyFilter& filter, bool rows) {
  if (const auto* tf = std::get_if<TransferFunction>(&filter)) return coefficients("tf", *tf, rows);
  if (const auto* trained = std::get_if<TrainedTransferFunction>(&filter))
    return coefficients("trained", *trained, rows, nb::cast(trained->length));
  if (const auto* system = std::get_if<StateSpace>(&filter)) return written(*system);
  if (const auto* mimo = std::get_if<MimoTransferFunction>(&filter))
    return packed("mimo", nb::make_tuple(to_numpy(mimo->a, {mimo->order}),
                                         to_numpy(mimo->b, {mimo->outputs, mimo->inputs, mimo->order}),
                                         to_numpy(mimo->h0, {mimo->outputs, mimo->inputs})));
  const auto& systems = std::get<std::vector<System>>(filter);
  if (!rows) return std::visit(Writer(), systems.front());
  nb::list list;
  for (const System& system : systems) list.append(std::visit(Writer(), system));
  return list;
}

}  // namespace rtf::python
