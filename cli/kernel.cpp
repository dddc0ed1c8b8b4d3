// rtf kernel: the impulse response of every channel.
#include "rtf/kernel.h"

#include <fmt/format.h>

#include <algorithm>

#include "common.h"
#include "core/array_bytes.h"
#include "core/atomic_file.h"
#include "core/conditioning.h"
#include "core/rounding.h"
#include "core/runnable_filter.h"
#include "rtf/response.h"

namespace rtf::cli {
namespace {

struct KernelOptions : CommonOptions {
  std::size_t length = 0;
  bool step = false;
  std::string method = "auto", dtype = "f64", output;
};

void add_options(CLI::App& command, KernelOptions& options) {
  add_count(command, "--length", options.length, "number of samples")->required();
  command
      .add_option("--method", options.method, "wrapped is Algorithm 1; a plain numerator is then taken as trained at N")
      ->type_name("METHOD")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "wrapped", "recurrence", "division", "newton"}));
  command.add_flag("--step", options.step, "write the step response, the running sum of the kernel, in its place");
  add_data_type(command, options.dtype, "type of the values written")->capture_default_str();
  add_output(command, options.output, "npy file for the kernels, shape (channels, N)");
}

// Algorithm 1 does not amplify rounding, and kernels of factors come from 106 bits.
std::string rounding_warning(const RunnableFilter& filter, const KernelOptions& options,
                             const std::vector<double>& kernels) {
  const bool from_coefficients =
      options.method == "auto" ? std::holds_alternative<TransferFunction>(filter) : options.method != "wrapped";
  if (!from_coefficients) return "";
  const double allowed = options.dtype == "f32" ? tolerance<float> : tolerance<double>;
  const TransferFunction plain = coefficients_of(options.filter, filter);
  return rounding_text(estimated_rounding(plain, kernels, options.length, allowed), allowed, options.method);
}

void run(const KernelOptions& options) {
  check_result(options, options.output, "kernel");
  const RunnableFilter filter = read_runnable_filter(options.filter);
  const std::size_t channels = channels_of(filter);
  const auto* trained = std::get_if<TrainedTransferFunction>(&filter);
  const auto points = static_cast<double>(std::max(options.length, trained ? trained->length : 0));
  require_memory(static_cast<double>(channels) * points,
                 fmt::format("{}: a kernel of {} channels and {:.0f} points", options.filter, channels, points));

  std::vector<double> kernels =
      naming(options.filter, [&] { return kernel_of(options.filter, filter, options.length, options.method); });
  if (!options.quiet) warn(options, "kernel", rounding_warning(filter, options, kernels));
  if (options.step) kernels = step_response(std::move(kernels), options.length);
  const Array array{{channels, options.length}, std::move(kernels), data_type(options.dtype)};
  write_npy(options.output, array);
  say(options, fmt::format("{}: {} {}, {}, method {}", options.output, options.step ? "step response" : "kernel",
                           shape_text(array.shape), options.dtype, options.method));
}

}  // namespace

void add_kernel(CLI::App& app) {
  add_command<KernelOptions>(app, "kernel", "Write the impulse response of every channel",
                             "  echo '{\"a\": [-0.9], \"b\": [1], \"h0\": 0}' > decay.json\n"
                             "  rtf kernel decay.json --length 100 -o k.npy",
                             add_options, run);
}

}  // namespace rtf::cli
