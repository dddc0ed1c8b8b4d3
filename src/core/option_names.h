// What options are called, on the command line and in Python. Without fmt: sources that see torch's headers, which
// bring another fmt, include it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "rtf/conversion.h"
#include "rtf/error.h"
#include "rtf/fit.h"
#include "rtf/kernel.h"
#include "rtf/realize.h"
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

inline constexpr OptionName<RealizationChoice> realization_choices[] = {{"auto", RealizationChoice::automatic},
                                                                        {"companion", RealizationChoice::companion},
                                                                        {"sos", RealizationChoice::sos},
                                                                        {"modal", RealizationChoice::modal}};
// Of exported layers.
inline constexpr OptionName<StabilizeMethod> layer_stabilize_methods[] = {{"refit", StabilizeMethod::refit},
                                                                          {"reflect", StabilizeMethod::reflect}};
inline constexpr OptionName<DataType> precisions[] = {{"f32", DataType::f32}, {"f64", DataType::f64}};
inline constexpr OptionName<DataType> weight_types[] = {
    {"f32", DataType::f32}, {"bf16", DataType::bf16}, {"int8", DataType::int8}};

// Throws "[rtf::fit] method is 'qr'; hankel, prony or iterative is needed" for a name that is not in the list.
template <class Value, std::size_t count>
Value option_value(const char* operation, const char* option, const OptionName<Value> (&names)[count],
                   const std::string& name) {
  std::string known;
  for (std::size_t i = 0; i < count; ++i) {
    if (name == names[i].name) return names[i].value;
    known += std::string(i == 0 ? "" : i + 1 == count ? " or " : ", ") + names[i].name;
  }
  throw Error(ErrorCode::argument, operation, std::string(option) + " is '" + name + "'; " + known + " is needed");
}

}  // namespace rtf
