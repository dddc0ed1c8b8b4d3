// rtf correct: trained numerator to the numerator of the recurrence.
#include <fmt/format.h>

#include "common.h"
#include "core/atomic_file.h"
#include "rtf/correction.h"
#include "rtf/error.h"

namespace rtf::cli {
namespace {

struct CorrectOptions : CommonOptions {
  std::string output;
};

void add_options(CLI::App& command, CorrectOptions& options) {
  add_output(command, options.output, "plain filter file to write, JSON or .safetensors");
}

void run(const CorrectOptions& options) {
  check_output(options.output, "correct");
  const AnyTransferFunction filter = read_filter(options.filter);
  const auto* trained = std::get_if<TrainedTransferFunction>(&filter);
  if (!trained) {
    throw Error(ErrorCode::argument, "correct", options.filter + " has no length: it is a plain filter already");
  }
  require_memory(static_cast<double>(trained->length),
                 fmt::format("{}: the correction at length {}", options.filter, trained->length));
  write_filter(options.output, naming(options.filter, [&] { return correct(*trained); }));
  say(options, fmt::format("{}: plain filter, {} channel{}, order {}, corrected at length {}", options.output,
                           trained->channels, trained->channels == 1 ? "" : "s", trained->order, trained->length));
}

}  // namespace

void add_correct(CLI::App& app) {
  add_command<CorrectOptions>(app, "correct",
                              "Turn a filter trained by Algorithm 1 into the one to run as a recurrence",
                              "  echo '{\"a\": [-0.9], \"b\": [1], \"h0\": 0, \"length\": 64}' > trained.json\n"
                              "  rtf correct trained.json -o plain.json",
                              add_options, run);
}

}  // namespace rtf::cli
