#include <algorithm>
#include <cmath>
#include <complex>
#include <string>

#include "c_api/border.h"
#include "core/file_errors.h"
#include "core/runnable_filter.h"
#include "rtf/workspace.h"

struct rtf_filter {
  std::string path;  // for messages
  rtf::RunnableFilter filter;
  rtf::Cascade response;  // what frequency responses are computed from
  rtf::Cascade signals;   // what signals pass
};

namespace rtf::c_api {
namespace {

constexpr const char* loading = "filter_load";

// Products of sizes that the caller gives may be past what a size holds.
void check_product(const char* operation, const char* what, std::size_t size, std::size_t rows, std::size_t columns) {
  std::size_t wanted = 0;
  if (__builtin_mul_overflow(rows, columns, &wanted))
    fail(ErrorCode::argument, operation, "{} would have {} times {} values", what, rows, columns);
  check_count(operation, what, size, wanted);
}

}  // namespace
}  // namespace rtf::c_api

using namespace rtf;
using namespace rtf::c_api;

extern "C" {

rtf_status rtf_filter_load(const char* path, rtf_filter** filter) {
  return make_handle(loading, filter, [&] {
    const std::string file = &required(loading, "path", path);
    RunnableFilter runnable = read_runnable_filter(file);
    Cascade response = cascade_of(file, runnable), signals = cascade_of(file, for_signals(runnable));
    return rtf_filter{file, std::move(runnable), std::move(response), std::move(signals)};
  });
}

void rtf_filter_free(rtf_filter* filter) { delete filter; }

rtf_status rtf_filter_describe(const rtf_filter* filter, rtf_filter_info* info) {
  constexpr const char* operation = "filter_describe";
  return guarded(operation, [&] {
    const Cascade& signals = required(operation, "filter", filter).signals;
    required(operation, "info", info) = {signals.channels(), signals.order()};
  });
}

rtf_status rtf_filter_kernel(const rtf_filter* filter, size_t length, double* kernel, size_t size) {
  constexpr const char* operation = "filter_kernel";
  return guarded(operation, [&] {
    const rtf_filter& handle = required(operation, "filter", filter);
    check_product(operation, "kernel", size, handle.signals.channels(), length);
    const auto to = array(operation, "kernel", kernel, size);
    if (to.empty()) return;
    const auto found = naming(handle.path, [&] { return kernel_of(handle.path, handle.filter, length); });
    std::copy(found.begin(), found.end(), to.begin());
  });
}

rtf_status rtf_filter_frequency_response(const rtf_filter* filter, const double* angles, size_t count, double* response,
                                         size_t size) {
  constexpr const char* operation = "filter_frequency_response";
  return guarded(operation, [&] {
    const rtf_filter& handle = required(operation, "filter", filter);
    check_product(operation, "response", size, 2 * handle.response.channels(), count);
    const auto to = array(operation, "response", response, size);
    const auto at = array(operation, "angles", angles, count);
    if (to.empty()) return;
    const auto found = frequency_response(handle.response, at);
    for (std::size_t i = 0; i < found.size(); ++i) {
      to[2 * i] = found[i].real();
      to[2 * i + 1] = found[i].imag();
    }
  });
}

rtf_status rtf_filter_process(const rtf_filter* filter, const double* in, double* out, size_t size, double* state,
                              size_t state_size) {
  constexpr const char* operation = "filter_process";
  return guarded(operation, [&] {
    const rtf_filter& handle = required(operation, "filter", filter);
    const std::size_t channels = handle.signals.channels(), length = size / channels;
    if (size % channels != 0)
      fail(ErrorCode::argument, operation, "a block of {} numbers; whole samples of {} channels are needed", size,
           channels);
    const auto from = array(operation, "in", in, size);
    const auto to = array(operation, "out", out, size);
    const auto states = array(operation, "state", state, state_size);
    const bool carries = state != nullptr;
    if (carries) check_count(operation, "state", state_size, channels * handle.signals.order());
    if (from.empty()) return;
    const CascadePlan<double> plan(handle.signals, 1, length, {FilterMethod::automatic, carries, carries});
    Executor& executor = default_executor();
    Workspace workspace(plan.workspace_bytes(executor));
    if (from.data() != to.data()) std::copy(from.begin(), from.end(), to.begin());
    rtf::filter(plan, channels_last(to.data(), 1, length, channels), states, states, workspace, executor);
  });
}
}
