// rtf wrap: plain numerator to the one Algorithm 1 trains, the inverse of rtf correct.
#include <fmt/format.h>

#include "common.h"
#include "core/atomic_file.h"
#include "rtf/correction.h"
#include "rtf/error.h"

namespace rtf::cli {
namespace {

struct WrapOptions : CommonOptions {
  std::size_t length = 0;
  std::string output;
};

void add_options(CLI::App& command, WrapOptions& options) {
  add_count(command, "--length", options.length, "truncation length of Algorithm 1")->required();
  add_output(command, options.output, "trained filter file to write, JSON or .safetensors");
}

void run(const WrapOptions& options) {
  check_output(options.output, "wrap");
  const AnyTransferFunction filter = read_filter(options.filter);
  const auto* plain = std::get_if<TransferFunction>(&filter);
  if (!plain) {
    throw Error(ErrorCode::argument, "wrap",
                fmt::format("{} is trained at length {} already; run rtf correct first", options.filter,
                            std::get<TrainedTransferFunction>(filter).length));
  }
  require_memory(static_cast<double>(options.length), fmt::format("wrapping at length {}", options.length));
  write_filter(options.output, naming(options.filter, [&] { return wrap(*plain, options.length); }));
  say(options, fmt::format("{}: trained filter, {} channel{}, order {}, length {}", options.output, plain->channels,
                           plain->channels == 1 ? "" : "s", plain->order, options.length));
}

}  // namespace

void add_wrap(CLI::App& app) {
  add_command<WrapOptions>(app, "wrap", "Turn a plain filter into the form Algorithm 1 trains at a length",
                           "  echo '{\"a\": [-0.9], \"b\": [1], \"h0\": 0}' > plain.json\n"
                           "  rtf wrap plain.json --length 64 -o trained.json",
                           add_options, run);
}

}  // namespace rtf::cli
