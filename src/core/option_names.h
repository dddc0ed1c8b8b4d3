// What options are called, on the command line and in Python.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <optional>
#include <string>

#include "rtf/conversion.h"
#include "rtf/error.h"
#include "rtf/fit.h"
#include "rtf/kernel.h"
#include "rtf/stabilize.h"

namespace rtf {

template <class Value>
struct OptionName {
  const char* name;
  Value value;
};

// None is Algorithm 1.
inline constexpr OptionName<std::optional<KernelMethod>> kernel_methods[] = {{"auto", KernelMethod::automatic},
                                                                             {"wrapped", std::nullopt},
                                                                             {"recurrence", KernelMethod::recurrence},
                                                                             {"division", KernelMethod::division},
                                                                             {"newton", KernelMethod::newton}};
inline constexpr OptionName<FitMethod> fit_methods[] = {
    {"hankel", FitMethod::hankel}, {"prony", FitMethod::prony}, {"iterative", FitMethod::iterative}};
inline constexpr OptionName<StabilizeMethod> stabilize_methods[] = {
    {"reflect", StabilizeMethod::reflect}, {"refit", StabilizeMethod::refit}, {"montel", StabilizeMethod::montel}};
inline constexpr OptionName<FeedThrough> feed_throughs[] = {
    {"auto", FeedThrough::automatic}, {"separate", FeedThrough::separate}, {"inside", FeedThrough::inside}};
inline constexpr OptionName<StateSpaceMethod> state_space_methods[] = {{"auto", StateSpaceMethod::automatic},
                                                                       {"eigenvalues", StateSpaceMethod::eigenvalues},
                                                                       {"markov", StateSpaceMethod::markov}};

// Throws "[rtf::fit] method is 'qr'; hankel, prony or iterative is needed" for a name that is not in the list.
template <class Value, std::size_t count>
Value option_value(const char* operation, const char* option, const OptionName<Value> (&names)[count],
                   const std::string& name) {
  std::string known;
  for (std::size_t i = 0; i < count; ++i) {
    if (name == names[i].name) return names[i].value;
    known += fmt::format("{}{}", i == 0 ? "" : i + 1 == count ? " or " : ", ", names[i].name);
  }
  throw Error(ErrorCode::argument, operation, fmt::format("{} is '{}'; {} is needed", option, name, known));
}

}  // namespace rtf
