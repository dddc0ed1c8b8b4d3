#include "core/pole_groups.h"

#include <fmt/format.h>

#include "core/file_errors.h"
#include "rtf/conversion.h"
#include "rtf/stability.h"

namespace rtf {
namespace {

PoleGroup group_of(std::span<const double> a) {
  TransferFunction tf = make_coefficients(1, 1, a.size());
  tf.a.assign(a.begin(), a.end());
  return {poles(System(tf)), pole_radius(a), is_stable(a)};
}

}  // namespace

std::vector<PoleGroup> pole_groups(const std::string& path, const AnyFilter& filter) {
  // Several inputs and outputs have one denominator.
  if (const auto* mimo = std::get_if<MimoTransferFunction>(&filter)) return {group_of(mimo->a)};
  if (const auto* matrices = std::get_if<StateSpace>(&filter)) {
    StateSpace system = *matrices;
    system.inputs = system.outputs = 1;  // whatever goes in and comes out, the poles are those of A
    system.B.assign(system.order, 1.0);
    system.C = system.B;
    system.D = {0.0};
    return {naming(path, [&] {
      return PoleGroup{poles(System(system)), pole_radius(System(system)), is_stable(System(system))};
    })};
  }
  std::vector<PoleGroup> groups;
  if (const auto* systems = std::get_if<std::vector<System>>(&filter); systems && !is_ratio(systems->front())) {
    for (const System& system : *systems)
      groups.push_back(naming(path, [&] { return PoleGroup{poles(system), pole_radius(system), is_stable(system)}; }));
    return groups;
  }
  const AnyTransferFunction held = to_coefficients(filter, path);
  const Coefficients& c = std::visit([](const auto& tf) -> const Coefficients& { return tf; }, held);
  require_memory(static_cast<double>(c.order) * static_cast<double>(c.order),
                 fmt::format("{}: eigenvalues at order {}", path, c.order));
  for (std::size_t g = 0; g < c.groups; ++g) {
    const std::span<const double> a(c.a.data() + g * c.order, c.order);
    groups.push_back(group_of(a));
  }
  return groups;
}

}  // namespace rtf
