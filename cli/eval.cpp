// rtf eval: the scores of a run's weights, by convolution or streamed.
#include <cstdio>
#include <memory>

#include "train/launch.h"
#include "train/table.h"
#include "train_common.h"

namespace rtf::cli {
namespace {

struct EvalOptions {
  std::string run, checkpoint = "best", split, mode = "convolution", device;
};

std::string number(double value, const char* format = "%.6g") {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

void run(const EvalOptions& options) {
  const train::RunReport report =
      train::evaluate_run(options.run, options.checkpoint, options.split, options.mode, options.device);
  std::printf("%s, step %lld, by %s\n", report.checkpoint.c_str(), static_cast<long long>(report.step),
              options.mode.c_str());
  const bool streamed = report.splits.front().difference.has_value();
  std::vector<std::string> header = {"split", "samples"};
  for (const auto& [name, value] : report.splits.front().scores) header.push_back(name);
  if (streamed) header.push_back("largest difference");
  train::Table table(header);
  for (const train::SplitReport& split : report.splits) {
    std::vector<std::string> cells = {split.split, std::to_string(split.samples)};
    for (const auto& [name, value] : split.scores) cells.push_back(number(value));
    if (streamed) cells.push_back(number(*split.difference, "%.2e"));
    table.row(std::move(cells));
  }
  std::fputs(table.text().c_str(), stdout);
}

}  // namespace

void add_eval(CLI::App& app) {
  CLI::App& command = add_training_command(app, "eval",
                                           "  rtf eval runs/copying\n"
                                           "  rtf eval runs/copying --mode step --split val\n"
                                           "The modes step and prefill also print how far their outputs are from the "
                                           "convolution's,\nrelative to the largest output.");
  auto options = std::make_shared<EvalOptions>();
  command.add_option("RUN", options->run, "folder of a run")->required()->type_name("");
  command.add_option("--checkpoint", options->checkpoint, "weights: best (the default), latest or previous")
      ->check(CLI::IsMember({"best", "latest", "previous"}))
      ->type_name("NAME");
  command.add_option("--split", options->split, "val, test or train; otherwise val and test")
      ->check(CLI::IsMember({"val", "test", "train"}))
      ->type_name("NAME");
  command
      .add_option("--mode", options->mode,
                  "convolution, as in training; step, sample by sample; prefill, half of a sequence at once and then "
                  "by step")
      ->check(CLI::IsMember({"convolution", "prefill", "step"}))
      ->type_name("MODE");
  command.add_option("--device", options->device, "cpu, cuda or cuda:N; otherwise the one that the run names")
      ->type_name("DEVICE");
  command.callback([options] { run(*options); });
}

}  // namespace rtf::cli
