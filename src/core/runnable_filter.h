// A filter file as signals, kernels and responses are computed from it.
#pragma once

#include <complex>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "rtf/cascade.h"
#include "rtf/filter_file.h"

namespace rtf {

// Channels that are given as poles and zeros or as sections (zpk, sos) stay so, because the coefficients of a narrow
// filter do not fit doubles. Those of any other form are transfer functions or, where these lose digits, sections
// (sos).
using RunnableFilter = std::variant<TransferFunction, TrainedTransferFunction, std::vector<System>>;

RunnableFilter read_runnable_filter(const std::string& path);
RunnableFilter to_runnable(AnyFilter filter, const std::string& path);
// Coefficients instead of factors where they hold the filter and can be run: many zeros in a row of sections amplify a
// signal and cancel.
RunnableFilter for_signals(RunnableFilter filter);

std::size_t channels_of(const RunnableFilter& filter);
std::size_t order_of(const RunnableFilter& filter);  // no less than that of any channel

// The filter of the recurrence: a trained file is corrected, and errors of that name it.
TransferFunction plain_filter(const std::string& path, const AnyTransferFunction& filter);

// The transfer function, a trained one corrected; factors are multiplied out, or refused. Errors name the file.
TransferFunction coefficients_of(const std::string& path, const RunnableFilter& filter);
// The sections in a row, or the one transfer function.
Cascade cascade_of(const std::string& path, const RunnableFilter& filter);
// Frequency responses and group delays, (channels, angles): of poles and zeros from these, else from the cascade.
std::vector<std::complex<double>> response_of(const RunnableFilter& filter, const Cascade& cascade,
                                              std::span<const double> angles);
std::vector<double> group_delay_of(const RunnableFilter& filter, const Cascade& cascade,
                                   std::span<const double> angles);
// By the poles of the file where it has them: those of sections may have been rounded.
bool is_stable(const RunnableFilter& filter, const Cascade& cascade, std::size_t channel);
// What the sections that signals pass through lose of the poles and zeros of a file over so many samples, of the
// largest value; 0 for every other form.
double rounding_of_sections(const RunnableFilter& filter, std::size_t length);
// Impulse responses, (channels, length). By "wrapped", Algorithm 1, a plain numerator counts as trained at that length;
// the other methods are "auto" and those of KernelMethod.
std::vector<double> kernel_of(const std::string& path, const RunnableFilter& filter, std::size_t length,
                              const std::string& method = "auto");
// The coefficients of a channel, none where factors that are multiplied out no longer have their kernel to 1e-9, or
// where that lives longer than what of it was compared.
std::optional<TransferFunction> held_coefficients(const System& channel);
// Those of all channels, a trained filter corrected.
std::optional<TransferFunction> coefficients_for_norms(const std::string& path, const RunnableFilter& filter);

}  // namespace rtf
