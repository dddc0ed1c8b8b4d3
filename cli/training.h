// The subcommands that need LibTorch: the program rtf-train serves them, rtf starts it.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace rtf::cli {

struct TrainingCommand {
  const char *name, *description;
};
inline constexpr TrainingCommand training_commands[] = {
    {"train", "Train a model as a config file says"},
    {"eval", "Evaluate the weights of a run"},
    {"export", "Write the model of a run as a file for `rtf stream` and the runtime"},
    {"runs", "List the runs below a folder"},
    {"sweep", "Train a config over lists of values, and compare"},
    {"bench", "Measure the layer, and print the paper's tables beside it"},
};

// Lists them in rtf's help. One that is called replaces this process by rtf-train with the same arguments: the one
// beside this program, else on PATH.
void add_training_commands(CLI::App& app, char** argv);

// The real one, in rtf-train.
CLI::App& add_training_command(CLI::App& app, const std::string& name, const std::string& example);

}  // namespace rtf::cli
